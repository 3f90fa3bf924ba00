"""Make the paper's figures in ``docs/images`` again, from the stored results.

    python docs/images.py                # all of them
    python docs/images.py figure-8       # only this one

It needs ``pip install hashlearn[report]`` and Chromium, which draws the pages; docs/page_images.py shows the app.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from check_site import chromium
from PIL import Image

from hashlearn.experiments import ResultFolder, Results, paper_experiment
from hashlearn.experiments.show.experiment_page import ReportedExperiment, report_page

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ("figure-4", "figures-5-6", "figure-7", "figure-8")
WIDTH, TALLEST = 1100, 4000
ONLY_THE_SECTION = "<style>header, footer { display: none } body { padding: 0 1.25rem } h2 { margin-top: 0 }</style>"


def main(names: list[str]) -> None:
    for name in names or FIGURES:
        save(name, cropped(screenshot(figure_page(name))))


def save(name: str, picture: Image.Image) -> None:
    """Write a picture to ``docs/images``."""
    path = ROOT / "docs" / "images" / f"{name}.png"
    picture.convert("P", palette=Image.Palette.ADAPTIVE).save(path, optimize=True)
    print(path.relative_to(ROOT))


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
