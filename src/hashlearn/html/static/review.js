"use strict";
// The page gets its groups in pieces: the first is in the page, the others are scripts that call reviewPage.
const data = JSON.parse(document.getElementById("data").textContent);
const LONGEST_DIFFERENCE = 400; // words of a text that are compared
const SHOWN_AT_ONCE = 50; // groups that a search or a filter shows before you ask for more
const byId = (id) => document.getElementById(id);
const mine = new Map(); // what you decided here: row -> ["keep", "drop", "different" or "" for no decision, kept row]
const undone = []; // lists of [row, decision before, kept row]
const waiting = new Map(); // pages that were asked for
let shown = []; // groups on the screen
let search = null; // where a search through the pages goes on
let page = 0;

const key = (row) => JSON.stringify(row.id);

function reviewPage(number, groups) { waiting.get(number)?.(groups); waiting.delete(number); }

function loadPage(number) {
  if (number === 0) return Promise.resolve(data.first);
  return new Promise((resolve, reject) => {
    waiting.set(number, resolve);
    const script = element("script");
    script.src = data.files + String(number).padStart(6, "0") + ".js";
    script.onerror = () => { waiting.delete(number); reject(new Error(`${script.src} is missing: keep the folder beside this page`)); };
    script.onload = () => script.remove();
    document.head.append(script);
  });
}

// What happens to a row: what was decided, else what the program proposes.
function decided(row) { return mine.has(key(row)) ? mine.get(key(row))[0] : row.decided || ""; }

function decision(row) { return decided(row) || row.decision; }

function isDecided(group) { return group.rows.every(decided); }

function decide(changes) {
  undone.push(changes.map(([row, , kept]) => [row, decided(row), kept]));
  set(changes);
}

function set(changes) {
  for (const [row, word, kept] of changes) mine.set(key(row), [word, kept.id]);
  byId("undo").disabled = !undone.length;
  redraw();
  save(changes);
}

function undo() {
  const last = undone.pop();
  if (!last) return;
  set(last);
  const card = [...document.querySelectorAll(".card")].find((each) => each.row === last[0][0]);
  if (card) card.focus();
}

// Decisions are kept as you go: in the state where a server shows the page, otherwise by the browser.
let sending = Promise.resolve(); // one request after the other: of two about a row, the last one counts
function save(changes) {
  const said = byId("saved");
  if (data.server) {
    const body = JSON.stringify(changes.map(([row, word, kept]) => [row.id, word, kept.id]));
    said.textContent = "saving…"; said.className = "";
    sending = sending.then(() => send(body, said));
    return;
  }
  try {
    localStorage.setItem(data.token, JSON.stringify([...mine]));
    said.textContent = "kept in this browser"; said.className = "";
  } catch { said.textContent = "this browser keeps nothing: download your decisions"; said.className = "problem"; }
}

async function send(body, said) {
  try {
    const answer = await fetch("decisions", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    if (!answer.ok) throw new Error(await answer.text());
    said.textContent = "saved";
  } catch (error) { said.textContent = `not saved: ${error.message}`; said.className = "problem"; }
}

function restore() {
  if (data.server) return;
  try {
    for (const [name, choice] of JSON.parse(localStorage.getItem(data.token) || "[]")) mine.set(name, choice);
  } catch { /* nothing was kept */ }
}

// Words of b, marked where they are not in a; and words of a that are missing in b.
function difference(a, b) {
  const left = words(a), right = words(b), least = Math.min(left.length, right.length);
  let start = 0, end = 0;
  while (start < least && same(left[start], right[start])) start++;
  while (end < least - start && same(left[left.length - 1 - end], right[right.length - 1 - end])) end++;
  const middle = differenceOfWords(left.slice(start, left.length - end), right.slice(start, right.length - end));
  const plain = (some) => some.map((word) => ["", word]);
  return [...plain(right.slice(0, start)), ...middle, ...plain(right.slice(right.length - end))];
}

// By the longest common subsequence. What is behind the longest that is compared has no marks.
function differenceOfWords(allLeft, allRight) {
  const left = allLeft.slice(0, LONGEST_DIFFERENCE), right = allRight.slice(0, LONGEST_DIFFERENCE);
  const common = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      common[i][j] = same(left[i], right[j]) ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const parts = [];
  let i = 0, j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && same(left[i], right[j])) { parts.push(["", right[j]]); i++; j++; }
    else if (i < left.length && (j === right.length || common[i + 1][j] >= common[i][j + 1])) parts.push(["del", left[i++]]);
    else parts.push(["ins", right[j++]]);
  }
  return [...parts, ...allRight.slice(LONGEST_DIFFERENCE).map((word) => ["", word])];
}

