"""Make the pictures of pages in ``docs/images`` again: the paper's figures, from the stored results, the demo, the app.

    python docs/images.py                # all of them
    python docs/images.py figure-8       # only this one

It needs ``pip install hashlearn[report,app]``, Playwright and Chromium, which draws the pages.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import numpy as np
from check_site import chromium
from PIL import Image

from hashlearn.experiments import ResultFolder, Results, paper_experiment
from hashlearn.experiments.demo import run_demo
from hashlearn.experiments.show.demo_page import demo_page
from hashlearn.experiments.show.experiment_page import ReportedExperiment, report_page

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ("figure-4", "figures-5-6", "figure-7", "figure-8")
WIDTH, TALLEST = 1100, 4000
DEMO_HEIGHT = 830
DIGIT = 3
"""The digit that the pictures of the app search for: its nearest codes are digits of the same kind."""
APP_PICTURES = {
    "app-search": (f"/?id={DIGIT}", "light"),
    "app-inside": (f"/page/inside?id={DIGIT}&radius=12&k=6", "dark"),
}
"""Name of a picture -> the address of a view of the app, and its theme."""
ONLY_THE_SECTION = "<style>header, footer { display: none } body { padding: 0 1.25rem } h2 { margin-top: 0 }</style>"


def main(names: list[str]) -> None:
    chosen = names or [*FIGURES, "demo", *APP_PICTURES]
    shoot_app([name for name in chosen if name in APP_PICTURES])
    for name in [name for name in chosen if name not in APP_PICTURES]:
        html = demo_page(run_demo()) if name == "demo" else figure_page(name)
        picture = cropped(screenshot(html))
        if name == "demo":
            picture = picture.crop((0, 0, picture.width, DEMO_HEIGHT))
        save(name, picture)


def save(name: str, picture: Image.Image) -> None:
    """Write a picture to ``docs/images``."""
    path = ROOT / "docs" / "images" / f"{name}.png"
    picture.convert("P", palette=Image.Palette.ADAPTIVE).save(path, optimize=True)
    print(path.relative_to(ROOT))


def shoot_app(names: list[str]) -> None:
    """Make pictures of ``hashlearn app`` with the digits of scikit-learn."""
    if not names:
        return
    from playwright.sync_api import sync_playwright

    with digits_app() as address, sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name in names:
            path, theme = APP_PICTURES[name]
            page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=theme)
            page.goto(f"{address}{path}", wait_until="networkidle")
            shot = Path(folder) / f"{name}.png"
            page.screenshot(path=shot)
            with Image.open(shot) as picture:
                save(name, picture.convert("RGB"))
        browser.close()


@contextmanager
def digits_app() -> Iterator[str]:
    """Run ``hashlearn app``; gives its address."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "hashlearn", "app", "--port", "0"]
        environment = {**os.environ, "HASHLEARN_CACHE": cache, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                line = server.stdout.readline()
                found = re.search(r"Open (http://\S+)", line)
                if found is None:
                    raise RuntimeError(f"hashlearn app said {line!r}")
                address = found[1].rstrip("/")
                wait_until_ready(address)
                yield address
            finally:
                server.terminate()


def wait_until_ready(address: str) -> None:
    """Return when the app answers, after two minutes at most."""
    for _ in range(1200):
        with suppress(OSError), urlopen(f"{address}/readyz"):
            return
        time.sleep(0.1)
    raise TimeoutError(f"{address} does not answer")


def figure_page(name: str) -> str:
    """The section of a figure, as a page of its own."""
    experiment = paper_experiment(name)
    datasets = [dataset.name for dataset in experiment.datasets]
    results = Results(ResultFolder(ROOT / "results").lines(datasets))
    page = report_page([ReportedExperiment(experiment, results)])
    return page.replace("</head>", f"{ONLY_THE_SECTION}</head>")


def screenshot(html: str) -> Image.Image:
    """The page as Chromium shows it in light mode."""
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "page.html", Path(folder) / "page.png"
        page.write_text(html, encoding="utf-8")
        command = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--window-size={WIDTH},{TALLEST}", f"--screenshot={picture}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        with Image.open(picture) as image:
            return image.convert("RGB")


def cropped(picture: Image.Image) -> Image.Image:
    """The picture without the empty space below the last thing on it."""
    pixels = np.asarray(picture)
    filled = np.flatnonzero((pixels != pixels[-1, -1]).any(axis=(1, 2)))
    return picture.crop((0, 0, picture.width, int(filled[-1]) + 16))


if __name__ == "__main__":
    main(sys.argv[1:])
