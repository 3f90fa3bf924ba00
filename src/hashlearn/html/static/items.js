// Lists of items: rows of pictures fill the width, and the next part comes when the end is near.
export function showItems(part, onNew) {
  for (const list of part.querySelectorAll("[data-items]")) {
    justify(list);
    onNew(list);
  }
  const more = part.querySelector("[data-more]");
  if (more) follow(more, onNew);
}

// A picture takes width by its shape: rows stay of about one height and end at the right edge.
function justify(list) {
  if (!list.classList.contains("grid")) return;
  list.classList.add("justified");
  for (const item of list.querySelectorAll("[data-ratio]")) {
    const ratio = Math.min(4, Math.max(0.4, Number(item.dataset.ratio)));
    item.classList.toggle("whole", ratio !== Number(item.dataset.ratio));
    item.style.flexGrow = ratio;
    item.style.flexBasis = `calc(${ratio} * var(--row) * 0.85)`;
  }
}

function follow(more, onNew) {
  const list = more.previousElementSibling;
  const watcher = new IntersectionObserver(async (entries) => {
    // On a slow machine several come at once: only the last tells where the end is now.
    if (!entries.at(-1).isIntersecting || more.dataset.busy) return;
    more.dataset.busy = "yes";
    const answer = await fetch(more.dataset.more);
    if (!answer.ok) return watcher.disconnect();
    const part = new DOMParser().parseFromString(await answer.text(), "text/html");
    list.append(...part.querySelectorAll("[data-items] > li"));
    justify(list);
    onNew(list);
    const next = part.querySelector("[data-more]");
    if (!next) {
      watcher.disconnect();
      more.textContent = "That is all.";
      return;
    }
    more.dataset.more = next.dataset.more;
    delete more.dataset.busy;
    watcher.unobserve(more);
    watcher.observe(more);
  }, { rootMargin: "600px" });
  watcher.observe(more);
}
