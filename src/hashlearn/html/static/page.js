// The page works without this file; it adds what needs no new page: the map, endless lists, a basket, large pictures.
import { watchRadius } from "./radius.js";
import { acceptDrops } from "./drop.js";
import { watchJob } from "./job.js";
import { offerThemes } from "./themes.js";
import { showItems } from "./items.js";
import { offerBasket } from "./basket.js";
import { enlarge } from "./large.js";
import { drawMap } from "./map.js";

const SETTINGS = "[data-settings] :is(select, input[type=number], input[type=checkbox], input[type=search], input[list])";
const basket = offerBasket();

function show(part) {
  showItems(part, list => basket.mark(list));
  drawMap(part.querySelector("[data-map]"));
  for (const job of part.querySelectorAll("[data-job]")) watchJob(job, () => refresh(job.closest("main, aside")));
  // A changed setting is applied at once; the button is for those without scripts.
  for (const button of part.querySelectorAll("[data-apply]")) button.hidden = true;
  for (const field of part.querySelectorAll(SETTINGS)) {
    field.addEventListener("change", () => field.form.reportValidity() && field.form.requestSubmit());
  }
  // Empty fields stay out of the address.
  for (const form of part.querySelectorAll("form[method=get]")) {
    form.addEventListener("submit", () => {
      for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
    });
  }
  // What takes longer comes after the page.
  for (const late of part.querySelectorAll("[data-fetch]")) {
    fetch(late.dataset.fetch).then(async answer => {
      if (answer.ok) late.innerHTML = await answer.text();
    });
  }
}

// When the work is done, only the part that waited for it is exchanged: what somebody types elsewhere stays.
async function refresh(part) {
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  part.replaceChildren(...page.querySelector(part.localName).childNodes);
  show(part);
}

offerThemes(document.querySelector("[data-theme-switch]"));
acceptDrops(document.querySelector("[data-drop]"));
watchRadius(document.querySelector("[data-radius]"));
enlarge();
show(document);

// On a narrow screen the answer comes first.
const panel = document.querySelector("[data-panel]");
if (panel && matchMedia("(max-width: 60rem)").matches) panel.open = false;
