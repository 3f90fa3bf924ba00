"""Pages to review duplicates: all groups, the largest first, with pictures or texts side by side.

The page is an HTML file with the first groups in it; further groups are in files of at most a few megabytes beside it,
which the page loads as you go. A large group is cut into parts. The browser keeps your decisions, and you can download
them. If :mod:`hashlearn.duplicates.review_server` shows the page, it saves them.
"""

import base64
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hashlearn.duplicates.result import Duplicates
from hashlearn.duplicates.state import DROPPED, KEPT
from hashlearn.durable.files import write_bytes, write_text
from hashlearn.html import render
from hashlearn.progress import track

ROWS_OF_PART = 100
GROUPS_OF_PAGE = 50
ROWS_OF_PAGE = 200
BYTES_OF_PAGE = 2_000_000
MOST_BYTES = 5_000_000
"""The most bytes of a file. A page ends after ``BYTES_OF_PAGE``; the last row, or two large rows, must still fit."""

LONGEST_TEXT = 20_000
"""Bytes of a text that are shown."""

_DECIDED = {KEPT: "keep", DROPPED: "drop"}


class RowDisplay(NamedTuple):
    """The functions that show a row; see :func:`write_review`."""

    texts: Sequence[str] | None = None
    picture: Callable[[int], Any] | None = None
    note: Callable[[int], str] | None = None
    file: Callable[[int], str] | None = None


class GroupPart(NamedTuple):
    """Some rows of a group, the kept one first, with their distances from it.

    Attributes
    ----------
    number, size : int
        The place of the group among all, from 1, and how many rows it has in all.
    start : int
        The place of the first of these rows among the members of the group.
    rows : ndarray of int64
    distances : ndarray of float64
    is_copy : ndarray of bool
    """

    number: int
    size: int
    start: int
    rows: np.ndarray
    distances: np.ndarray
    is_copy: np.ndarray

    def halves(self) -> "list[GroupPart]":
        """Two parts with half of the members each."""
        middle = (len(self.rows) + 1) // 2
        chosen = (np.arange(middle), np.array([0, *range(middle, len(self.rows))]))
        starts = (self.start, self.start + middle - 1)
        return [
            self._replace(start=start, rows=self.rows[w], distances=self.distances[w], is_copy=self.is_copy[w])
            for start, w in zip(starts, chosen)
        ]


def write_review(
    duplicates: Duplicates,
    path: str | Path,
    *,
    texts: Sequence[str] | None = None,
    picture: Callable[[int], bytes] | None = None,
    note: Callable[[int], str] | None = None,
    file: Callable[[int], str] | None = None,
    title: str = "Near-duplicates",
) -> None:
    """Write the page and, where there are many groups, a folder of further pages beside it (extra ``report``).

    Parameters
    ----------
    duplicates : Duplicates
    path : str or Path
        The HTML file. The folder has its name, with ``_files`` instead of the suffix.
    texts : sequence of str, optional
        A text for each row.
    picture : function, optional
        From the number of a row to the bytes of a small JPEG or PNG file.
    note : function, optional
        From the number of a row to a line about it, such as its size or payload.
    file : function, optional
        From the number of a row to the address of its picture in full, relative to the page.
    title : str

    Examples
    --------
    >>> import tempfile
    >>> from hashlearn import find_duplicates
    >>> found = find_duplicates([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0]], 0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_review(found, Path(folder) / "review.html", texts=["a cat", "a cat.", "a dog"])
    ...     "a cat." in (Path(folder) / "review.html").read_text()
    True
    """
    page = write_pages(duplicates, path, RowDisplay(texts, picture, note, file), title)
    write_text(path, page)
    remove_other_pages(path, page)


def write_pages(duplicates: Duplicates, path: str | Path, shown: RowDisplay, title: str) -> str:
    """Write the further pages of a review beside the file of the first one, and return the text of that file.

    Their names are new, so an old review still works until :func:`remove_other_pages`.
    """
    token = secrets.token_hex(8)
    folder = folder_of_pages(path)
    first: list[dict] = []
    n_pages = 0
    for groups in _pages_within_bytes(duplicates, shown):
        if n_pages == 0:
            first = groups
        else:
            folder.mkdir(exist_ok=True)
            write_bytes(folder / f"{token}-{n_pages:06}.js", page_script(n_pages, groups))
        n_pages += 1
    return review_page(duplicates, first, n_pages, title, token, f"{folder.name}/{token}-")


def _pages_within_bytes(duplicates: Duplicates, shown: RowDisplay) -> Iterator[list[dict]]:
    """The groups of each page; a file has less than ``MOST_BYTES``."""
    for parts in track(list(pages_of(group_parts(duplicates))), "pages"):
        groups: list[dict] = []
        n_bytes = 0
        todo = parts[::-1]
        while todo:
            part = todo.pop()
            (entry,) = entries(duplicates, [part], shown)
            size = len(_as_json(entry).encode())
            if size > BYTES_OF_PAGE and len(part.rows) > 2:
                todo += part.halves()[::-1]
                continue
            if size > MOST_BYTES / 2:
                raise ValueError(f"what is shown of group {part.number} must be below 2 MB a row, got {size:,} bytes")
            if groups and n_bytes + size > BYTES_OF_PAGE:
                yield groups
                groups, n_bytes = [], 0
            groups.append(entry)
            n_bytes += size
        yield groups


