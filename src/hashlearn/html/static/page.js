// The page works without this file; it adds what needs no new page: the map, endless lists, a basket, large pictures.
import { showItems } from "./items.js";
import { offerBasket } from "./basket.js";
import { enlarge } from "./large.js";
import { drawMap } from "./map.js";

const SETTINGS = "[data-settings] :is(select, input[type=number], input[type=checkbox], input[type=search], input[list])";
const PAUSE = 400;  // milliseconds between two questions for how far work is
const MOST_KEPT = 10;
const basket = offerBasket();

let latest = 0;  // the address that was asked for last
let shown = location.search;
const kept = new Map();  // parts of the page at other addresses

function show(part) {
  showItems(part, list => basket.mark(list));
  drawMap(part.querySelector("[data-map]"), go);
  for (const job of part.querySelectorAll("[data-job]")) {
    watchJob(job, () => job.isConnected ? refresh(job.closest("[data-part]").dataset.part) : kept.clear());
  }
  // A changed setting is applied at once; the button is for those without scripts.
  for (const button of part.querySelectorAll("[data-apply]")) button.hidden = true;
  // What takes longer comes after the page.
  for (const late of part.querySelectorAll("[data-fetch]")) {
    fetch(late.dataset.fetch).then(async answer => {
      if (answer.ok) late.innerHTML = await answer.text();
    });
  }
}

const pageOf = async address => new DOMParser().parseFromString(await (await fetch(address)).text(), "text/html");

// Put other parts in the places of those that are shown, which are returned. What is open, what is typed and not sent,
// and who has the focus, stays; the focus of a link that is gone goes to the content.
function exchange(partOf, parts = "[data-part]") {
  const active = document.activeElement;
  const { id, name, value } = active;
  const left = new Map();
  for (const before of document.querySelectorAll(parts)) {
    const after = partOf(before.dataset.part);
    if (!after) continue;
    const wasOpen = [...before.querySelectorAll("details")].map(each => each.open);
    [...after.querySelectorAll("details")].forEach((each, place) => (each.open = wasOpen[place] ?? each.open));
    for (const typed of before.querySelectorAll("input[type=search][id], textarea[id]")) {
      const field = after.querySelector(`#${typed.id}`);
      if (field && typed.value !== typed.defaultValue) field.value = typed.value;
    }
    before.replaceWith(after);
    left.set(before.dataset.part, before);
  }
  const again = id ? `#${CSS.escape(id)}` : name && `:not([type=hidden])[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`;
  if (again) document.querySelector(again)?.focus({ preventScroll: true });
  if (!active.isConnected && document.activeElement === document.body) document.querySelector("main").focus({ preventScroll: true });
  return left;
}

function showParts(page, parts) {
  const left = exchange(part => page.querySelector(`[data-part="${part}"]`), parts);
  for (const part of left.keys()) show(document.querySelector(`[data-part="${part}"]`));
  return left;
}

// When the work is done, only the part that waited for it is exchanged: what somebody types elsewhere stays.
async function refresh(part) {
  showParts(await pageOf(location.href), `[data-part="${part}"]`);
}

// Another choice of the same view: no new page is loaded, so the map keeps its points and its place.
async function go(address, isNew = true) {
  const mine = ++latest;
  let page;
  try {
    page = await pageOf(address);
  } catch {
    return location.assign(address);
  }
  if (mine !== latest) return;
  if (!page.querySelector("main")) return location.assign(address);
  if (isNew && new URL(address, location).search !== location.search) history.pushState(null, "", address);
  const { title } = document;
  document.title = page.title;
  keep(showParts(page), title);
  say();
}

function say() {
  document.querySelector("[data-said]").textContent = document.querySelector("main h1").textContent;
}

// What is left is kept for who goes back.
function keep(left, title) {
  kept.delete(shown);
  kept.set(shown, { left, title });
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  shown = location.search;
}

