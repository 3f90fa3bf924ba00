"""The results of the training benchmark as JSON and as a picture."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

from threadpoolctl import threadpool_info

import hashlearn


def write(lines: list[dict], path: Path) -> None:
    """All lines, and what they were measured on."""
    threads = {library["internal_api"]: library["num_threads"] for library in threadpool_info()}
    versions = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "faiss-cpu")}
    versions["hashlearn"] = hashlearn.__version__
    machine = {"processor": platform.processor(), "cores": os.cpu_count(), "threads": threads, "versions": versions}
    path.write_text(json.dumps({"machine": machine, "results": lines}, indent=2) + "\n", encoding="utf-8")


def plot(lines: list[dict], path: Path) -> None:
    """A bar for every ratio, as a share of what is wanted where something is."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    lines = [line for line in lines if line["target"]][::-1]
    figure, axes = plt.subplots(figsize=(9, 0.45 * len(lines) + 1.2), layout="constrained")
    # Above one is better for all: a limit over what was measured, or what was measured over the least wanted.
    met = [
        line["ratio"] / line["target"] if line["at_least"] else line["target"] / max(line["ratio"], 1e-9)
        for line in lines
    ]
    axes.barh([line["what"] for line in lines], met, color=["#4878a8" if value >= 1 else "#c44e52" for value in met])
    for place, (line, value) in enumerate(zip(lines, met)):
        axes.text(value, place, f" {line['ratio']:.3g}", va="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("how well the mark (black) is met; numbers are what was measured")
    figure.savefig(path)
    plt.close(figure)
