"""Draw what the neighbors benchmark measured."""

import json
from pathlib import Path

STYLES = {
    "ABH": ("C0", "o"),
    "ABH reranked": ("C0", "*"),
    "ITQ": ("C7", "s"),
    "PQ": ("C1", "^"),
    "PQFastScan": ("C5", "P"),
    "OPQ": ("C3", "v"),
    "RaBitQ": ("C2", "D"),
}
OTHER = ("C4", "X")
TITLES = {
    "gist": "CIFAR-10, GIST",
    "cnn": "CIFAR-10, CNN",
    "mnist": "MNIST",
    "text": "AG News, MiniLM",
    "flickr": "FLICKR25K tags",
}


def latest_cases(path: Path) -> list[dict]:
    """The cases of full runs, of each dataset and method the last."""
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    full = [run for run in runs if not run["quick"]] or runs
    return list({(case["data"], case["method"]): case for run in full for case in run["cases"]}.values())


def plot(results: Path, path: Path) -> None:
    """Recall 10@10 against bytes a vector, and against the time of a query; a column for each dataset."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

    cases = latest_cases(results)
    datasets = [data for data in TITLES if any(case["data"] == data for case in cases)]
    figure = Figure(figsize=(2.6 * len(datasets), 5.4), layout="constrained")
    axes = figure.subplots(2, len(datasets), squeeze=False, sharey=True)
    labeled = {}
    for data, column in zip(datasets, axes.T):
        own = [case for case in cases if case["data"] == data]
        for axis, key, label in zip(
            column, ("bytes", "search_microseconds"), ("bytes a vector", "microseconds a query")
        ):
            for family in dict.fromkeys(family_of(case["method"]) for case in own):
                points = sorted((case[key], case["recall_10"]) for case in own if family_of(case["method"]) == family)
                color, marker = STYLES.get(family, OTHER)
                (labeled[family],) = axis.plot(*zip(*points), color=color, marker=marker, linestyle="none", alpha=0.8)
            axis.set(xscale="log", xlabel=label, ylim=(0, 1.03))
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axis.xaxis.set_major_formatter(ScalarFormatter())
            axis.xaxis.set_minor_locator(NullLocator())
            axis.spines[["top", "right"]].set_visible(False)
        column[0].set_title(TITLES[data])
    for axis in axes[:, 0]:
        axis.set_ylabel("10@10")
    names = [name for name in (*STYLES, *labeled) if name in labeled]
    names = list(dict.fromkeys(names))
    figure.legend([labeled[name] for name in names], names, loc="outside lower center", ncols=len(names), frameon=False)
    figure.savefig(path, dpi=120)


def family_of(method: str) -> str:
    """The first word of a method's name."""
    return "ABH reranked" if "rerank" in method else method.replace(",", " ").split()[0]
