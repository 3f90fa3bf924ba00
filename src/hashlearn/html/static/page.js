// The page works without this file; it adds what needs no new page: the map, endless lists, a basket, large pictures.
import { watchRadius } from "./radius.js";
import { acceptDrops } from "./drop.js";
import { watchJob } from "./job.js";
import { offerThemes } from "./themes.js";
import { showItems } from "./items.js";
import { offerBasket } from "./basket.js";
import { enlarge } from "./large.js";
import { drawMap } from "./map.js";

offerThemes(document.querySelector("[data-theme-switch]"));
acceptDrops(document.querySelector("[data-drop]"));
watchRadius(document.querySelector("[data-radius]"));
watchJob(document.querySelector("[data-job]"));
const basket = offerBasket();
showItems(list => basket.mark(list));
enlarge();
drawMap(document.querySelector("[data-map]"));

// A changed setting is applied at once; the button is for those without scripts.
for (const field of document.querySelectorAll("[data-settings] :is(select, input[type=number], input[type=checkbox], input[list])")) {
  field.addEventListener("change", () => field.form.reportValidity() && field.form.requestSubmit());
}
// Empty fields stay out of the address.
for (const form of document.querySelectorAll("form[method=get]")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  });
}
// What takes longer comes after the page.
for (const part of document.querySelectorAll("[data-fetch]")) {
  fetch(part.dataset.fetch).then(async answer => {
    if (answer.ok) part.innerHTML = await answer.text();
  });
}
// On a narrow screen the answer comes first.
const panel = document.querySelector("[data-panel]");
if (panel && matchMedia("(max-width: 64rem)").matches) panel.open = false;
