// The basket: items that somebody picked, kept by the browser for this collection, to be tagged, exported and searched.
export function offerBasket() {
  const key = `basket ${document.body.dataset.collection}`;
  const read = () => JSON.parse(localStorage.getItem(key) ?? "[]");
  const bar = document.createElement("section");
  bar.className = "basket";
  bar.setAttribute("aria-label", "Basket");
  bar.hidden = true;
  document.body.append(bar);

  const write = ids => {
    localStorage.setItem(key, JSON.stringify(ids));
    show();
    for (const list of document.querySelectorAll("[data-items]")) mark(list);
  };
  const link = (text, like, unlike = []) => {
    const a = document.createElement("a");
    a.className = "button";
    a.textContent = text;
    const address = new URLSearchParams();
    for (const id of like) address.append("like", id);
    for (const id of unlike) address.append("unlike", id);
    a.href = `/?${address}`;
    return a;
  };
  const button = (text, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "plain";
    made.textContent = text;
    made.addEventListener("click", act);
    return made;
  };

  const show = () => {
    const ids = read();
    bar.hidden = ids.length === 0;
    if (bar.hidden) return bar.replaceChildren();
    const said = document.createElement("strong");
    said.setAttribute("role", "status");
    said.textContent = ids.length === 1 ? "1 item picked" : `${ids.length} items picked`;
    const shown = new URLSearchParams(location.search).getAll("like");
    const others = ids.filter(id => !shown.includes(id));
    const parts = [said, link("More like these", ids.slice(0, 40))];
    if (shown.length && others.length) parts.push(link("Less like the others", shown, others.slice(0, 10)));
    bar.replaceChildren(...parts, exportForm(ids), button("Empty", () => write([])));
  };
  const exportForm = ids => {
    const form = document.createElement("form");
    form.method = "post";
    form.action = "/page/export";
    form.innerHTML =
      '<input type="hidden" name="ids"><label class="sr" for="tag">Tag</label><input id="tag" name="tag" placeholder="tag (optional)">' +
      ' <button class="plain" name="format" value="csv">CSV</button> <button class="plain" name="format" value="ids">Ids</button> <button class="plain" name="format" value="parquet">Parquet</button>';
    form.elements.ids.value = JSON.stringify(ids);
    return form;
  };

  const mark = list => {
    const ids = new Set(read());
    for (const item of list.querySelectorAll("[data-id]")) {
      const pick = item.querySelector("[data-pick]");
      pick.hidden = false;
      pick.setAttribute("aria-pressed", ids.has(item.dataset.id));
      pick.firstChild.textContent = ids.has(item.dataset.id) ? "Picked" : "Pick";
      item.querySelector("[data-enlarge]")?.removeAttribute("hidden");
    }
    list.parentElement.querySelector("[data-pick-all]")?.removeAttribute("hidden");
  };
  document.addEventListener("click", event => {
    const all = event.target.closest("[data-pick-all]");
    if (all) {
      const items = [...all.closest("li").querySelectorAll("[data-id]")];
      write([...new Set([...read(), ...items.map(item => item.dataset.id)])]);
    }
    const pick = event.target.closest("[data-pick]");
    if (!pick) return;
    const { id } = pick.closest("[data-id]").dataset;
    const ids = read();
    write(ids.includes(id) ? ids.filter(other => other !== id) : [...ids, id]);
  });
  show();
  return { mark };
}
