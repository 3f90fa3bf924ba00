// A click on the heading of a column sorts the rows of each group of a table; a second click turns the order.
for (const table of document.querySelectorAll(".scroll table")) {
  const headings = [...table.tHead.rows[0].cells];
  const shown = row => row.cells[headings.indexOf(table.sortedBy)]?.textContent.trim() ?? "";
  const value = text => Number.parseFloat(text.replaceAll(",", ""));
  const compare = (a, b) => {
    const [x, y] = [shown(a), shown(b)];
    const [first, second] = [value(x), value(y)];
    if (Number.isNaN(first) && Number.isNaN(second)) return x.localeCompare(y);
    return Number.isNaN(first) ? 1 : Number.isNaN(second) ? -1 : first - second;
  };
  for (const heading of headings) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      // Numbers begin with the largest, names with the first.
      const first = headings.indexOf(heading) ? "descending" : "ascending";
      const turned = { ascending: "descending", descending: "ascending" }[heading.ariaSort];
      for (const other of headings) other.ariaSort = null;
      heading.ariaSort = turned ?? first;
      table.sortedBy = heading;
      const sign = heading.ariaSort === "ascending" ? 1 : -1;
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter(row => !row.classList.contains("heading"));
        body.append(...rows.sort((a, b) => sign * compare(a, b)));
      }
    });
  }
}
