"""An experiment's tables as text: in a terminal, and as Markdown for a document."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hashlearn.experiments.define.experiment import Experiment
from hashlearn.experiments.define.measures import Measure
from hashlearn.experiments.results import Comparison, MeasureTable, Results, agreement, measure_tables, remarks

NEAR = 0.005
"""Smaller differences count as none."""


class CellTexts(NamedTuple):
    """A cell in words; empty where there is nothing.

    Attributes
    ----------
    mean, deviation, published, difference : str
    verdict : "up" where ours is better than the published, "down" where it is worse
    """

    mean: str
    deviation: str = ""
    published: str = ""
    difference: str = ""
    verdict: str = ""


def shown(experiment: Experiment, results: Results) -> RenderableType:
    """All tables and notes of an experiment, as text."""
    return Group(*_parts(experiment, results))


def as_markdown(experiment: Experiment, results: Results) -> str:
    """The tables for a document: means with three digits, the published in brackets, the best of ours in bold."""
    tables = measure_tables(experiment, results)
    return "\n\n".join(f"### {heading(table)}\n\n{markdown_table(table)}" for table in tables) + "\n"


def markdown_table(table: MeasureTable) -> str:
    """One table of :func:`as_markdown`."""
    digits = min(3, table.measure.digits)
    best = table.best()

    def written(cell: Comparison, top: float | None) -> str:
        ours = "" if cell.ours is None else f"{cell.ours.mean:.{digits}f}"
        ours = f"**{ours}**" if cell.ours is not None and cell.ours.mean == top else ours
        return ours if cell.published is None else f"{ours} ({cell.published:.{digits}f})"

    rows = [["", *(f"{bits} bits" for bits in table.bits)], ["---"] * (1 + len(table.bits))]
    rows += [[row.title, *map(written, row.cells, best)] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cell_texts(cell: Comparison, measure: Measure) -> CellTexts:
    """The numbers of a cell as every table writes them."""
    digits = measure.digits
    if cell.ours is None:
        return CellTexts("", published="" if cell.published is None else f"{cell.published:.{digits}f}")
    mean = f"{cell.ours.mean:.{digits}f}"
    deviation = f"{cell.ours.std:.{min(3, digits)}f}" if cell.ours.n > 1 else ""
    if cell.published is None or cell.difference is None:
        return CellTexts(mean, deviation)
    difference = f"×{cell.ours.mean / cell.published:.2f}" if measure.is_cost else f"{cell.difference:+.3f}"
    gain = -cell.difference / cell.published if measure.is_cost else cell.difference
    verdict = "up" if gain > NEAR else "down" if gain < -NEAR else ""
    return CellTexts(mean, deviation, f"{cell.published:.{digits}f}", difference, verdict)


def heading(table: MeasureTable) -> str:
    """The dataset, the measure, and the value of the float vectors."""
    reference = "" if table.reference is None else f" (float vectors {table.reference:.4f})"
    return f"{table.dataset.title}, {table.measure.title}{reference}"


def notes(experiment: Experiment, results: Results, tables: Iterable[MeasureTable]) -> list[str]:
    """All notes about an experiment and about these tables."""
    tables = list(tables)
    said = [*deviation_notes(tables), *agreement(experiment, results), *remarks(experiment, results)]
    return [*said, *experiment.remarks, *dict.fromkeys(table.measure.note for table in tables)]


def deviation_notes(tables: Iterable[MeasureTable]) -> list[str]:
    """The sentence that says over how many runs the deviations are; empty if all numbers are from single runs."""
    counts: dict[str, set[int]] = {}
    for table in tables:
        for row in table.rows:
            counts.setdefault(row.title, set()).update(cell.ours.n for cell in row.cells if cell.ours is not None)
    rows_of: dict[str, list[str]] = {}
    for title, found in counts.items():
        if found and max(found) > 1:
            rows_of.setdefault(_runs(found), []).append(title)
    if len(rows_of) == 1 and len(rows_of[next(iter(rows_of))]) == len(counts):
        return [f"± is the standard deviation over {next(iter(rows_of))}."]
    said = [f"over {runs} for {', '.join(titles)}" for runs, titles in rows_of.items()]
    return [f"± is the standard deviation {'; '.join(said)}."] if said else []


def _runs(counts: set[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{high} runs" if low == high else f"{low} to {high} runs"


def _parts(experiment: Experiment, results: Results) -> Iterator[RenderableType]:
    tables = measure_tables(experiment, results)
    yield Text(experiment.title, style="bold")
    yield from map(_drawn, tables)
    for note in notes(experiment, results, tables):
        yield Text(note, style="dim")


def _drawn(table: MeasureTable) -> Table:
    drawn = Table(
        title=f"\n{heading(table)}", title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    drawn.add_column("ours\npublished, difference" if table.is_compared else "ours", no_wrap=True)
    for bits in table.bits:
        drawn.add_column(f"{bits} bits", justify="right", no_wrap=True)
    for row in table.rows:
        drawn.add_row(row.title, *(_cell(cell, top, table) for cell, top in zip(row.cells, table.best())))
    return drawn


def _cell(cell: Comparison, best: float | None, table: MeasureTable) -> Text:
    texts = cell_texts(cell, table.measure)
    is_best = cell.ours is not None and cell.ours.mean == best
    ours = f"{texts.mean}±{texts.deviation}" if texts.deviation else texts.mean
    text = Text(ours, style="bold" if is_best else "")
    if texts.published:
        text.append(f"\n{texts.published} ", style="not bold dim")
        style = {"up": "green", "down": "red"}.get(texts.verdict, "dim")
        text.append(texts.difference, style=f"not bold {style}")
    return text