addEventListener("popstate", () => {
  if (location.search === shown) return;
  const before = kept.get(location.search);
  if (!before) return void go(location.href, false);
  latest++;
  const { title } = document;
  document.title = before.title;
  keep(exchange(part => before.left.get(part)), title);
  resetForms();
  for (const list of document.querySelectorAll("[data-items]")) basket.mark(list);
  say();
});
document.addEventListener("click", event => {
  const link = event.target.closest("a[data-here]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.href);
});
document.addEventListener("change", ({ target }) => {
  if (target.matches(SETTINGS) && target.form.reportValidity()) target.form.requestSubmit();
});
document.addEventListener("submit", event => {
  const form = event.target;
  if (form.getAttribute("method") !== "get") return;
  // Empty fields stay out of the address.
  if ("here" in form.dataset) {
    event.preventDefault();
    const said = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    go(`/${said.size ? "?" : ""}${said}`);
  } else {
    for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  }
});

// Long work: ask how far it is, and say when it is done.
async function watchJob(work, onDone) {
  const bar = work.querySelector("progress");
  const task = work.querySelector("[data-task]");
  for (;;) {
    await new Promise(resolve => setTimeout(resolve, PAUSE));
    const answer = await fetch(`/page/progress?job=${encodeURIComponent(work.dataset.job)}`);
    const progress = await answer.json();
    if (progress.done) break;
    task.textContent = progress.total ? `${progress.task}: ${progress.finished} of ${progress.total}` : progress.task;
    if (progress.total) {
      bar.max = progress.total;
      bar.value = progress.finished;
    }
  }
  onDone();
}

// The radius: how many items of the whole collection it holds, which results, which bars of the histogram.
function watchRadius(slider) {
  if (!slider) return;
  const counts = slider.dataset.counts.split(" ").map(Number);
  const within = counts.map((sum => count => (sum += count))(0));
  const value = document.querySelector("[data-radius-value]");
  const count = document.querySelector("[data-radius-count]");

  const show = () => {
    const radius = Number(slider.value);
    value.textContent = radius;
    count.textContent = within[radius].toLocaleString("en");
    for (const result of document.querySelectorAll("[data-hamming]")) {
      result.hidden = Number(result.dataset.hamming) > radius;
    }
    for (const bar of document.querySelectorAll("[data-distance]")) {
      bar.classList.toggle("within", radius < counts.length - 1 && Number(bar.dataset.distance) <= radius);
    }
  };
  // The address keeps the radius, so that it can be sent to somebody.
  const remember = () => {
    const address = new URL(location.href);
    if (Number(slider.value) === counts.length - 1) address.searchParams.delete("radius");
    else address.searchParams.set("radius", slider.value);
    history.replaceState(null, "", address);
  };
  slider.addEventListener("input", show);
  slider.addEventListener("change", remember);
}

// An image can be dropped anywhere on the page, or pasted; a chosen file is sent at once.
function acceptDrops(form) {
  if (!form) return;
  const input = form.querySelector("input[type=file]");
  form.classList.add("live");

  const send = files => {
    const image = [...files].find(file => file.type.startsWith("image/"));
    if (!image) return;
    const transfer = new DataTransfer();
    transfer.items.add(image);
    input.files = transfer.files;
    form.requestSubmit();
  };
  input.addEventListener("change", () => input.files.length && form.requestSubmit());
  document.addEventListener("paste", event => send(event.clipboardData.files));
  document.addEventListener("dragover", event => {
    event.preventDefault();
    form.classList.add("over");
  });
  document.addEventListener("dragleave", event => event.relatedTarget || form.classList.remove("over"));
  document.addEventListener("drop", event => {
    event.preventDefault();
    form.classList.remove("over");
    send(event.dataTransfer.files);
  });
}

// Light, dark, or what the system says.
function offerThemes(button) {
  const root = document.documentElement;
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  });
}

offerThemes(document.querySelector("[data-theme-switch]"));
acceptDrops(document.querySelector("[data-drop]"));
watchRadius(document.querySelector("[data-radius]"));
enlarge();
show(document);

// Who goes back sees the filters of the address, not the boxes as they were left.
function resetForms() {
  for (const form of document.querySelectorAll("[data-panel] form")) {
    for (const field of form.elements) field.disabled = false;
    form.reset();
  }
}
addEventListener("pageshow", event => {
  if (event.persisted || performance.getEntriesByType("navigation")[0]?.type === "back_forward") resetForms();
});

// On a narrow screen the answer comes first.
const panel = document.querySelector("[data-panel]");
if (panel && matchMedia("(max-width: 60rem)").matches) panel.open = false;