def folder_of_pages(path: str | Path) -> Path:
    """The folder of the further pages of a review."""
    return Path(path).with_name(f"{Path(path).stem}_files")


def remove_other_pages(path: str | Path, page: str) -> None:
    """Remove the further pages that belong to an earlier review of that name."""
    folder = folder_of_pages(path)
    for each in folder.glob("*-*.js"):
        if each.name.partition("-")[0] not in page:
            each.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def review_page(
    duplicates: Duplicates, first: list[dict], n_pages: int, title: str, token: str, files: str, server: bool = False
) -> str:
    """The HTML page with the groups of the first page in it."""
    data = {
        "first": first,
        "n_pages": max(1, n_pages),
        "n_groups": len(duplicates.groups),
        "n_rows": len(duplicates.dropped) + len(duplicates.groups),
        "n_dropped": len(duplicates.dropped),
        "files": files,
        "token": f"hashlearn-{token}",
        "server": server,
    }
    # In a script element "</script" and "<!--" have a meaning even inside quotes.
    text = _as_json(data).replace("<", "\\u003c")
    return render("review/review.html", title=title, data=text, summary=_summary(duplicates))


def page_script(number: int, groups: list[dict]) -> bytes:
    """A further page as a script: a page from the file system may load scripts only."""
    return f"reviewPage({number}, {_as_json(groups)});\n".encode()


def group_parts(duplicates: Duplicates) -> Iterator[GroupPart]:
    """All groups, the largest first, each in parts of at most ``ROWS_OF_PART`` rows beside the kept one."""
    distances = duplicates.assignment.distances
    row_of = {name: row for row, name in enumerate(duplicates.ids.tolist())}
    for number, group in enumerate(duplicates.groups, start=1):
        leader = row_of[group.kept]
        for start in range(0, len(group.members), ROWS_OF_PART):
            some = slice(start, start + ROWS_OF_PART)
            rows = np.array([leader, *(row_of[name] for name in group.members[some].tolist())])
            is_copy = np.concatenate([[False], group.is_copy[some]])
            yield GroupPart(number, 1 + len(group.members), start, rows, distances[rows], is_copy)


def pages_of(parts: Iterable[GroupPart]) -> Iterator[list[GroupPart]]:
    """The parts of groups that fit on one page."""
    page: list[GroupPart] = []
    n_rows = 0
    for part in parts:
        if page and (len(page) == GROUPS_OF_PAGE or n_rows + len(part.rows) > ROWS_OF_PAGE):
            yield page
            page, n_rows = [], 0
        page.append(part)
        n_rows += len(part.rows)
    if page:
        yield page


def entries(duplicates: Duplicates, parts: Sequence[GroupPart], shown: RowDisplay) -> list[dict]:
    """Some groups as JSON values for the page's script."""
    return [
        {
            "number": part.number,
            "size": part.size,
            "start": part.start,
            "rows": [
                _row(duplicates, int(row), float(distance), bool(is_copy), int(row) == int(part.rows[0]), shown)
                for row, distance, is_copy in zip(part.rows, part.distances, part.is_copy)
            ],
        }
        for part in parts
    ]


def _row(duplicates: Duplicates, row: int, distance: float, is_copy: bool, is_kept: bool, shown: RowDisplay) -> dict:
    entry: dict[str, Any] = {
        "id": duplicates.ids[row].item(),
        "distance": None if distance != distance else round(distance, 6),
        "decision": "keep" if is_kept else "drop",
    }
    decided = _DECIDED.get(int(duplicates.state.decided[row]))
    if decided is not None:
        entry["decided"] = decided
    if is_copy:
        entry["copy"] = True
    if shown.texts is not None:
        entry["text"] = _cut(shown.texts[row])
    if shown.note is not None:
        entry["note"] = shown.note(row)
    if shown.file is not None:
        entry["file"] = shown.file(row)
    if shown.picture is not None:
        entry["picture"] = _address_of(shown.picture(row))
    return entry


def _address_of(picture: bytes | str) -> str:
    """The address of a picture, or the picture itself as a data address."""
    if isinstance(picture, str):
        return picture
    kind = "png" if picture.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def _cut(text: str) -> str:
    """A text, cut so that a page can have many."""
    shown = text[:LONGEST_TEXT]
    while len(_as_json(shown).encode()) > LONGEST_TEXT:
        shown = shown[: len(shown) // 2]
    return text if len(shown) == len(text) else f"{shown} … (of {len(text):,} characters)"


def _summary(duplicates: Duplicates) -> list[str]:
    """Sentences above the groups."""
    how = "by their words" if duplicates.metric == "words" else f"({duplicates.metric})"
    lines = [
        f"{len(duplicates):,} rows; {len(duplicates.dropped):,} of them are within distance "
        f"{duplicates.max_distance:.4g} {how} of one that is kept."
    ]
    curve = duplicates.curve
    if curve is not None and curve.pairs[-1]:
        lines.append(
            f"Estimated share of true pairs found: {curve.recall[-1]:.3f} "
            f"(95 % interval {curve.recall_low[-1]:.3f} to {curve.recall_high[-1]:.3f})."
        )
    return lines


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode()  # a file name may have half a character
