"""Draw docs/images/embeddings.svg from results/embeddings: by meaning against by neighborhood, a dot for each method.

python docs/embeddings_plot.py
"""

from pathlib import Path

from matplotlib.figure import Figure

from hashlearn.experiments import ResultFolder, Results, read_experiment
from hashlearn.experiments.summary import measure_tables

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "images" / "embeddings.svg"
BITS = 64
STRONG = "#1f5f8b"
PLAIN = "#8a97a0"


def main() -> None:
    experiment = read_experiment(ROOT / "experiments" / "embeddings.toml").restricted(bits=[BITS])
    results = Results(ResultFolder(ROOT / "results" / "embeddings").lines([d.name for d in experiment.datasets]))
    tables = {(table.dataset.title, table.measure.name): table for table in measure_tables(experiment, results)}
    titles = list(dict.fromkeys(dataset for dataset, _ in tables))
    figure = Figure(figsize=(5 * len(titles), 4.2), layout="constrained")
    for axes, title in zip(figure.subplots(1, len(titles), squeeze=False)[0], titles):
        meaning, neighborhood = tables[title, "mAP"], tables[title, "recall_at_10"]
        for row, other in zip(meaning.rows, neighborhood.rows):
            if row.cells[0].ours is None or other.cells[0].ours is None:
                continue
            place = other.cells[0].ours.mean, row.cells[0].ours.mean
            color = STRONG if row.method.highlight else PLAIN
            axes.plot(*place, "o", color=color)
            axes.annotate(row.title, place, xytext=(4, 4), textcoords="offset points", fontsize=8, color=color)
        if meaning.reference is not None:
            axes.axhline(meaning.reference, color="#444444", linestyle="--", linewidth=1)
            axes.annotate(
                "float vectors", (0, meaning.reference), xytext=(2, 3), textcoords="offset points", fontsize=8
            )
        axes.set(title=title, xlabel="10@10, by neighborhood", ylabel="mAP, by meaning")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(TARGET, metadata={"Date": None})
    print(TARGET.relative_to(ROOT))


if __name__ == "__main__":
    main()
