"""Draw the pictures of docs/images that show stored results.

    python docs/plots.py                     # all of them
    python docs/plots.py embeddings starts   # only these

The results are in ``results`` and ``benchmarks/results``; nothing is measured here.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from tables import (
    BOARD_SETS,
    ENGINE_SETS,
    LENGTHS,
    UNIT_SETS,
    benchmark_runs,
    board_points,
    engine_pairs,
    paper_results,
    scan_ratios,
)

from hashlearn.experiments import ResultFolder, Results, paper_experiment, read_experiment
from hashlearn.experiments.results import MeasureTable, measure_tables

ROOT = Path(__file__).resolve().parents[1]
EMBEDDINGS = ("ag-news-minilm", "cifar-10-cnn", "mnist")
MEASURES = {"mAP": "mAP, by meaning", "recall_at_10": "10@10, by neighborhood"}
LEAST_LENGTHS = 3
"""A method that was run at fewer lengths is not drawn."""

COLORS = {
    "JPSH": "#1f5f8b",
    "JPSH, our defaults": "#1f5f8b",
    "JPSH, paper's settings": "#d08a2e",
    "SAH": "#5aa9d6",
    "half ITQ, half JPSH": "#7a4fa3",
    "ITQ": "#2e7d4f",
    "ITQ, real queries": "#8fbf5a",
    "ABH": "#c2571a",
}
BOARD_METHODS = (
    "PQ (faiss)",
    "OPQ (faiss)",
    "ABH",
    "LSQ (faiss)",
    "RaBitQ (faiss)",
    "rabitqlib",
    "turbovec",
    "SQ (faiss)",
    "ScaNN",
    "PCA",
)
BOARD_TICKS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
OTHERS = "#b8c0c6"
FLOATS = "#444444"


def main(names: list[str]) -> None:
    rcParams["svg.hashsalt"] = "hashlearn"  # the same results give the same file
    for name in names or PLOTS:
        path = ROOT / "docs" / "images" / f"{name}.svg"
        PLOTS[name]().savefig(path, metadata={"Date": None})
        print(path.relative_to(ROOT))


def embeddings() -> Figure:
    """By meaning and by neighborhood against the length of a code."""
    experiment = read_experiment(ROOT / "experiments" / "embeddings.toml")
    results = Results(ResultFolder(ROOT / "results" / "embeddings").lines((*EMBEDDINGS, *UNIT_SETS.values())))
    tables = {(table.dataset.name, table.measure.name): table for table in measure_tables(experiment, results)}
    figure = Figure(figsize=(4 * len(EMBEDDINGS), 3.1 * len(MEASURES)), layout="constrained")
    grid = figure.subplots(len(MEASURES), len(EMBEDDINGS), sharey="row", squeeze=False)
    labeled: dict[str, object] = {}
    for row, (measure, title) in zip(grid, MEASURES.items()):
        row[0].set_ylabel(title)
        for axes, dataset in zip(row, EMBEDDINGS):
            if (dataset, measure) in tables:
                labeled |= drawn(axes, tables[dataset, measure])
            if measure == "mAP" and (unit := tables.get((UNIT_SETS.get(dataset), measure))) is not None:
                line = axes.axhline(unit.reference, color=FLOATS, linestyle=":", linewidth=1.2)
                labeled["float vectors, cosine"] = line
    for axes, dataset in zip(grid[0], EMBEDDINGS):
        axes.set_title(experiment.definitions.dataset(dataset).title)
    for axes in grid[-1]:
        axes.set_xlabel("bits")
    legend(figure, labeled)
    return figure


def paper() -> Figure:
    """mAP against the length of a code on MNIST and CIFAR-10, and our mAP against the published mAP."""
    experiment = paper_experiment("table-2").restricted(["mnist", "cifar-10"])
    tables = [table for table in measure_tables(experiment, paper_results()) if table.measure.name == "mAP_stable"]
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    *by_length, compared = figure.subplots(1, len(tables) + 1)
    labeled: dict[str, object] = {}
    for axes, table in zip(by_length, tables):
        labeled |= drawn(axes, table)
        axes.set(title=table.dataset.title, xlabel="bits", ylabel="mAP")
        for row in table.rows:
            if not row.method.is_variant:
                cells = [(cell.published, cell.ours.mean) for cell in row.cells if cell.ours and cell.published]
                color = COLORS.get(row.title, FLOATS)
                compared.plot(*zip(*cells), linestyle="none", marker="o", markersize=3, color=color, alpha=0.7)
    compared.axline((0.4, 0.4), slope=1, color=OTHERS, linewidth=1)
    compared.set(title="methods with the paper's settings", xlabel="mAP in the paper", ylabel="our mAP")
    compared.spines[["top", "right"]].set_visible(False)
    legend(figure, labeled)
    return figure


def starts() -> Figure:
    """What the ITQ start gains or loses against the spectral start, and which of the two JPSH takes."""
    runs = {(run["dataset"], run["seed"]): run for run in benchmark_runs("starts")}.values()
    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for chosen, color, marker in (("itq", COLORS["ITQ"], "o"), ("spectral", COLORS["SAH"], "s")):
        points = [(run["local"], run["itq"]["mAP"] - run["spectral"]["mAP"]) for run in runs if run["chosen"] == chosen]
        label = {"itq": "JPSH takes the ITQ start", "spectral": "JPSH takes the spectral start"}[chosen]
        axes.plot(*zip(*points), linestyle="none", marker=marker, markersize=5, color=color, alpha=0.8, label=label)
    axes.axhline(0, color=FLOATS, linewidth=1)
    axes.set(xscale="log", xlabel="local dimension of the data", ylabel="mAP, ITQ start minus spectral start")
    ticks = (5, 10, 20, 40, 70)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    return figure


def search() -> Figure:
    """How many times longer faiss takes than the exact scan; a bar goes from the least to the most of all runs."""
    figure = Figure(figsize=(7.5, 2.4), layout="constrained")
    axes = figure.subplots()
    labels = []
    for n_queries, color in ((100, COLORS["JPSH"]), (1, COLORS["SAH"])):
        for n_bits in LENGTHS:
            ratios = scan_ratios(n_queries, n_bits, "faiss IndexBinaryFlat")
            axes.barh(len(labels), max(ratios) - min(ratios), left=min(ratios), height=0.55, color=color)
            labels.append(f"{n_bits} bits, {n_queries} {'query' if n_queries == 1 else 'queries'}")
    axes.axvline(1, color=FLOATS, linewidth=1)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set(xlim=(0, None), xlabel="time of faiss IndexBinaryFlat / time of HammingIndex")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def engines() -> Figure:
    """Queries a second against recall, one query a call, of our index and of other engines."""
    sets = {dataset: pairs for dataset in ENGINE_SETS if (pairs := engine_pairs(dataset))}
    figure = Figure(figsize=(5 * len(sets), 4), layout="constrained")
    for axes, (dataset, pairs) in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets.items()):
        for curve in (pairs[-1].ours, *(pair.other for pair in pairs)):
            points = sorted((point["recall"], point["single"]) for point in curve["points"])
            is_ours = curve is pairs[-1].ours
            style = {"color": COLORS["ABH"], "linewidth": 2.5, "zorder": 3} if is_ours else {"linewidth": 1}
            label = f"{curve['engine']}, {curve['bytes']:.0f} bytes"
            axes.plot(*zip(*points), marker="o", markersize=3, label=label, **style)
        axes.set(yscale="log", xlim=(0.8, 1), xlabel="recall 10@10", ylabel="queries a second, one thread")
        axes.set_title(f"{dataset}, {pairs[-1].run['rows']:,} x {pairs[-1].run['width']}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="x-small")
    return figure


def leaderboard() -> Figure:
    """10@10 from codes alone against bytes: our codes and the quantizers of others."""
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    grid = figure.subplots(2, 3).flat
    labeled: dict[str, object] = {}
    for (dataset, title), axes in zip(BOARD_SETS.items(), grid):
        points = board_points(dataset)
        for method in dict.fromkeys(point.method for point in points):
            drawn_points = sorted((p.bytes, p.measures["recall_at_10"]) for p in points if p.method == method)
            is_ours = method == "ABH"
            if method in BOARD_METHODS:
                style = {"color": COLORS["ABH"], "linewidth": 2.5, "zorder": 3} if is_ours else {"linewidth": 1}
                style.setdefault("color", f"C{BOARD_METHODS.index(method)}")
                (labeled[method],) = axes.plot(*zip(*drawn_points), marker="o", markersize=4, **style)
            elif len(drawn_points) <= LEAST_LENGTHS:
                labeled["others"] = axes.scatter(*zip(*drawn_points), s=9, color=OTHERS)
        axes.set_xscale("log", base=2)
        axes.set_xticks(BOARD_TICKS, [str(tick) for tick in BOARD_TICKS])
        axes.set(title=title, xlabel="bytes a vector", ylabel="10@10 from codes alone", ylim=(0, 1.02), xlim=(4, 1024))
        axes.spines[["top", "right"]].set_visible(False)
    last = next(grid)
    last.axis("off")
    last.legend(labeled.values(), labeled, loc="center", frameon=False)
    return figure


def legend(figure: Figure, labeled: dict[str, object]) -> None:
    """The legend below the axes, with the names in the order of COLORS."""
    order = [name for name in (*COLORS, "others", "float vectors", "float vectors, cosine") if name in labeled]
    figure.legend([labeled[name] for name in order], order, loc="outside lower center", ncols=5, frameon=False)


def drawn(axes: Axes, table: MeasureTable) -> dict[str, object]:
    """Draw the methods of a table, and return what the legend shows."""
    labeled: dict[str, object] = {}
    for row in sorted(table.rows, key=lambda row: row.title in COLORS):
        points = [(bits, cell.ours.mean) for bits, cell in zip(table.bits, row.cells) if cell.ours]
        if len(points) >= LEAST_LENGTHS:
            strong = row.title in COLORS
            color, width = (COLORS[row.title], 1.8) if strong else (OTHERS, 1)
            (line,) = axes.plot(*zip(*points), marker="o", markersize=3, color=color, linewidth=width)
            labeled[row.title if strong else "others"] = line
    if table.reference is not None and table.measure.name.startswith("mAP"):
        labeled["float vectors"] = axes.axhline(table.reference, color=FLOATS, linestyle="--", linewidth=1)
    lengths = [bits for bits in table.bits if bits & (bits - 1) == 0]
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(bits) for bits in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)
    return labeled


PLOTS: dict[str, Callable[[], Figure]] = {
    "embeddings": embeddings,
    "paper": paper,
    "starts": starts,
    "search": search,
    "engines": engines,
    "leaderboard": leaderboard,
}


if __name__ == "__main__":
    main(sys.argv[1:])
