"""Look at the built site: ``make docs`` checks its links, ``make docs-check`` also opens it in Chromium.

Links: every page, file and anchor that a page names is there, and nothing is fetched from another host.
In Chromium: pages work from the file system and below a path of a server, search works, and axe-core finds nothing serious.
"""

import argparse
import functools
import http.server
import shutil
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).resolve().parent / "_build" / "html"
LOOKED_AT = (
    "index.html",
    "howto/stores.html",
    "gallery/plot_4_jpsh_step_by_step.html",
    "reference/generated/hashlearn.JPSH.html",
    "reference/command-line.html",
    "explanation/results.html",
)
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
READY = "document.readyState == 'complete' && (!window.MathJax || !MathJax.startup || MathJax.startup.promise.then(() => true))"
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links and anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        self.anchors |= {said[name] or "" for name in ("id", "name") if name in said}
        if tag == "a" and said.get("href"):
            self.links.append(said["href"] or "")
        if tag in FETCHED and said.get(FETCHED[tag]) and said.get("rel") not in ("canonical", "author"):
            self.fetched.append(said[FETCHED[tag]] or "")


def broken_links(site: Path) -> list[str]:
    """A line for everything that a page names and that is not there, and for what it would fetch from elsewhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.fetched and parts.scheme != "data":
                    found.append(f"{path.relative_to(site)}: fetches {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{path.relative_to(site)}: no {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{path.relative_to(site)}: no anchor {link}")
    return found


def look(site: Path, axe: Path, shots: Path | None) -> list[str]:
    """What is wrong with the site in a browser."""
    from playwright.sync_api import sync_playwright

    found: list[str] = []
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as root:
        Path(root, "some", "path").mkdir(parents=True)
        Path(root, "some", "path", "site").symlink_to(site)
        handler = functools.partial(QuietHandler, directory=root)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for start in (site.as_uri(), f"http://127.0.0.1:{server.server_port}/some/path/site"):
            for theme in ("light", "dark"):
                for name, (width, height) in WIDTHS.items():
                    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
                    context.set_default_timeout(120_000)
                    page = context.new_page()
                    where = f"{start.split(':')[0]} {theme} {name}"
                    page.on("request", functools.partial(_note_request, found, where, start))
                    page.on("requestfailed", lambda request, w=where: found.append(f"{w}: failed {request.url}"))
                    page.on("pageerror", lambda error, w=where: found.append(f"{w}: {error}"))
                    for path in LOOKED_AT:
                        page.goto(f"{start}/{path}")
                        page.wait_for_function(READY)
                        if start.startswith("file"):
                            found += [f"{where} {path}: {line}" for line in _wrong_on(page, axe)]
                            if shots:
                                shot = f"{path.replace('/', '-').removesuffix('.html')}-{theme}-{name}.png"
                                page.screenshot(path=shots / shot, full_page=False)
                    page.goto(f"{start}/search.html?q=glossary+anchor")
                    page.wait_for_selector("#search-results li a")
                    page.locator("#search-results li a").first.click()
                    page.wait_for_function(READY)
                    if "Not Found" in page.title():
                        found.append(f"{where}: the first result of the search leads nowhere")
                    context.close()
        browser.close()
        server.shutdown()
    return found


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


def _note_request(found, where, start, request):
    if not request.url.startswith((start, "data:", "blob:", "about:")):
        found.append(f"{where}: asks for {request.url}")


def _wrong_on(page, axe):
    page.add_script_tag(path=axe)
    for violation in page.evaluate("axe.run()")["violations"]:
        if violation["impact"] in ("serious", "critical"):
            nodes = violation["nodes"]
            yield f"{violation['id']} ({len(nodes)}): {violation['help']}: {nodes[0]['html'][:150]}"
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if overflow > 0:
        yield f"wider than the window by {overflow} pixels"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--axe", type=Path, help="axe.min.js: open the site in Chromium, too")
    parser.add_argument("--shots", type=Path, help="folder for screenshots")
    said = parser.parse_args()
    found = broken_links(said.site)
    n_pages = len(list(said.site.rglob("*.html")))
    if said.axe:
        if said.shots:
            said.shots.mkdir(parents=True, exist_ok=True)
        found += look(said.site.resolve(), said.axe, said.shots)
    print(*found, sep="\n")
    print(f"{n_pages} pages, {len(found)} faults")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
