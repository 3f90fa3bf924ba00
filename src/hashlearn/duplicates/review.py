"""A page to review duplicates: one HTML file with everything in it.

It shows the groups, largest first, with pictures or texts side by side. A slider shows what another distance would do.
What you decide can be downloaded. The script in the page has the rules of :mod:`hashlearn.duplicates.groups`.
"""

import base64
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.duplicates.contents import NearPairs
from hashlearn.duplicates.groups import components_of, order_of_contents, rows_by_preference
from hashlearn.duplicates.result import Duplicates
from hashlearn.duplicates.vectors import Rows
from hashlearn.durable.files import write_text
from hashlearn.extras import require

MOST_SHOWN = 1000


def write_review(
    duplicates: Duplicates,
    path: str | Path,
    *,
    texts: Sequence[str] | None = None,
    picture: Callable[[int], bytes] | None = None,
    note: Callable[[int], str] | None = None,
    title: str = "Near-duplicates",
    most_shown: int = MOST_SHOWN,
) -> None:
    """Write the page (extra ``report``).

    Parameters
    ----------
    duplicates : Duplicates
    path : str or Path
        The HTML file.
    texts : sequence of str, optional
        A text for each row.
    picture : function, optional
        From the number of a row to the bytes of a small JPEG or PNG file.
    note : function, optional
        From the number of a row to a line about it, such as its size.
    title : str
    most_shown : int
        Rows on the page, those of the largest groups.

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
    write_text(path, review_page(duplicates, Shown(texts, picture, note), title, most_shown))


def review_page(duplicates: Duplicates, shown: "Shown", title: str, most_shown: int = MOST_SHOWN) -> str:
    """The page of :func:`write_review` as text."""
    data = review_data(duplicates, shown, most_shown)
    # In a script element, "</" would end it whatever the quotes say.
    text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("</", "<\\/")
    return _environment().get_template("review.html").render(title=title, data=text, summary=_summary(duplicates, data))


class Shown(NamedTuple):
    """What is shown of a row; see :func:`write_review`."""

    texts: Sequence[str] | None
    picture: Callable[[int], bytes] | None
    note: Callable[[int], str] | None


def review_data(duplicates: Duplicates, what: Shown, most_shown: int) -> dict[str, Any]:
    """What the script of the page needs, as JSON values."""
    state = duplicates.state
    shown = _shown_contents(duplicates, most_shown)
    number = np.full(len(state.contents.row_of), -1, np.int64)
    number[shown] = np.arange(len(shown))
    pairs = _pairs_among(state.pairs, number)
    preference = duplicates.preference
    place = _places(duplicates)
    rows = rows_by_preference(state.contents, preference)
    starts = np.searchsorted(state.contents.of_row[rows], np.arange(len(state.contents.row_of) + 1))
    entries = [[_entry(duplicates, int(row), what) for row in rows[starts[c] : starts[c + 1]]] for c in shown]
    return {
        "metric": duplicates.metric,
        "distance": duplicates.max_distance,
        "largest": state.largest_distance,
        "keep": duplicates.keep,
        "grouping": duplicates.grouping,
        "order": np.argsort(np.argsort(place[shown])).tolist(),
        "contents": entries,
        "pairs": [[a, b, d] for a, b, d in zip(*(values.tolist() for values in pairs))],
        "left_out": max(0, len(duplicates.dropped) + len(duplicates.groups) - sum(map(len, entries))),
    }


def _entry(duplicates: Duplicates, row: int, what: Shown) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": duplicates.ids[row].item()}
    if what.texts is not None:
        entry["text"] = what.texts[row]
    if what.note is not None:
        entry["note"] = what.note(row)
    if what.picture is not None:
        content = what.picture(row)
        kind = "png" if content.startswith(b"\x89PNG") else "jpeg"
        entry["picture"] = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    return entry


def _shown_contents(duplicates: Duplicates, most_shown: int) -> Rows:
    """Contents with duplicates within the largest distance, connected ones together, as many as the page takes."""
    n_rows = duplicates.state.contents.n_rows
    component = components_of(len(n_rows), duplicates.state.pairs)
    size = np.bincount(component, weights=n_rows)[component]
    order = np.lexsort((component, -size))
    order = order[size[order] > 1]
    n_shown = int(np.searchsorted(np.cumsum(n_rows[order]), most_shown, side="right"))
    return order[: max(n_shown, 2)]


def _places(duplicates: Duplicates) -> NDArray[np.int64]:
    """The place of each content in the order of preference; for the center the page counts, and this breaks ties."""
    preference = duplicates.preference
    if duplicates.keep == "center":
        preference = preference._replace(keep="best", scores=np.zeros(len(duplicates)))
    order = order_of_contents(duplicates.state.contents, duplicates.state.pairs, preference)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def _pairs_among(pairs: NearPairs, number: Rows) -> NearPairs:
    kept = (number[pairs.first] >= 0) & (number[pairs.second] >= 0)
    return NearPairs(number[pairs.first[kept]], number[pairs.second[kept]], pairs.distances[kept])


def _summary(duplicates: Duplicates, data: dict[str, Any]) -> list[str]:
    """Sentences above the groups."""
    lines = [
        f"{len(duplicates):,} rows; {len(duplicates.dropped):,} of them are within {duplicates.metric} distance "
        f"{duplicates.max_distance:g} of one that is kept.",
        f"How the pairs were found: {duplicates.plan}.",
    ]
    curve = duplicates.curve
    if curve is not None and curve.pairs[-1]:
        lines.append(
            f"Estimated share of true pairs found: {curve.recall[-1]:.3f} "
            f"(95 % interval {curve.recall_low[-1]:.3f} to {curve.recall_high[-1]:.3f})."
        )
    if data["left_out"] > 0:
        lines.append(f"This page shows the largest groups; {data['left_out']:,} rows with duplicates are not on it.")
    return lines


@cache
def _environment() -> Any:
    jinja2: Any = require("jinja2", "report")
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
    )
