// Draws the chosen measure against the chosen cost for every data set, and the front of the families that are checked.
const points = JSON.parse(document.getElementById("points").textContent);
const [left, right, top_, bottom] = [50, 705, 15, 330];

function element(parent, tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function front(shown, measure, cost) {
  let best = -1;
  const sorted = [...shown].sort((a, b) => a[cost] - b[cost] || b[measure] - a[measure]);
  return sorted.filter(point => point[measure] > best && ((best = point[measure]), true));
}

function rounded(value) {
  return value < 1 ? Number(value.toPrecision(2)) : value;
}

function draw(svg, shown, measure, cost, costName) {
  svg.replaceChildren();
  if (!shown.length) {
    element(svg, "text", { x: 360, y: 180, "text-anchor": "middle" }, "Nothing to show: no labels, or no family is checked.");
    return;
  }
  const logs = shown.map(point => Math.log2(point[cost]));
  const [low, high] = [Math.floor(Math.min(...logs)), Math.max(Math.ceil(Math.max(...logs)), Math.floor(Math.min(...logs)) + 1)];
  const most = Math.max(...shown.map(point => point[measure]), 0.1);
  const x = point => left + (right - left) * (Math.log2(point[cost]) - low) / (high - low);
  const y = value => bottom - (bottom - top_) * value / most;
  for (let tick = low; tick <= high; tick += Math.ceil((high - low) / 10)) {
    const at = left + (right - left) * (tick - low) / (high - low);
    element(svg, "line", { x1: at, x2: at, y1: bottom, y2: bottom + 5, class: "axis" });
    element(svg, "text", { x: at, y: bottom + 20, "text-anchor": "middle" }, rounded(2 ** tick));
  }
  for (let part = 0; part <= 4; part++) {
    const value = most * part / 4;
    element(svg, "line", { x1: left - 5, x2: left, y1: y(value), y2: y(value), class: "axis" });
    element(svg, "text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(2));
  }
  element(svg, "path", { d: `M${left} ${top_}V${bottom}H${right}`, class: "axis", fill: "none" });
  element(svg, "text", { x: right, y: bottom + 40, "text-anchor": "end" }, `${costName} (log)`);
  const line = front(shown, measure, cost).map(point => `${x(point)},${y(point[measure])}`).join(" ");
  element(svg, "polyline", { points: line, class: "line" });
  for (const point of shown) {
    const dot = element(svg, "circle", { cx: x(point), cy: y(point[measure]), r: 4.5, style: `fill: var(--series-${point.series})` });
    element(dot, "title", {}, `${point.family}: ${point.name}, ${rounded(point[cost])} ${costName}, ${point[measure].toFixed(3)}`);
  }
}

function update() {
  const chosen = document.getElementById("data").value;
  const measure = document.getElementById("measure").value;
  const costs = document.getElementById("cost");
  const [cost, costName] = [costs.value, costs.selectedOptions[0].textContent];
  const only = document.getElementById("only").checked;
  const families = new Set([...document.querySelectorAll(".family:checked")].map(box => box.value));
  for (const section of document.querySelectorAll(".set")) {
    const name = section.dataset.name;
    section.hidden = chosen !== "" && chosen !== name;
    const shown = points.filter(point => point.data === name && families.has(point.family) && point[measure] !== null);
    const best = front(shown, measure, cost);
    const names = new Set(best.map(point => `${point.family} ${point.name}`));
    for (const row of section.querySelectorAll("tbody tr"))
      row.hidden = !families.has(row.dataset.family) || (only && !names.has(`${row.dataset.family} ${row.dataset.name}`));
    draw(section.querySelector("svg"), shown, measure, cost, costName);
    section.querySelector(".front").textContent =
      best.map(point => `${point.name} (${rounded(point[cost])}: ${point[measure].toFixed(3)})`).join(", ") || "nobody";
  }
}

document.querySelector("main").addEventListener("change", update);
update();
