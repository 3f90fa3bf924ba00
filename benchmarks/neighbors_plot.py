"""Draw what the neighbors benchmark measured."""

import json
from pathlib import Path

STYLES = {"ABH": ("C0", "o"), "ITQ": ("C7", "s"), "PQ": ("C1", "^"), "OPQ": ("C3", "v"), "RaBitQ": ("C2", "D")}
OTHER = ("C5", "P")


def latest_cases(path: Path) -> list[dict]:
    """The cases of full runs, of each dataset and method the last."""
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    full = [run for run in runs if not run["quick"]] or runs
    return list({(case["data"], case["method"]): case for run in full for case in run["cases"]}.values())


def plot(results: Path, path: Path) -> None:
    """Recall 10@10 against bytes a vector, and against the time of a query; a column for each dataset."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cases = latest_cases(results)
    datasets = list(dict.fromkeys(case["data"] for case in cases))
    figure, axes = plt.subplots(2, len(datasets), figsize=(3.2 * len(datasets), 6), squeeze=False, sharey="col")
    for data, column in zip(datasets, axes.T):
        own = [case for case in cases if case["data"] == data]
        for axis, key, label in zip(
            column, ("bytes", "search_microseconds"), ("bytes a vector", "microseconds a query")
        ):
            for family in dict.fromkeys(family_of(case["method"]) for case in own):
                points = sorted((case[key], case["recall_10"]) for case in own if family_of(case["method"]) == family)
                color, marker = STYLES.get(family, OTHER)
                axis.plot(*zip(*points), color=color, marker=marker, linestyle="none", alpha=0.8, label=family)
            axis.set(xscale="log", xlabel=label, title=f"{data}, {own[0]['n_rows']} rows")
    for axis in axes[:, 0]:
        axis.set_ylabel("recall 10@10")
    axes[0][0].legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def family_of(method: str) -> str:
    """The first word of a method's name."""
    return "ABH reranked" if "rerank" in method else method.replace(",", " ").split()[0]
