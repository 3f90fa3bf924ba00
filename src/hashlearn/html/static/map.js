// The map: every item a point of its cluster's color, many items a shade. Drag to move, wheel or pinch to zoom.
const MOST_PICTURES = 150;
const WIDE = 62, TALL = 48;  // room of a picture where not all are drawn
const MOST_LOOKED_AT = 20000;
let known = null;  // the points, and the part of them that is looked at: they stay while filters change

// ``go`` is called with the address of what somebody chose.
export async function drawMap(map, go) {
  if (!map) return;
  const n = Number(map.dataset.map);
  const side = Number(map.dataset.side);
  const canvas = map.querySelector("canvas");
  const tools = map.querySelector("[data-map-tools]");
  const isKnown = known?.address === map.dataset.points;
  const [answer, masked] = await Promise.all([
    isKnown || fetch(map.dataset.points),
    map.dataset.mask && fetch(map.dataset.mask),
  ]);
  if (!isKnown) {
    if (!answer.ok) return;
    const middle = { scale: 1, x: side / 2, y: side / 2 };
    known = { address: map.dataset.points, content: await answer.arrayBuffer(), view: middle };
  }
  tools.hidden = false;
  const { content, view } = known;
  const xs = new Uint16Array(content, 0, n);
  const ys = new Uint16Array(content, 2 * n, n);
  const labels = new Uint8Array(content, 4 * n, n);
  const colors = palette(map);
  const bits = masked ? new Uint8Array(await masked.arrayBuffer()) : null;
  const isChosen = i => !bits || (bits[i >> 3] >> (7 - (i & 7))) & 1;
  let width = 0, height = 0, pixel = 1, lasso = null, tool = "move";

  // Pixels of a step on the map, across and down: the whole map fills the frame.
  const across = () => width / side * 0.94 * view.scale;
  const down = () => height / side * 0.94 * view.scale;
  const toScreen = (x, y) => [(x - view.x) * across() + width / 2, (y - view.y) * down() + height / 2];
  const toMap = (x, y) => [(x - width / 2) / across() + view.x, (y - height / 2) / down() + view.y];

  function draw() {
    const paper = canvas.getContext("2d");
    const w = canvas.width, h = canvas.height;
    const image = paper.createImageData(w, h);
    const pixels = new Uint32Array(image.data.buffer);
    const strengths = new Uint8Array(w * h);
    const wide = across() * pixel, tall = down() * pixel;
    // Few points on the screen are drawn large, many small; a point that falls on others makes them stronger.
    const radius = Math.max(0, Math.min(5, Math.round(Math.sqrt(w * h / n) * 0.2 * Math.sqrt(view.scale))));
    const brush = brushOf(radius);
    const left = w / 2 - view.x * wide, top = h / 2 - view.y * tall;
    const pale = 0x909090;
    for (let i = 0; i < n; i++) {
      const chosen = isChosen(i);
      const px = (xs[i] * wide + left) | 0, py = (ys[i] * tall + top) | 0;
      if (px < radius || py < radius || px >= w - radius || py >= h - radius) continue;
      const color = chosen ? colors[labels[i]] : pale;
      for (let at = 0; at < brush.length; at += 3) {
        const place = (py + brush[at + 1]) * w + px + brush[at];
        if (!chosen) {
          pixels[place] ||= color | (40 << 24);
          continue;
        }
        const share = brush[at + 2];
        strengths[place] = Math.min(255, Math.max(strengths[place] + 40 * share, 150 * share));
        pixels[place] = color | (strengths[place] << 24);
      }
    }
    paper.putImageData(image, 0, 0);
    const named = placeNames();
    if ("pictures" in map.dataset) drawPictures(paper, named);
    if (lasso?.length > 1) {
      paper.beginPath();
      for (const [x, y] of lasso) paper.lineTo(...toScreen(x, y).map(value => value * pixel));
      paper.closePath();
      paper.strokeStyle = getComputedStyle(canvas).color;
      paper.lineWidth = 2 * pixel;
      paper.setLineDash([6 * pixel, 4 * pixel]);
      paper.stroke();
    }
  }

  // Where few items are seen, their pictures stand in for their points; of many, those that do not cover each other
  // and no name.
  const pictures = new Map();
  function drawPictures(paper, named) {
    const all = [], apart = [];
    const wide = WIDE * pixel, tall = TALL * pixel;
    const open = (x, y) => !named.some(([left, top, right, bottom]) =>
      x > left * pixel - wide / 2 && x < right * pixel + wide / 2 && y > top * pixel - tall / 2 && y < bottom * pixel + tall / 2);
    const free = (x, y) => open(x, y) && !apart.some(other => Math.abs(other[1] - x) < wide && Math.abs(other[2] - y) < tall);
    for (let i = 0; i < n; i++) {
      if (!isChosen(i)) continue;
      const [x, y] = toScreen(xs[i], ys[i]).map(value => value * pixel);
      if (x <= 0 || y <= 0 || x >= canvas.width || y >= canvas.height) continue;
      if (all.length <= MOST_PICTURES) all.push([i, x, y]);
      if (i < MOST_LOOKED_AT && apart.length < MOST_PICTURES && free(x, y)) apart.push([i, x, y]);
    }
    const seen = all.length <= MOST_PICTURES ? all : apart;
    const room = seen === all ? 28 * Math.sqrt(view.scale) + 400 / Math.sqrt(seen.length + 1) : 0.9 * WIDE;
    const longest = Math.max(36, Math.min(120, room)) * pixel, tallest = seen === all ? longest : 0.9 * TALL * pixel;
    for (const [i, x, y] of seen) {
      if (!pictures.has(i)) {
        const picture = new Image();
        picture.addEventListener("load", redraw);
        pictures.set(i, picture);
        picture.src = `/page/thumbnail?place=${i}`;
      }
      const picture = pictures.get(i);
      if (!picture.naturalWidth) continue;
      const scale = Math.min(longest / picture.naturalWidth, tallest / picture.naturalHeight);
      const w = picture.naturalWidth * scale, h = picture.naturalHeight * scale;
      // what lies at the edge is moved inside of the frame
      const left = Math.min(Math.max(x - w / 2, 4), canvas.width - w - 4), top = Math.min(Math.max(y - h / 2, 4), canvas.height - h - 4);
      paper.drawImage(picture, left, top, w, h);
      const color = colors[labels[i]];
      paper.strokeStyle = `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;
      paper.lineWidth = 2 * pixel;
      paper.strokeRect(left, top, w, h);
    }
  }

  // Names of large clusters first; one that would cover another waits for a closer look. The boxes that they take.
  function placeNames() {
    const taken = [[tools.offsetLeft, 0, width, tools.offsetTop + tools.offsetHeight]];
    const names = [...map.querySelectorAll(".names a")].sort((a, b) => b.dataset.size - a.dataset.size);
    for (const name of names) {
      const [x, y] = toScreen(Number(name.dataset.x), Number(name.dataset.y));
      name.hidden = false;
      const half = name.offsetWidth / 2, middle = Math.min(Math.max(x, half), width - half);
      const box = [middle - half, y - 12, middle + half, y + 12];
      const covered = taken.some(other => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
      name.hidden = covered || x < 0 || y < 0 || x > width || y > height;
      if (name.hidden) continue;
      taken.push(box);
      name.style.left = `${middle}px`;
      name.style.top = `${y}px`;
      name.style.borderColor = name.dataset.color;
    }
    return taken;
  }

  let waiting = false;
  const redraw = () => {
    map.classList.toggle("near", view.scale > 1);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (width && height) draw();  // nothing is seen of a map that another one has replaced
    });
  };
  const zoomAt = (factor, x = width / 2, y = height / 2) => {
    const [before, above] = toMap(x, y);
    view.scale = Math.min(400, Math.max(0.5, view.scale * factor));
    const [after, below] = toMap(x, y);
    view.x += before - after;
    view.y += above - below;
    redraw();
  };

  new ResizeObserver(() => {
    width = map.clientWidth;
    height = map.clientHeight;
    pixel = Math.min(2, devicePixelRatio || 1);
    canvas.width = width * pixel;
    canvas.height = height * pixel;
    redraw();
  }).observe(map);

  let grid = null;  // made when the pointer first asks: a million points take some time
  const nearest = (...place) => (grid ??= nearestOf(xs, ys, side))(...place);
  const over = map.querySelector("[data-over]");
  let asked = -1;
  const point = async (x, y) => {
    const found = nearest(...toMap(x, y), 12 / across());
    if (found < 0) {
      asked = -1;
      over.hidden = true;
      return;
    }
    if (found === asked) return;
    asked = found;
    await new Promise(resolve => setTimeout(resolve, 60));
    if (asked !== found) return;
    const item = await (await fetch(`/page/place?place=${found}`)).json();
    if (asked !== found || !item.id) return;
    over.replaceChildren();
    if (item.has_picture) {
      const image = document.createElement("img");
      image.src = `/page/thumbnail?id=${encodeURIComponent(item.id)}`;
      image.alt = "";
      over.append(image);
    }
    const said = document.createElement("p");
    said.textContent = [item.text ?? item.name, item.said].filter(Boolean).join(" · ");
    over.append(said);
    over.dataset.id = item.id;
    over.hidden = false;
    const [px, py] = toScreen(xs[found], ys[found]);
    over.style.left = `${Math.min(px + 14, Math.max(0, width - 190))}px`;
    over.style.top = `${Math.min(py + 14, Math.max(0, height - 200))}px`;
  };

  const touches = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    touches.set(event.pointerId, [event.offsetX, event.offsetY]);
    moved = 0;
    if (tool === "lasso") lasso = [toMap(event.offsetX, event.offsetY)];
  });
  canvas.addEventListener("pointermove", event => {
    const here = [event.offsetX, event.offsetY];
    const before = touches.get(event.pointerId);
    if (!before) return void point(...here);
    moved += Math.abs(here[0] - before[0]) + Math.abs(here[1] - before[1]);
    if (tool === "lasso") {
      lasso.push(toMap(...here));
    } else if (touches.size === 2) {
      const [other] = [...touches].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const length = place => Math.hypot(place[0] - other[0], place[1] - other[1]);
      zoomAt(length(here) / (length(before) || 1), (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
      view.x -= (here[0] - before[0]) / 2 / across();
      view.y -= (here[1] - before[1]) / 2 / down();
    } else {
      view.x -= (here[0] - before[0]) / across();
      view.y -= (here[1] - before[1]) / down();
    }
    touches.set(event.pointerId, here);
    redraw();
  });
  canvas.addEventListener("pointerup", event => {
    touches.delete(event.pointerId);
    if (tool === "lasso" && lasso?.length > 2) choose(lasso, side, go);
    else if (moved < 4) {
      const found = nearest(...toMap(event.offsetX, event.offsetY), 12 / across());
      if (found >= 0) fetch(`/page/place?place=${found}`).then(async answer => {
        const { id } = await answer.json();
        if (id) location.assign(`/?id=${encodeURIComponent(id)}`);
      });
    }
  });
  canvas.addEventListener("pointercancel", event => touches.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => (over.hidden = true));
  // On the whole map, so that a name under the pointer does not take the wheel.
  map.addEventListener("wheel", event => {
    if (!event.cancelable) return;  // a movement of the page that began elsewhere goes on
    const { left, top } = map.getBoundingClientRect();
    const isPageNext = event.deltaY > 0 || top < 0;
    if (view.scale <= 1 && isPageNext && !event.ctrlKey) return;  // the whole map is seen: the page moves
    event.preventDefault();
    zoomAt(Math.exp(-event.deltaY / 300), event.clientX - left - map.clientLeft, event.clientY - top - map.clientTop);
  }, { passive: false });
  canvas.addEventListener("keydown", event => {
    const [x, y] = [60 / across(), 60 / down()];
    const moves = { ArrowLeft: [-x, 0], ArrowRight: [x, 0], ArrowUp: [0, -y], ArrowDown: [0, y] };
    if (moves[event.key]) {
      event.preventDefault();
      view.x += moves[event.key][0];
      view.y += moves[event.key][1];
      redraw();
    }
    if (event.key === "+" || event.key === "=") zoomAt(1.5);
    if (event.key === "-") zoomAt(1 / 1.5);
    // What is seen now is chosen: the same as drawing a line around it.
    if (event.key === "Enter") choose([[0, 0], [width, 0], [width, height], [0, height]].map(corner => toMap(...corner)), side, go);
  });

  tools.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (button?.dataset.tool) {
      tool = button.dataset.tool;
      map.classList.toggle("lasso", tool === "lasso");
      for (const other of tools.querySelectorAll("[data-tool]")) other.setAttribute("aria-pressed", other === button);
    }
    if (button?.dataset.zoom === "0") Object.assign(view, { scale: 1, x: side / 2, y: side / 2 }), redraw();
    else if (button?.dataset.zoom) zoomAt(Number(button.dataset.zoom));
  });
}

// Go to the items inside of a line: its corners, on a grid of 1000, are part of the address.
function choose(line, side, go) {
  const every = Math.ceil(line.length / 60);
  const corners = line.filter((_, place) => place % every === 0)
    .map(corner => corner.map(value => Math.min(1000, Math.max(0, Math.round(value / side * 1000)))));
  if (corners.length < 3) return;
  const address = new URLSearchParams(location.search);
  address.set("area", corners.flat().join(","));
  go(`/?${address}`);
}

// The colors of the clusters as numbers that pixels are made of.
function palette(map) {
  const numbers = map.dataset.numbers.split("|").map(Number);
  const paper = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colors = new Uint32Array(256).fill(0x808080);
  map.dataset.colors.split("|").forEach((color, place) => {
    paper.fillStyle = color;
    paper.fillRect(0, 0, 1, 1);
    const [red, green, blue] = paper.getImageData(0, 0, 1, 1).data;
    colors[numbers[place]] = red | (green << 8) | (blue << 16);
  });
  return colors;
}

// The pixels of a disk with a soft edge: dx, dy and how much of the pixel is covered, one after another.
function brushOf(radius) {
  const parts = [];
  for (let dy = -radius; dy <= radius; dy++) {
    for (let dx = -radius; dx <= radius; dx++) {
      const share = Math.min(1, radius + 0.6 - Math.hypot(dx, dy));
      if (radius === 0 || share > 0) parts.push(dx, dy, radius ? share : 1);
    }
  }
  return new Float32Array(parts);
}

// The nearest point to a place, by a grid of cells.
function nearestOf(xs, ys, side) {
  const n = xs.length, cells = Math.max(1, Math.min(512, Math.ceil(Math.sqrt(n / 4)))), size = (side + 1) / cells;
  const starts = new Uint32Array(cells * cells + 1), order = new Uint32Array(n);
  const cellOf = i => ((ys[i] / size) | 0) * cells + ((xs[i] / size) | 0);
  for (let i = 0; i < n; i++) starts[cellOf(i) + 1]++;
  for (let c = 0; c < cells * cells; c++) starts[c + 1] += starts[c];
  const next = starts.slice();
  for (let i = 0; i < n; i++) order[next[cellOf(i)]++] = i;
  return (x, y, reach) => {
    let best = -1, least = reach * reach;
    const clamp = value => Math.min(cells - 1, Math.max(0, (value / size) | 0));
    for (let cy = clamp(y - reach); cy <= clamp(y + reach); cy++) {
      for (let cx = clamp(x - reach); cx <= clamp(x + reach); cx++) {
        for (let at = starts[cy * cells + cx]; at < starts[cy * cells + cx + 1]; at++) {
          const i = order[at], distance = (xs[i] - x) ** 2 + (ys[i] - y) ** 2;
          if (distance < least) [best, least] = [i, distance];
        }
      }
    }
    return best;
  };
}