function same(a, b) { return a === b || a.toLowerCase() === b.toLowerCase(); }

function words(text) { return text.match(/\S+/g) || []; }

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function button(text, act, title) {
  const made = element("button", "", text);
  made.type = "button";
  if (title) made.title = title;
  made.addEventListener("click", act);
  return made;
}

function textOf(row, kept) {
  const box = element("span", "text");
  if (row === kept) { box.textContent = row.text; return box; }
  for (const [mark, word] of difference(kept.text, row.text)) box.append(mark ? element(mark, "", word) : word, " ");
  return box;
}

// The picture; over it, where differences are shown, the kept one: black is where both are the same.
function pictureOf(row, kept, isLarge) {
  const box = element("span", "picture");
  const source = (each) => (isLarge && each.file) || each.picture;
  const picture = element("img"); picture.loading = "lazy"; picture.alt = `picture ${row.id}`;
  if (isLarge && row.file) picture.onerror = () => { picture.onerror = null; picture.src = row.picture; };
  picture.src = source(row);
  box.append(picture);
  if (row !== kept) {
    const over = element("img", "over"); over.loading = "lazy"; over.alt = ""; over.src = source(kept);
    box.append(over);
  }
  return box;
}

const WORDS = { keep: "Keep", drop: "Drop", different: "No duplicate" };

function verdict(row, kept) {
  const word = WORDS[decision(row)];
  if (row === kept) return `${word} · reference`;
  const how = row.copy ? "exact copy" : row.distance === null ? "connected through others" : `distance ${Number(row.distance).toPrecision(3)}`;
  return `${word} · ${how}`;
}

function card(row, group) {
  const kept = group.rows[0];
  const made = element("button", "card");
  made.type = "button";
  made.dataset.id = String(row.id);
  if (row.picture) made.append(pictureOf(row, kept));
  if (row.text !== undefined) made.append(textOf(row, kept));
  made.append(element("span", "name", row.id));
  if (row.note) made.append(element("span", "note", row.note));
  const said = element("span", "verdict");
  made.append(said);
  made.row = row; made.group = group;
  made.draw = () => {
    said.textContent = verdict(row, kept);
    made.dataset.decision = decision(row);
    made.setAttribute("aria-pressed", decision(row) !== "drop");
  };
  made.addEventListener("click", () => toggle(row, kept));
  made.addEventListener("dblclick", () => openLarge(group, row));
  made.draw();
  return made;
}

function toggle(row, kept) { decide([[row, decision(row) === "drop" ? "keep" : "drop", kept]]); }
function keepOnly(row, group) { decide(group.rows.map((each) => [each, each === row ? "keep" : "drop", group.rows[0]])); }
function differ(row, group) {
  if (row === group.rows[0]) return differAll(group);
  decide([[row, decision(row) === "different" ? "drop" : "different", group.rows[0]]]);
}
function differAll(group) {
  decide(group.rows.map((row) => [row, row === group.rows[0] ? "keep" : "different", group.rows[0]]));
}
function confirmGroup(group) { decide(group.rows.map((row) => [row, decision(row), group.rows[0]])); }

function section(group) {
  const made = element("section", "group");
  const title = element("h2", "", `Group ${group.number}: ${group.size} rows `);
  if (group.rows.length < group.size) title.append(element("small", "", `here ${group.start + 2} to ${group.start + group.rows.length}, and the kept one`));
  const top = element("header");
  const compare = button("Compare", () => openLarge(group, group.rows[1]), "Z");
  top.append(title, compare, button("No duplicates", () => differAll(group), "A"), button("Confirm", () => { confirmGroup(group); goToNext(made); }, "Enter"));
  const cards = element("div", group.rows[0].text === undefined ? "cards" : "cards texts");
  cards.append(...group.rows.map((row) => card(row, group)));
  made.append(top, cards);
  made.draw = () => made.classList.toggle("decided", isDecided(group));
  made.draw();
  return made;
}

function redraw() {
  document.querySelectorAll(".card, .group").forEach((each) => each.draw());
  if (byId("large").open) drawLarge();
  count();
}

function count() {
  const number = (value) => value.toLocaleString("en");
  const rows = shown.reduce((sum, group) => sum + group.rows.length, 0);
  const first = shown[0]?.number, last = shown[shown.length - 1]?.number;
  const places = first === last ? `group ${number(first ?? 0)}` : `groups ${number(first)} to ${number(last)}`;
  const which = search ? `${number(shown.length)} groups found so far` : shown.length ? `${places} of ${number(data.n_groups)}` : "no groups";
  const yours = [...mine.values()].filter(([word]) => word).length;
  byId("counts").textContent = `${which}, ${number(rows)} rows here · in all ${number(data.n_rows)} rows in groups, ${number(data.n_dropped)} to drop` + (yours ? ` · ${number(yours)} decided by you` : "");
}

