"""Look at the built site: ``make docs`` checks its links, ``make docs-check`` also opens it in Chromium.

Links: every page, file and anchor that a page names is there, and nothing is fetched from another host.
In Chromium: pages work from the file system and below a path of a server, search works, and axe-core finds nothing
serious.
"""

import argparse
import functools
import http.server
import itertools
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).resolve().parent / "_build" / "html"
LOOKED_AT = (
    "index.html",
    "howto/stores.html",
    "explanation/results.html",
    "measurements/embeddings.html",
    "gallery/plot_4_jpsh_step_by_step.html",
    "reference/generated/hashlearn.JPSH.html",
)
WIDTHS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
READY = "document.readyState == 'complete' && (!window.MathJax?.startup || MathJax.startup.promise.then(() => true))"
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


def look(site: Path, axe: Path, shots: Path | None) -> Iterator[str]:
    """What is wrong with the site in a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, below_a_path(site) as address:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for theme, width in itertools.product(("light", "dark"), WIDTHS):
            yield from look_at_pages(browser, site.as_uri(), theme, width, axe, shots)
        yield from look_at_pages(browser, address, "light", "desktop", None, None)
        browser.close()


def chromium() -> str:
    """The program of the browser."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise FileNotFoundError("Chromium is not installed")
    return found


def look_at_pages(browser, start, theme, width, axe, shots) -> Iterator[str]:
    """Open some pages and search, as one visitor would."""
    found: list[str] = []
    context = browser.new_context(viewport=WIDTHS[width], color_scheme=theme)
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.on("request", lambda request: request.url.startswith(start) or found.append(f"asks for {request.url[:100]}"))
    page.on("requestfailed", lambda request: found.append(f"failed {request.url}: {request.failure}"))
    page.on("response", lambda response: response.status < 400 or found.append(f"{response.status} {response.url}"))
    page.on("pageerror", lambda error: found.append(str(error)))
    for path in LOOKED_AT:
        page.goto(f"{start}/{path}")
        page.wait_for_function(READY)
        if axe:
            found += [f"{path}: {line}" for line in faults_on(page, axe)]
        if shots:
            page.screenshot(path=shots / f"{path.replace('/', '-').removesuffix('.html')}-{theme}-{width}.png")
    page.goto(f"{start}/search.html?q=anchor")
    page.locator("#search-results li a").first.click()
    page.wait_for_function(READY)
    context.close()
    yield from (f"{start.partition(':')[0]} {theme} {width}: {line}" for line in found if "asks for data:" not in line)


@contextmanager
def below_a_path(site: Path) -> Iterator[str]:
    """Serve the site below a path; gives its address."""
    with tempfile.TemporaryDirectory() as root:
        Path(root, "some", "path").mkdir(parents=True)
        Path(root, "some", "path", "site").symlink_to(site)
        handler = functools.partial(QuietHandler, directory=root)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}/some/path/site"
            server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


def faults_on(page, axe) -> Iterator[str]:
    """What axe-core calls serious on a page, and whether the page is too wide."""
    page.add_script_tag(path=axe)
    # axe would fetch the style sheets again, which a browser refuses on the file system
    for violation in page.evaluate("axe.run({preload: false})")["violations"]:
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
    if said.shots:
        said.shots.mkdir(parents=True, exist_ok=True)
    n_faults = 0
    for line in itertools.chain(
        broken_links(said.site), look(said.site.resolve(), said.axe, said.shots) if said.axe else ()
    ):
        print(line, flush=True)
        n_faults += 1
    print(f"{len(list(said.site.rglob('*.html')))} pages, {n_faults} faults")
    sys.exit(1 if n_faults else 0)


if __name__ == "__main__":
    main()
