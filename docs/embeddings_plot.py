"""Draw docs/images/embeddings.svg from results/embeddings: by meaning and by neighborhood against the length of a code.

python docs/embeddings_plot.py
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from tables import UNIT_SETS

from hashlearn.experiments import ResultFolder, Results, read_experiment
from hashlearn.experiments.results import MeasureTable, measure_tables

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "images" / "embeddings.svg"
DATASETS = ("ag-news-minilm", "cifar-10-cnn", "mnist")
MEASURES = {"mAP": "mAP, by meaning", "recall_at_10": "10@10, by neighborhood"}
LEAST_LENGTHS = 3
"""A method that was run at fewer lengths is not drawn."""

COLORS = {
    "JPSH": "#1f5f8b",
    "SAH": "#5aa9d6",
    "half ITQ, half JPSH": "#7a4fa3",
    "ITQ": "#2e7d4f",
    "ITQ, real queries": "#8fbf5a",
    "ABH": "#c2571a",
}
OTHERS = "#b8c0c6"
FLOATS = "#444444"


def main() -> None:
    experiment = read_experiment(ROOT / "experiments" / "embeddings.toml")
    results = Results(ResultFolder(ROOT / "results" / "embeddings").lines((*DATASETS, *UNIT_SETS.values())))
    tables = {(table.dataset.name, table.measure.name): table for table in measure_tables(experiment, results)}
    figure = Figure(figsize=(4 * len(DATASETS), 3.1 * len(MEASURES)), layout="constrained")
    grid = figure.subplots(len(MEASURES), len(DATASETS), sharey="row", squeeze=False)
    labeled: dict[str, object] = {}
    for row, (measure, title) in zip(grid, MEASURES.items()):
        row[0].set_ylabel(title)
        for axes, dataset in zip(row, DATASETS):
            if (dataset, measure) in tables:
                labeled |= drawn(axes, tables[dataset, measure])
            if measure == "mAP" and (unit := tables.get((UNIT_SETS.get(dataset), measure))) is not None:
                line = axes.axhline(unit.reference, color=FLOATS, linestyle=":", linewidth=1.2)
                labeled["float vectors, cosine"] = line
    for axes, dataset in zip(grid[0], DATASETS):
        axes.set_title(experiment.definitions.dataset(dataset).title)
    for axes in grid[-1]:
        axes.set_xlabel("bits")
    order = [name for name in (*COLORS, "others", "float vectors", "float vectors, cosine") if name in labeled]
    figure.legend([labeled[name] for name in order], order, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(TARGET, metadata={"Date": None})
    print(TARGET.relative_to(ROOT))


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
    if table.reference is not None and table.measure.name == "mAP":
        labeled["float vectors"] = axes.axhline(table.reference, color=FLOATS, linestyle="--", linewidth=1)
    lengths = [bits for bits in table.bits if bits & (bits - 1) == 0]
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(bits) for bits in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)
    return labeled


if __name__ == "__main__":
    main()
