"""All tables and figures of the reproduction on one page."""

from collections.abc import Iterator, Sequence

from hashlearn.experiments.experiment import Experiment
from hashlearn.experiments.figures import drawn
from hashlearn.experiments.report.html import Cell, Group, Html, element, joined, page, section, subsection, table
from hashlearn.experiments.show import best_in_columns, heading, texts, verdict
from hashlearn.experiments.summary import Block, Comparison, Results, agreement, blocks, remarks

TITLE = "Binary Representation via Jointly Personalized Sparse Hashing, reproduced"
SUBTITLE = (
    "Every table and figure of the paper (Wang et al., ACM TOMM 2022) computed again: our mean over the runs, the "
    "paper's number below it, and the difference, green where ours is better and red where it is worse."
)


def report_page(experiments: Sequence[Experiment], results: Results) -> str:
    """The report as one HTML document, with what there are results for."""
    sections = [made for experiment in experiments for made in _section(experiment, results)]
    if not sections:
        raise ValueError(f"no results of {', '.join(experiment.name for experiment in experiments)}: run them first")
    return page(TITLE, *sections, subtitle=SUBTITLE, footer=_footer(results))


def _section(experiment: Experiment, results: Results) -> Iterator[Html]:
    figures = drawn(experiment, results)
    measured = [] if figures else blocks(experiment, results)
    tables = [_tables(found) for found in _by_dataset(measured)]
    if not figures and not tables:
        return
    notes = [*agreement(experiment, results), *experiment.remarks, *remarks(experiment, results)]
    notes += dict.fromkeys(block.measure.note for block in measured)
    remarked = element("ul", *(element("li", note) for note in notes), class_="notes") if notes else Html("")
    yield section(experiment.title, *([figures] if figures else tables), remarked, intro=experiment.caption)


def _by_dataset(found: list[Block]) -> list[list[Block]]:
    groups: dict[str, list[Block]] = {}
    for block in found:
        groups.setdefault(block.dataset.name, []).append(block)
    return list(groups.values())


def _tables(of_dataset: list[Block]) -> Html:
    """The measures of one dataset under each other."""
    columns = ("", *(f"{bits} bits" for bits in of_dataset[0].bits))
    groups = [Group(heading(block), [_row(title, cells, block) for title, cells in block.rows]) for block in of_dataset]
    return subsection(of_dataset[0].dataset.title, table(columns, groups))


def _row(title: str, cells: list[Comparison], block: Block) -> list[str | Cell]:
    return [title, *(_cell(cell, best, block) for cell, best in zip(cells, best_in_columns(block)))]


def _cell(cell: Comparison, best: float | None, block: Block) -> Cell:
    is_seconds = block.measure.name == "seconds"
    ours, paper, difference = texts(cell, is_seconds)
    value, sign, deviation = ours.partition("±")
    parts = [Html(value or "–")]
    if sign:
        parts.append(element("span", f" ±{deviation}", class_="deviation"))
    if paper:
        apart = element("span", difference, class_=verdict(cell, is_seconds) or "paper")
        parts.append(element("span", element("span", f"{paper} ", class_="paper"), apart, class_="beside"))
    return Cell(Html("".join(parts)), cell.ours is not None and cell.ours.mean == best)


def _footer(results: Results) -> Html:
    made = [", ".join(f"{name} {number}" for name, number in versions.items()) for versions in results.versions()]
    return joined([f"{len(results)} runs, made with {'; '.join(made)}. Made by: hashlearn paper report"])
