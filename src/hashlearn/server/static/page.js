// The page works without this file; it adds what needs no new page: the radius, dropping files, bars, the theme.
import { watchRadius } from "./radius.js";
import { acceptDrops } from "./drop.js";
import { watchJob } from "./job.js";
import { offerThemes } from "./themes.js";

offerThemes(document.querySelector("[data-theme-switch]"));
acceptDrops(document.querySelector("[data-drop]"));
watchRadius(document.querySelector("[data-radius]"));
watchJob(document.querySelector("[data-job]"));

// A changed setting is applied at once; the button is for those without scripts.
for (const field of document.querySelectorAll("[data-settings] select, [data-settings] input[type=number]")) {
  field.addEventListener("change", () => field.form.reportValidity() && field.form.requestSubmit());
}
// Empty fields stay out of the address.
for (const form of document.querySelectorAll("form[method=get]")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  });
}
// On a phone the answer comes first.
const ask = document.querySelector("[data-ask]");
if ("answered" in ask.dataset && matchMedia("(max-width: 60rem)").matches) ask.open = false;
