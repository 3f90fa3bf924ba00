// What the theme leaves out for people who use a keyboard or a screen reader.
window.addEventListener("load", () => {
  // The toggles of the navigation are drawn without a text.
  for (const summary of document.querySelectorAll("nav summary:not([aria-label])")) {
    const link = summary.closest("li")?.querySelector("a");
    summary.setAttribute("aria-label", `Pages of ${link ? link.textContent.trim() : "this part"}`);
  }
  // A signature of several lines is drawn as a list of definitions without terms.
  for (const part of document.querySelectorAll("dt.sig dl, dt.sig dl > dd")) {
    part.setAttribute("role", "presentation");
  }
  // Wide tables and formulas scroll inside the page: the arrow keys must reach them.
  for (const wide of document.querySelectorAll(".bd-article table, .bd-article div.math")) {
    wide.tabIndex = 0;
  }
});
