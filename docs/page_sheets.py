"""Make the sheets of the page in ``docs/images``: three widths, light and dark, over the collections that are named.

    python docs/page_sheets.py photos=photos/ texts=texts.csv:text?text=chess digits= words=search/?id=berlin

A place is what ``hashlearn app`` takes (``FILE:COLUMN`` is ``FILE --text COLUMN``, nothing is the handwritten digits),
or the folder of a saved search. What is behind ``?`` is the query whose results are shown; without it, the first
example of the largest cluster. A sheet has the home and the results at 1440, 1024 and 390 pixels, light above dark. It
needs ``pip install 'hashlearn[app]' playwright`` and Chromium.
"""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from urllib.request import urlopen

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
WIDTHS, HEIGHT = (1440, 1024, 390), 900
SHEET_WIDTH, GAP = 1800, 24


def command_for(place: str, port: int) -> list[str]:
    """The command that serves a place."""
    hashlearn = [sys.executable, "-m", "hashlearn"]
    if (Path(place) / "catalog.db").is_file():
        return [*hashlearn, "serve", place, "--port", str(port)]
    file, _, column = place.partition(":")
    return [*hashlearn, "app", *([file] if file else []), *(["--text", column] if column else []), "--port", str(port)]


@contextmanager
def serving(place: str) -> Iterator[str]:
    """The address of a server, once it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen(command_for(place, port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            while server.poll() is None:
                with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/readyz"):
                    break
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def sheet(browser: Browser, address: str, query: str | None) -> Image.Image:
    """The home and the results of a query, in all widths and both schemes, on one picture."""
    rows = []
    for scheme in ("light", "dark"):
        home, results = [], []
        for width in WIDTHS:
            context = browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
            page = context.new_page()
            page.set_default_timeout(300_000)
            home.append(taken(page, f"{address}/"))
            query = query or page.locator(".clusters .example").first.get_attribute("href").partition("?")[2]
            results.append(taken(page, f"{address}/?{query}"))
            context.close()
        rows += [home, results]
    full = Image.new("RGB", (sum(WIDTHS) + 2 * GAP, len(rows) * (HEIGHT + GAP) - GAP), "#888")
    for number, images in enumerate(rows):
        left = 0
        for image in images:
            full.paste(image, (left, number * (HEIGHT + GAP)))
            left += image.width + GAP
    return full.resize((SHEET_WIDTH, full.height * SHEET_WIDTH // full.width), Image.Resampling.LANCZOS)


def taken(page: Page, address: str) -> Image.Image:
    """A screenshot of an address, when its work is done."""
    page.goto(address)
    while page.locator("[data-job]").count():
        page.wait_for_timeout(300)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1500)  # points and pictures on the map
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def main(named: list[str]) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for each in named:
            name, _, place = each.partition("=")
            place, _, query = place.partition("?")
            with serving(place) as address:
                made = sheet(browser, address, query or None)
            path = IMAGES / f"sheet-{name}.webp"
            made.save(path, quality=70, method=6)
            print(path)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
