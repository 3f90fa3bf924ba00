"""A page of text, tables and figures in one file: inline styles, no scripts, light and dark, wide and narrow.

Everything that is put on a page is escaped, except what these functions themselves return (:class:`Html`).
"""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

FEW_COLUMNS = 3
"""A table of no more does not take the whole width of the page: its numbers would be far from their names."""


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def markup(content: object) -> Html:
    """``content`` as markup: unchanged if it is, escaped if it is not."""
    return content if isinstance(content, Html) else Html(html.escape(str(content)))


def joined(parts: Iterable[object]) -> Html:
    """The parts one after the other."""
    return Html("\n".join(markup(part) for part in parts))


def element(tag: str, *content: object, **attributes: str) -> Html:
    """``<tag ...>content</tag>``; a trailing underscore of an attribute's name falls, an inner one is a hyphen.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    return Html(f"<{tag}{_written(attributes)}>{''.join(markup(part) for part in content)}</{tag}>")


def void_element(tag: str, **attributes: str) -> Html:
    """An element that has no content, such as an image."""
    return Html(f"<{tag}{_written(attributes)}>")


def page(title: str, *parts: object, subtitle: str = "", footer: object = "") -> str:
    """A whole document.

    Parameters
    ----------
    title, subtitle : str
    *parts
        Sections, or any other markup.
    footer
        What one must know to believe the page: versions, data, seed.
    """
    header = element(
        "header", element("h1", title), element("p", subtitle, class_="subtitle") if subtitle else Html("")
    )
    head = joined(
        [
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<meta name="color-scheme" content="light dark">'),
            element("title", title),
            element(
                "style", Html(files("hashlearn.experiments.report").joinpath("page.css").read_text(encoding="utf-8"))
            ),
        ]
    )
    body = element("body", header, element("main", joined(parts)), element("footer", footer) if footer else Html(""))
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n{body}\n</html>\n'


def section(heading: str, *parts: object, intro: str = "") -> Html:
    """A heading, a sentence that says what to see, and what there is to see."""
    return element("section", _opening("h2", heading, intro), joined(parts))


def subsection(heading: str, *parts: object, intro: str = "") -> Html:
    """A part of a section."""
    return joined([_opening("h3", heading, intro), *parts])


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and whether it is the best of its column."""

    text: str
    is_best: bool = False


@dataclass(frozen=True)
class Group:
    """Rows of a table under a heading of their own; the first cell of a row names it."""

    heading: str
    rows: Sequence[Sequence[str | Cell]]


def table(columns: Sequence[str], groups: Sequence[Group], notes: Sequence[str] = ()) -> Html:
    """A table of grouped rows, numbers right-aligned; it scrolls sideways where the page is narrow."""
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in columns)))
    bodies = [_table_body(group, len(columns)) for group in groups]
    shape = {"class_": "few"} if len(columns) <= FEW_COLUMNS else {}
    whole = element("div", element("table", head, *bodies, **shape), class_="scroll", tabindex="0", role="group")
    remarks = element("ul", *(element("li", note) for note in notes), class_="notes") if notes else Html("")
    return joined([whole, remarks])


def _opening(tag: str, heading: str, intro: str) -> Html:
    return joined([element(tag, heading), element("p", intro, class_="intro") if intro else Html("")])


def _written(attributes: dict[str, str]) -> str:
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for name, value in attributes.items()
    )


def _table_body(group: Group, width: int) -> Html:
    rows = [element("tr", _cell("th", row[0]), *(_cell("td", cell) for cell in row[1:])) for row in group.rows]
    if group.heading:
        rows.insert(
            0, element("tr", element("th", group.heading, colspan=str(width), scope="colgroup"), class_="group")
        )
    return element("tbody", *rows)


def _cell(tag: str, cell: str | Cell) -> Html:
    text, is_best = (cell.text, cell.is_best) if isinstance(cell, Cell) else (cell, False)
    attributes = {"scope": "row"} if tag == "th" else {}
    return element(tag, text, **(attributes | ({"class_": "best"} if is_best else {})))


def figure(drawing: Html, caption: str = "", is_narrow: bool = False) -> Html:
    """A drawing and the words under it; a narrow one does not take the whole width of the page."""
    words = element("figcaption", caption) if caption else Html("")
    return element("figure", drawing, words, **({"class_": "narrow"} if is_narrow else {}))


def side_by_side(*parts: Html) -> Html:
    """Figures in a row where there is room for it, else below each other."""
    return element("div", *parts, class_="figures")
