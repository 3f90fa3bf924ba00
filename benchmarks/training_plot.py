"""The results of the training benchmark as a picture."""

from pathlib import Path


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
