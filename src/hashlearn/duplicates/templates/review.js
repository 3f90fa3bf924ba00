"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const PAGE = 40;
const LONGEST_DIFFERENCE = 400; // words of a text that are compared
const names = new Map(); // id -> [content, row]
data.contents.forEach((rows, content) => rows.forEach((row, place) => names.set(row.id, [content, place])));
let changed = new Map(); // id -> "keep" or "drop", where you decided otherwise
let groups = [];
let nShown = PAGE;

// The pairs within a distance, as lists of [neighbor, distance].
function neighborsWithin(distance) {
  const near = data.contents.map(() => []);
  for (const [a, b, d] of data.pairs) {
    if (d <= distance) { near[a].push([b, d]); near[b].push([a, d]); }
  }
  return near;
}

// Contents, the preferred first: as hashlearn.duplicates.groups orders them.
function preferred(near) {
  const numbers = data.contents.map((_, content) => content);
  if (data.keep !== "center") return numbers.sort((a, b) => data.order[a] - data.order[b]);
  const count = (content) => near[content].reduce((sum, [other]) => sum + data.contents[other].length, data.contents[content].length);
  const counts = numbers.map(count);
  return numbers.sort((a, b) => counts[b] - counts[a] || data.order[a] - data.order[b]);
}

function leaders(order, near) {
  const place = []; order.forEach((content, i) => { place[content] = i; });
  const taken = new Set(), isLeader = new Set();
  for (const content of order) {
    if (taken.has(content)) continue;
    isLeader.add(content);
    near[content].forEach(([other]) => taken.add(other));
  }
  return order.map((_, content) => {
    if (isLeader.has(content)) return [content, 0];
    return near[content].filter(([other]) => isLeader.has(other))
      .sort((a, b) => a[1] - b[1] || place[a[0]] - place[b[0]])[0];
  });
}

function components(order, near) {
  const leader = new Map();
  for (const start of order) {
    if (leader.has(start)) continue;
    const todo = [start]; leader.set(start, start);
    while (todo.length) {
      for (const [other] of near[todo.pop()]) {
        if (!leader.has(other)) { leader.set(other, start); todo.push(other); }
      }
    }
  }
  return order.map((_, content) => {
    const kept = leader.get(content);
    const direct = near[content].find(([other]) => other === kept);
    return [kept, content === kept ? 0 : direct ? direct[1] : null];
  });
}

function grouped(distance) {
  const near = neighborsWithin(distance);
  const order = preferred(near);
  const assigned = data.grouping === "leader" ? leaders(order, near) : components(order, near);
  const found = new Map();
  assigned.forEach(([kept, d], content) => {
    if (!found.has(kept)) found.set(kept, []);
    data.contents[content].forEach((row, place) => {
      found.get(kept).push({ row, distance: d, isCopy: content === kept && place > 0, isKept: content === kept && place === 0 });
    });
  });
  const last = (member) => (member.distance === null ? Infinity : member.distance);
  return [...found.values()].filter((members) => members.length > 1)
    .map((members) => members.sort((a, b) => b.isKept - a.isKept || last(a) - last(b)))
    .sort((a, b) => b.length - a.length);
}

function decision(member) {
  return changed.get(member.row.id) || (member.isKept ? "keep" : "drop");
}

// Words of b, marked where they are not in a; and words of a that are missing in b.
function difference(a, b) {
  const left = words(a), right = words(b), least = Math.min(left.length, right.length);
  let start = 0, end = 0;
  while (start < least && left[start] === right[start]) start++;
  while (end < least - start && left[left.length - 1 - end] === right[right.length - 1 - end]) end++;
  const middle = differenceOfWords(left.slice(start, left.length - end), right.slice(start, right.length - end));
  const same = (some) => some.map((word) => ["", word]);
  return [...same(right.slice(0, start)), ...middle, ...same(right.slice(right.length - end))];
}

// By the longest common subsequence. What is behind the longest that is compared has no marks.
function differenceOfWords(allLeft, allRight) {
  const left = allLeft.slice(0, LONGEST_DIFFERENCE), right = allRight.slice(0, LONGEST_DIFFERENCE);
  const common = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      common[i][j] = left[i] === right[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const parts = [];
  let i = 0, j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) { parts.push(["", right[j]]); i++; j++; }
    else if (i < left.length && (j === right.length || common[i + 1][j] >= common[i][j + 1])) parts.push(["del", left[i++]]);
    else parts.push(["ins", right[j++]]);
  }
  return [...parts, ...allRight.slice(LONGEST_DIFFERENCE).map((word) => ["", word])];
}

