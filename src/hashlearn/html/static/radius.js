// The radius: how many items of the whole collection it holds, which results, which bars of the histogram.
export function watchRadius(slider) {
  if (!slider) return;
  const counts = slider.dataset.counts.split(" ").map(Number);
  const within = counts.map((sum => count => (sum += count))(0));
  const value = document.querySelector("[data-radius-value]");
  const count = document.querySelector("[data-radius-count]");
  const empty = document.querySelector("[data-empty]");
  const tie = document.querySelector("[data-tie]");

  const show = () => {
    const radius = Number(slider.value);
    value.textContent = radius;
    count.textContent = within[radius].toLocaleString("en");
    let shown = 0;
    for (const result of document.querySelectorAll("[data-hamming]")) {
      result.hidden = Number(result.dataset.hamming) > radius;
      if (!result.hidden) shown += 1;
    }
    if (empty) empty.hidden = shown > 0;
    if (tie) tie.hidden = Number(tie.dataset.tie) > radius;
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
