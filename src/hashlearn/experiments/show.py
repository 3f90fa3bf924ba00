"""An experiment's tables in a terminal: ours, the paper's, and the difference."""

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hashlearn.experiments.experiment import Experiment
from hashlearn.experiments.summary import Block, Comparison, Results, agreement, blocks, remarks

NEAR = 0.005
"""A difference of less is no difference."""


def shown(experiment: Experiment, results: Results) -> RenderableType:
    """Everything there is to print of an experiment."""
    return Group(*_parts(experiment, results))


def as_markdown(experiment: Experiment, results: Results) -> str:
    """The tables for a document: means with three digits, the paper's in brackets, the best of ours in bold."""
    return "\n\n".join(_markdown(block) for block in blocks(experiment, results)) + "\n"


def texts(cell: Comparison, is_seconds: bool) -> tuple[str, str, str]:
    """Ours with its deviation, the paper's, and how they differ, as text; empty where there is none."""
    digits = 1 if is_seconds else 4
    ours = "" if cell.ours is None else f"{cell.ours.mean:.{digits}f}"
    if cell.ours is not None and cell.ours.n > 1:
        ours += f"±{cell.ours.std:.{1 if is_seconds else 3}f}"
    paper = "" if cell.paper is None else f"{cell.paper:.{digits}f}"
    if cell.ours is None or cell.paper is None or cell.difference is None:
        return ours, paper, ""
    return ours, paper, f"×{cell.ours.mean / cell.paper:.2f}" if is_seconds else f"{cell.difference:+.3f}"


def verdict(cell: Comparison, is_seconds: bool) -> str:
    """Whether ours is better ("up") or worse ("down") than the paper's, or neither."""
    if cell.difference is None or cell.paper is None:
        return ""
    gain = -cell.difference / cell.paper if is_seconds else cell.difference
    return "up" if gain > NEAR else "down" if gain < -NEAR else ""


def best_in_columns(block: Block) -> list[float | None]:
    """The best of our means, column by column."""
    pick = min if block.measure.name == "seconds" else max
    columns = zip(*(cells for _, cells in block.rows))
    return [pick((cell.ours.mean for cell in column if cell.ours), default=None) for column in columns]


def heading(block: Block) -> str:
    """The dataset, the measure, and what the float vectors reach."""
    reference = "" if block.reference is None else f" (float vectors {block.reference:.4f})"
    return f"{block.dataset.title}, {block.measure.title}{reference}"


def _parts(experiment: Experiment, results: Results) -> Iterator[RenderableType]:
    yield Text(experiment.title, style="bold")
    found = blocks(experiment, results)
    for block in found:
        yield _table(block)
    notes = list(dict.fromkeys(block.measure.note for block in found))
    for note in [*agreement(experiment, results), *remarks(experiment, results), *experiment.remarks, *notes]:
        yield Text(note, style="dim")


def _markdown(block: Block) -> str:
    digits = 1 if block.measure.name == "seconds" else 3
    best = best_in_columns(block)

    def written(cell: Comparison, top: float | None) -> str:
        ours = "" if cell.ours is None else f"{cell.ours.mean:.{digits}f}"
        ours = f"**{ours}**" if cell.ours is not None and cell.ours.mean == top else ours
        return ours if cell.paper is None else f"{ours} ({cell.paper:.{digits}f})"

    rows = [["", *(f"{bits} bits" for bits in block.bits)], ["---"] * (1 + len(block.bits))]
    rows += [[title, *map(written, cells, best)] for title, cells in block.rows]
    return "\n".join([f"### {heading(block)}", "", *(f"| {' | '.join(row)} |" for row in rows)])


def _table(block: Block) -> Table:
    table = Table(
        title=f"\n{heading(block)}", title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    is_compared = any(cell.paper is not None for _, cells in block.rows for cell in cells)
    table.add_column("ours\npaper, difference" if is_compared else "ours", no_wrap=True)
    for bits in block.bits:
        table.add_column(f"{bits} bits", justify="right", no_wrap=True)
    best = best_in_columns(block)
    for title, cells in block.rows:
        table.add_row(title, *(_cell(cell, top, block) for cell, top in zip(cells, best)))
    return table


def _cell(cell: Comparison, best: float | None, block: Block) -> Text:
    is_seconds = block.measure.name == "seconds"
    ours, paper, difference = texts(cell, is_seconds)
    is_best = cell.ours is not None and cell.ours.mean == best
    text = Text(ours, style="bold" if is_best else "")
    if paper:
        text.append(f"\n{paper} ", style="not bold dim")
        style = {"up": "green", "down": "red"}.get(verdict(cell, is_seconds), "dim")
        text.append(difference, style=f"not bold {style}")
    return text
