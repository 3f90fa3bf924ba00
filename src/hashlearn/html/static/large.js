// One picture, large: by its button, or by the space key on a picture. Arrow keys go on, P picks, Escape ends it.
export function enlarge() {
  let items = [];
  let place = 0;
  const dialog = document.createElement("dialog");
  dialog.className = "large";
  dialog.setAttribute("aria-label", "One picture, large");
  dialog.innerHTML =
    '<figure><img alt=""></figure><div class="bar"><p></p><button type="button" class="plain" data-step="-1">Previous</button>' +
    '<button type="button" class="plain" data-step="1">Next</button><button type="button" class="plain" data-large-pick>Pick</button>' +
    '<a class="button">More like this</a><button type="button" data-close>Close</button></div>';
  document.body.append(dialog);
  const [image, said, like] = ["img", "p", "a"].map(name => dialog.querySelector(name));
  const pick = dialog.querySelector("[data-large-pick]");

  const show = () => {
    const item = items[place];
    const small = item.querySelector("img");
    image.src = `/page/thumbnail?id=${encodeURIComponent(item.dataset.id)}&size=large`;
    image.alt = small.alt;
    const fields = [...item.querySelectorAll(".fields div")].map(field => [...field.children].map(part => part.textContent).join(": "));
    said.textContent = `${place + 1} of ${items.length}: ${[item.querySelector(".id").textContent, ...fields].join(" · ")}`;
    image.classList.toggle("small", item.classList.contains("small"));
    like.href = item.querySelector("a").href;
    pick.textContent = item.querySelector("[data-pick]").ariaPressed === "true" ? "Put back" : "Pick";
  };
  const step = by => {
    place = (place + by + items.length) % items.length;
    show();
  };
  const open = item => {
    items = [...item.parentElement.querySelectorAll(".item.picture")];
    place = items.indexOf(item);
    show();
    dialog.showModal();
  };
  document.addEventListener("click", event => {
    if (event.target.closest("[data-enlarge]")) open(event.target.closest(".item.picture"));
  });
  document.addEventListener("keydown", event => {
    const item = event.target.closest?.(".items .item.picture");
    if (event.key === " " && item && event.target.matches("a")) {
      event.preventDefault();
      open(item);
    }
  });
  dialog.addEventListener("keydown", event => {
    if (event.key === "ArrowRight") step(1);
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "p") pick.click();
  });
  dialog.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (button?.dataset.step) step(Number(button.dataset.step));
    if (button === pick) {
      items[place].querySelector("[data-pick]").click();
      show();
    }
    if (event.target === dialog || (button && "close" in button.dataset)) dialog.close();
  });
  dialog.addEventListener("close", () => items[place]?.querySelector("a").focus());
}