function fill(groups, isMore) {
  shown = isMore ? [...shown, ...groups] : groups;
  const main = byId("groups");
  const made = groups.map(section);
  if (isMore) main.append(...made); else main.replaceChildren(...made);
  made.forEach(goToFirstMark);
  if (!shown.length) main.replaceChildren(element("p", "", data.n_groups ? "No group fits the search." : "No duplicates within this distance."));
  count();
}

// A card shows the beginning of a long text, or what is around the first word that differs.
function goToFirstMark(box) {
  for (const text of box.querySelectorAll(".card .text")) {
    const mark = text.querySelector("ins, del");
    if (mark && mark.offsetTop > text.clientHeight / 2) text.scrollTop = mark.offsetTop - text.clientHeight / 2;
  }
}

function trouble(error) { byId("groups").replaceChildren(element("p", "problem", error.message)); }

async function show(number) {
  page = Math.min(Math.max(number, 0), data.n_pages - 1);
  search = null;
  byId("page").value = page + 1;
  byId("before").disabled = page === 0; byId("next").disabled = page >= data.n_pages - 1;
  byId("more").hidden = true;
  const wanted = page;
  try {
    const groups = await loadPage(wanted);
    if (page !== wanted || search) return; // another page was asked for meanwhile
    fill(groups);
    byId("groups").dataset.page = wanted;
  } catch (error) { trouble(error); }
}

function fits(group, wanted) {
  const others = group.rows.slice(1);
  if (wanted.kind === "open" && isDecided(group)) return false;
  if (wanted.kind === "decided" && !isDecided(group)) return false;
  if (wanted.kind === "near" && !others.some((row) => !row.copy)) return false;
  if (wanted.kind === "copies" && !others.some((row) => row.copy)) return false;
  if (wanted.from && !others.some((row) => row.distance === null || row.distance >= wanted.from)) return false;
  return !wanted.text || group.rows.some((row) => `${row.id}\n${row.text || ""}\n${row.note || ""}`.toLowerCase().includes(wanted.text));
}

// Goes through the pages from where it was, until enough groups fit.
async function goOn() {
  const mine = search;
  const found = [];
  byId("more").hidden = true;
  try {
    while (mine.next < data.n_pages && found.length < SHOWN_AT_ONCE) {
      byId("counts").textContent = `looking at page ${mine.next + 1} of ${data.n_pages}…`;
      found.push(...(await loadPage(mine.next)).filter((group) => fits(group, mine.wanted)));
      if (search !== mine) return;
      mine.next++;
    }
  } catch (error) { trouble(error); return; }
  fill(found, mine.isMore);
  mine.isMore = true;
  byId("more").hidden = mine.next >= data.n_pages;
}

function newSearch() {
  const wanted = { text: byId("search").value.trim().toLowerCase(), kind: byId("filter").value, from: Number(byId("from").value) || 0 };
  if (!wanted.text && wanted.kind === "all" && !wanted.from) { show(page); return; }
  search = { wanted, next: 0, isMore: false };
  goOn();
}