function words(text) {
  return text.match(/\S+/g) || [];
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function textOf(member, kept) {
  const box = element("span", "text");
  if (member.isKept) { box.textContent = member.row.text; return box; }
  for (const [mark, word] of difference(kept.row.text, member.row.text)) {
    box.append(mark ? element(mark, "", word) : word, " ");
  }
  return box;
}

// The picture; over it, where differences are shown, the kept one: black is where both are the same.
function pictureOf(member, kept) {
  const box = element("span", "picture");
  const picture = element("img"); picture.src = member.row.picture; picture.alt = `picture ${member.row.id}`;
  box.append(picture);
  if (!member.isKept) {
    const over = element("img", "over"); over.src = kept.row.picture; over.alt = "";
    box.append(over);
  }
  return box;
}

function verdict(member) {
  const word = decision(member) === "keep" ? "Keep" : "Drop";
  if (member.isKept) return word;
  const how = member.isCopy ? "exact copy" : member.distance === null ? "connected through others" : `distance ${member.distance.toPrecision(3)}`;
  return `${word} · ${how}`;
}

function card(member, kept) {
  const button = element("button", "card");
  button.type = "button";
  button.dataset.id = String(member.row.id);
  if (member.row.picture) button.append(pictureOf(member, kept));
  if (member.row.text !== undefined) button.append(textOf(member, kept));
  button.append(element("span", "name", member.row.id));
  if (member.row.note) button.append(element("span", "note", member.row.note));
  const said = element("span", "verdict");
  button.append(said);
  const draw = () => { said.textContent = verdict(member); button.setAttribute("aria-pressed", decision(member) === "keep"); };
  button.draw = draw; button.member = member;
  button.addEventListener("click", () => { decide(member, decision(member) === "keep" ? "drop" : "keep"); });
  draw();
  return button;
}

function decide(member, word) {
  setDecision(member, word);
  document.querySelectorAll(".card").forEach((each) => each.draw());
  count();
}

function setDecision(member, word) {
  if (word === (member.isKept ? "keep" : "drop")) changed.delete(member.row.id);
  else changed.set(member.row.id, word);
}

function count() {
  const members = groups.flat();
  const dropped = members.filter((member) => decision(member) === "drop").length;
  document.getElementById("counts").textContent =
    `${groups.length} groups, ${members.length} rows in them, ${dropped} to drop` + (changed.size ? `, ${changed.size} changed by you` : "");
}

function draw() {
  const distance = (document.getElementById("distance").value / 1000) * data.largest;
  document.getElementById("shown-distance").textContent = distance.toPrecision(3);
  groups = grouped(distance * (1 + 1e-9));
  const main = document.getElementById("groups");
  main.replaceChildren(...groups.slice(0, nShown).map((members, number) => {
    const box = element("section", "group");
    box.append(element("h2", "", `Group ${number + 1}: ${members.length} rows`));
    const cards = element("div", members[0].row.text === undefined ? "cards" : "cards texts");
    cards.append(...members.map((member) => card(member, members[0])));
    box.append(cards);
    return box;
  }));
  if (!groups.length) main.replaceChildren(element("p", "", "No duplicates within this distance."));
  document.getElementById("more").hidden = groups.length <= nShown;
  count();
}

function quoted(value) {
  const text = String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function download() {
  const lines = ["group,id,decision,duplicate_of,distance"];
  groups.forEach((members, number) => members.forEach((member) => {
    lines.push([number + 1, member.row.id, decision(member), members[0].row.id, member.distance ?? ""].map(quoted).join(","));
  }));
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  link.download = "decisions.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

function moveFocus(event) {
  const here = document.activeElement;
  if (!here || !here.classList.contains("card") || event.ctrlKey || event.metaKey || event.altKey) return;
  const cards = [...document.querySelectorAll(".card")], place = cards.indexOf(here);
  const boxes = [...document.querySelectorAll(".group")], box = boxes.indexOf(here.closest(".group"));
  const key = event.key.toLowerCase();
  if (key === "arrowright" || key === "arrowdown") cards[Math.min(place + 1, cards.length - 1)].focus();
  else if (key === "arrowleft" || key === "arrowup") cards[Math.max(place - 1, 0)].focus();
  else if (key === "n" && boxes[box + 1]) boxes[box + 1].querySelector(".card").focus();
  else if (key === "p" && boxes[box - 1]) boxes[box - 1].querySelector(".card").focus();
  else if (key === "k") {
    here.closest(".group").querySelectorAll(".card").forEach((each) => setDecision(each.member, each === here ? "keep" : "drop"));
    decide(here.member, "keep");
  } else return;
  event.preventDefault();
}

const slider = document.getElementById("distance");
const start = data.largest > 0 ? Math.round((1000 * data.distance) / data.largest) : 1000;
slider.value = start;
slider.addEventListener("input", draw);
document.getElementById("reset").addEventListener("click", () => { changed = new Map(); slider.value = start; draw(); });
const marks = document.getElementById("marks");
const hasPictures = data.contents.some((rows) => rows[0].picture);
marks.closest("label").hidden = document.getElementById("marks-hint").hidden = !hasPictures;
marks.addEventListener("change", () => { document.body.classList.toggle("marked", marks.checked); });
document.getElementById("download").addEventListener("click", download);
document.getElementById("more").addEventListener("click", () => { nShown += PAGE; draw(); });
document.addEventListener("keydown", moveFocus);
draw();
