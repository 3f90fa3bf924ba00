"""A page of sections with tables and drawings, written by the templates ``report`` of :mod:`hashlearn.html`.

The page is one file, light and dark, wide and narrow. Text is escaped; drawings are markup that
:mod:`~hashlearn.experiments.show.plots` and :mod:`~hashlearn.experiments.show.pictures` made.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hashlearn.experiments.show.styles import Style
from hashlearn.html import render


class Drawing(NamedTuple):
    """Markup of a drawing and the words under it; a narrow one does not take the whole width of the page."""

    markup: str
    caption: str = ""
    is_narrow: bool = False


class DrawingRow(NamedTuple):
    """Drawings side by side where there is room, under a heading."""

    drawings: Sequence[Drawing]
    heading: str = ""
    intro: str = ""


class DrawingGroup(NamedTuple):
    """Rows of drawings, and the styles of the lines in them."""

    legend: Mapping[str, Style]
    rows: Sequence[DrawingRow]


class Cell(NamedTuple):
    """A cell of a table.

    Attributes
    ----------
    text : our number
    is_best : whether it is the best of its column
    deviation : over the runs
    published, difference : the number below it, and how ours differs
    verdict : "up", "down" or nothing: the color of the difference
    """

    text: str
    is_best: bool = False
    deviation: str = ""
    published: str = ""
    difference: str = ""
    verdict: str = ""


class RowGroup(NamedTuple):
    """Rows of a table under a heading of their own; a row is its name and its cells."""

    heading: str
    rows: Sequence[tuple[str, Sequence[Cell]]]


class ReportTable(NamedTuple):
    """A table of grouped rows, numbers right-aligned; it scrolls sideways where the page is narrow."""

    columns: Sequence[str]
    groups: Sequence[RowGroup]
    heading: str = ""


class Section(NamedTuple):
    """A heading, a sentence that explains the drawings and tables, then the drawings and the tables.

    Attributes
    ----------
    folded : the label that opens the tables; empty if they are open
    """

    heading: str
    intro: str = ""
    tables: Sequence[ReportTable] = ()
    drawings: Sequence[DrawingGroup] = ()
    notes: Sequence[str] = ()
    folded: str = ""


class ReportPage(NamedTuple):
    """A whole document.

    Attributes
    ----------
    footer : the origin of the page: versions, data, seed commands : the commands that make it again
    """

    title: str
    subtitle: str
    sections: Sequence[Section]
    footer: Sequence[str] = ()
    commands: Sequence[str] = ()


def render_page(page: ReportPage) -> str:
    """The document as HTML."""
    return render("report/page.html", page=page)