function quoted(value) {
  const text = String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function download() {
  const lines = ["id,decision,duplicate_of"];
  for (const [name, [word, kept]] of mine) lines.push([JSON.parse(name), word, kept].map(quoted).join(","));
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  link.download = "decisions.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

// Two rows side by side, large.
let large = null;
function openLarge(group, row) { large = { group, place: Math.max(1, group.rows.indexOf(row)) }; drawLarge(); if (!byId("large").open) { byId("large").showModal(); byId("large").focus(); } }
function drawLarge() {
  const { group, place } = large, kept = group.rows[0], row = group.rows[place];
  byId("large-title").textContent = `Group ${group.number}, row ${place + 1} of ${group.rows.length} · ${verdict(row, kept)}`;
  byId("large-toggle").textContent = decision(row) === "drop" ? "Keep it" : "Drop it";
  byId("large-differ").setAttribute("aria-pressed", decision(row) === "different");
  for (const [id, each] of [["large-kept", kept], ["large-row", row]]) {
    const side = byId(id);
    side.replaceChildren();
    if (each.picture) side.append(pictureOf(each, kept, true));
    if (each.text !== undefined) side.append(textOf(each, kept));
    side.append(element("span", "name", each.id));
    if (each.note) side.append(element("span", "note", each.note));
  }
}
function moveLarge(step) { large.place = Math.min(Math.max(large.place + step, 1), large.group.rows.length - 1); drawLarge(); }
byId("large").addEventListener("click", (event) => {
  const box = event.target.closest(".picture");
  if (!box) return;
  const place = box.getBoundingClientRect();
  const isNear = !box.classList.contains("near");
  document.querySelectorAll(".sides .picture").forEach((each) => {
    each.classList.toggle("near", isNear);
    each.style.setProperty("--x", `${(100 * (event.clientX - place.left)) / place.width}%`);
    each.style.setProperty("--y", `${(100 * (event.clientY - place.top)) / place.height}%`);
  });
});

function goTo(place, cards) { const card = cards[place]; if (card) { card.focus(); card.scrollIntoView({ block: "nearest" }); } }
function goToNext(box) {
  const next = box.nextElementSibling;
  if (next && next.classList.contains("group")) { next.querySelector(".card").focus(); next.scrollIntoView({ block: "start" }); }
  else if (!search && page < data.n_pages - 1) show(page + 1).then(() => goTo(0, document.querySelectorAll(".card")));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type='checkbox']), select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const name = event.key.toLowerCase();
  if (byId("large").open) {
    if (name === "j" || name === "arrowright") moveLarge(1);
    else if (name === "k" || name === "arrowleft") moveLarge(-1);
    else if (name === " " && !event.target.matches("button, input")) toggle(large.group.rows[large.place], large.group.rows[0]);
    else if (name === "x") differ(large.group.rows[large.place], large.group);
    else if (name === "z") byId("large").close();
    else if (name === "u") undo();
    else return;
    event.preventDefault();
    return;
  }
  if (name === "/") byId("search").focus();
  else if (name === "u") undo();
  else if (name === "?") toggleKeys();
  else if (!onCard(name, event)) return;
  event.preventDefault();
}

function onCard(name, event) {
  const cards = [...document.querySelectorAll(".card")];
  const here = document.activeElement;
  if (!here || !here.classList.contains("card")) {
    if (!["j", "k", "n", "p"].includes(name) || !cards.length) return false;
    goTo(0, cards);
    return true;
  }
  const place = cards.indexOf(here), box = here.closest(".group");
  if (name === "j" || name === "arrowright" || name === "arrowdown") goTo(place + 1, cards);
  else if (name === "k" || name === "arrowleft" || name === "arrowup") goTo(place - 1, cards);
  else if (name === "n") goToNext(box);
  else if (name === "p") { const before = box.previousElementSibling; if (before) goTo(0, before.querySelectorAll(".card")); }
  else if (name === "o") keepOnly(here.row, here.group);
  else if (name === "x") differ(here.row, here.group);
  else if (name === "a") differAll(here.group);
  else if (name === "z") openLarge(here.group, here.row);
  else if (name === "enter") { confirmGroup(here.group); goToNext(box); }
  else return false;
  return true;
}

function toggleKeys() {
  byId("keys").hidden = !byId("keys").hidden;
  byId("help").setAttribute("aria-expanded", !byId("keys").hidden);
}

let typing = 0;
byId("search").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(newSearch, 250); });
byId("filter").addEventListener("change", newSearch);
byId("from").addEventListener("change", newSearch);
byId("page").addEventListener("change", () => show(Number(byId("page").value) - 1));
byId("before").addEventListener("click", () => show(page - 1));
byId("next").addEventListener("click", () => show(page + 1));
byId("more").addEventListener("click", goOn);
byId("undo").addEventListener("click", undo);
byId("help").addEventListener("click", toggleKeys);
byId("download").addEventListener("click", download);
byId("large-before").addEventListener("click", () => moveLarge(-1));
byId("large-next").addEventListener("click", () => moveLarge(1));
byId("large-close").addEventListener("click", () => byId("large").close());
byId("large-toggle").addEventListener("click", () => toggle(large.group.rows[large.place], large.group.rows[0]));
byId("large-differ").addEventListener("click", () => differ(large.group.rows[large.place], large.group));
for (const id of ["marks", "large-marks"]) byId(id).addEventListener("change", (event) => {
  byId("marks").checked = byId("large-marks").checked = event.target.checked;
  document.body.classList.toggle("marked", event.target.checked);
});
const hasPictures = data.first.some((group) => group.rows[0].picture);
byId("marks-label").hidden = byId("large-marks-label").hidden = !hasPictures;
byId("n-pages").textContent = data.n_pages.toLocaleString("en");
byId("page").max = data.n_pages;
byId("download").hidden = data.server;
document.addEventListener("keydown", onKey);
restore();
show(0);
