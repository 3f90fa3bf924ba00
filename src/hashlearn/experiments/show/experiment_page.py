"""The tables and figures of experiments on one page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from hashlearn.experiments.define.experiment import Experiment
from hashlearn.experiments.define.tasks import tasks_of
from hashlearn.experiments.results import Comparison, MeasureTable, Results, measure_tables
from hashlearn.experiments.show.experiment_figures import drawn_tables, figures_of
from hashlearn.experiments.show.pages import Cell, ReportPage, ReportTable, RowGroup, Section, render_page
from hashlearn.experiments.show.text_tables import cell_texts, heading, notes

SUBTITLE = "Means over the runs, each with its standard deviation; the best of every column is marked."

MOST_OPEN = 8
"""Methods of a table that is open: the picture says more than a longer one, which opens with a click."""


class ReportedExperiment(NamedTuple):
    """An experiment and its results."""

    experiment: Experiment
    results: Results


def report_page(
    reported: Sequence[ReportedExperiment], *, title: str = "", subtitle: str = "", commands: Sequence[str] = ()
) -> str:
    """The report as one HTML document, with all parts that have results.

    Parameters
    ----------
    reported : sequence of ReportedExperiment
    title, subtitle : str
        By default the title of the first experiment.
    commands : sequence of str
        The commands that make the numbers and the page again, for the footer.
    """
    sections = [section for each in reported if (section := _section(*each))]
    if not sections:
        raise ValueError(f"no results of {', '.join(each.experiment.name for each in reported)}: run them first")
    page = ReportPage(
        title or reported[0].experiment.title,
        _headline(reported) + (subtitle or SUBTITLE),
        sections,
        _footer(reported),
        commands,
    )
    return render_page(page)


def _section(experiment: Experiment, results: Results) -> Section | None:
    """The figures of an experiment, and the tables of the parts that are not drawn; None without results.

    An experiment without figures has a picture of its tables.
    """
    tables = _tables_of(experiment, results)
    drawings = figures_of(experiment, results) or drawn_tables(experiment, tables)
    if not drawings and not tables:
        return None
    is_long = any(len(table.rows) > MOST_OPEN for table in tables)
    return Section(
        experiment.title,
        experiment.caption,
        _tables(tables),
        drawings,
        notes(experiment, results, tables),
        folded="All numbers as tables" if drawings and is_long else "",
    )


def _tables_of(experiment: Experiment, results: Results) -> list[MeasureTable]:
    """The tables of the parts that are not drawn."""
    without_figure = replace(experiment, parts=tuple(part for part in experiment.parts if not part.figure))
    return measure_tables(without_figure, results)


def _headline(reported: Sequence[ReportedExperiment]) -> str:
    """Which method is best most often, by the first measure of the first experiment with tables."""
    for experiment, results in reported:
        tables = _tables_of(experiment, results)
        if not tables:
            continue
        measure = tables[0].measure
        winners: Counter[str] = Counter()
        n_columns = 0
        for table in (table for table in tables if table.measure == measure):
            for place, best in enumerate(table.best()):
                n_columns += best is not None
                winners.update(row.title for row in table.rows if (ours := row.cells[place].ours) and ours.mean == best)
        if not n_columns:
            continue
        ((name, often),) = winners.most_common(1)
        return f"The best {measure.title} in {often} of {n_columns} columns is that of {name}. "
    return ""


def _tables(found: list[MeasureTable]) -> list[ReportTable]:
    """A table for every dataset, with its measures under each other."""
    groups: dict[str, list[MeasureTable]] = {}
    for table in found:
        groups.setdefault(table.dataset.name, []).append(table)
    return [_table(tables) for tables in groups.values()]


def _table(of_dataset: list[MeasureTable]) -> ReportTable:
    lengths = sorted(set(chain.from_iterable(table.bits for table in of_dataset)))
    return ReportTable(
        ("method", *(f"{bits} bits" for bits in lengths)),
        [RowGroup(heading(table), _rows(table, lengths)) for table in of_dataset],
        of_dataset[0].dataset.title,
    )


def _rows(table: MeasureTable, lengths: list[int]) -> list[tuple[str, list[Cell]]]:
    best = dict(zip(table.bits, table.best()))
    empty = Comparison(None, None)
    rows = []
    for row in table.rows:
        cells = dict(zip(table.bits, row.cells))
        rows.append((row.title, [_cell(cells.get(bits, empty), best.get(bits), table) for bits in lengths]))
    return rows


def _cell(cell: Comparison, best: float | None, table: MeasureTable) -> Cell:
    texts = cell_texts(cell, table.measure)
    is_best = cell.ours is not None and cell.ours.mean == best
    return Cell(texts.mean, is_best, texts.deviation, texts.published, texts.difference, texts.verdict)


def _footer(reported: Sequence[ReportedExperiment]) -> list[str]:
    """The number of runs for each origin."""
    origins: dict[str, str] = {}
    for experiment, results in reported:
        origins |= results.origins(tasks_of(experiment))
    said = [f"{count} runs with {origin}." for origin, count in Counter(origins.values()).most_common()]
    return [*said, "To make them again, in a folder of their own:"]
