"""The first view of a large collection in a browser, and how soon a filter redraws it.

    python benchmarks/explore.py                     # a million rows; some minutes, mostly to make them
    python benchmarks/explore.py --n 100000 --folder /tmp/explore    # the folder is kept, and taken again

Rows are clusters of Gaussians with four payload fields. The map is made and saved before. Measured with Chromium: from
a server that is ready to a home whose map is drawn; the same a second time; and from a click on the box of a filter to
a page with the filtered map. It needs ``pip install 'hashlearn[app]' playwright``. A line is added to
``results/explore.jsonl``.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright
from runs import add_out_option, append_run
from serving import free_port, vectors, wait_until_ready

from hashlearn import ITQ, SimilaritySearch

BLOCK = 50_000
COLORS = ("red", "green", "blue", "yellow", "black", "white")
N_ROUNDS = 5


def make_search(folder: Path, n: int) -> None:
    search = SimilaritySearch(ITQ(n_bits=64, random_state=0), keep_vectors="int8").fit(vectors(20_000, 1))
    rng = np.random.default_rng(0)
    for start in range(0, n, BLOCK):
        rows = min(BLOCK, n - start)
        colors, years, prices = (
            rng.integers(0, len(COLORS), rows),
            rng.integers(1950, 2026, rows),
            rng.gamma(2, 50, rows),
        )
        payloads = [
            {"color": COLORS[color], "year": int(year), "price": round(float(price), 2), "shop": int(row % 40)}
            for row, (color, year, price) in enumerate(zip(colors, years, prices))
        ]
        search.add(vectors(rows, 2 + start), payloads=payloads)
    search.save(folder)
    start = time.perf_counter()
    search.map()
    print(f"map of {n} rows: {time.perf_counter() - start:.1f} s", flush=True)
    search.close()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of ``hashlearn serve``, once it is ready."""
    port = free_port()
    command = [sys.executable, "-m", "hashlearn", "serve", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def drawn(page: Page) -> float:
    """Milliseconds from the begin of the navigation until the map is drawn, by the clock of the browser."""
    return page.evaluate(
        """() => new Promise(done => {
            const look = () => {
                const canvas = document.querySelector(".map canvas");
                const context = canvas && canvas.getContext("2d");
                const data = context && context.getImageData(0, 0, canvas.width, canvas.height).data;
                if (data && data.some(value => value > 0)) done(performance.now());
                else requestAnimationFrame(look);
            };
            look();
        })"""
    )


def measured(folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"first_ms": [], "again_ms": [], "filter_ms": []}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with serving(folder) as address:
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.set_default_timeout(120_000)
            page.goto(address, wait_until="commit")
            found["first_ms"].append(drawn(page))
            for _ in range(N_ROUNDS):
                page.goto(address, wait_until="commit")
                found["again_ms"].append(drawn(page))
                page.wait_for_selector('[name="f.color"]')
                page.locator('[name="f.color"]').nth(1).click(no_wait_after=True)
                page.wait_for_url("**f.color=**", wait_until="commit")
                found["filter_ms"].append(drawn(page))
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the search is kept")
    add_out_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name) / "search"
        if not (folder / "catalog.db").is_file():
            make_search(folder, options.n)
        line = {"n": options.n, **measured(folder)}
    print(line)
    append_run(options.out, "explore", line)


if __name__ == "__main__":
    main()
