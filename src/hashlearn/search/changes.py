"""A change of a search as bytes: the content of a record of its journal.

===============  ====================================================================================================
bytes            content
===============  ====================================================================================================
4                length of the header
as told          the header, JSON (below)
8 a row          int64: the ids of the rows, or for ids that are strings the numbers of their vectors
as told          the packed codes of the rows, ``ceil(n_bits / 8)`` bytes each
1 a row          the corrections, where the index has them
===============  ====================================================================================================

===================  ================================================================================================
key of the header    value
===================  ================================================================================================
``removed``          list of ids that are gone; some may not have been there
``n_rows``           how many rows follow; a row replaces the one with the same id, or is new
``ids``              list of the ids, where they are strings; null otherwise
``payloads``         place of a row in this record (a string, from ``"0"``) -> its payload as JSON text; ``{}`` where
                     there is none
``corrections``      ``[scale, offset]`` of the corrections, or null
``n_vectors``        records of the file of vectors that count from now on, or null
``tuning``           what ``tune`` measured, or null
===================  ================================================================================================

Take away what is removed first, then put in the rows.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import Corrections
from hashlearn.search.state import NewRows

_LENGTH = struct.Struct("<I")


class Change(NamedTuple):
    """Rows that are gone and rows that are there, since an earlier state.

    Attributes
    ----------
    removed : list of ids
        Some may not have been there.
    rows : NewRows
    n_vectors : int or None
        Records of the file of vectors, where there is one.
    tuning : dict or None
    """

    removed: list[Any]
    rows: NewRows
    n_vectors: int | None
    tuning: dict[str, Any] | None

    def to_bytes(self) -> bytes:
        rows, is_text = self.rows, self.rows.ids.dtype == object
        corrections = rows.corrections
        header = {
            "removed": self.removed,
            "n_rows": len(rows.ids),
            "ids": rows.ids.tolist() if is_text else None,
            "payloads": {str(i): text for i, text in enumerate(rows.payloads) if text != "{}"},
            "corrections": None if corrections is None else [corrections.scale, corrections.offset],
            "n_vectors": self.n_vectors,
            "tuning": self.tuning,
        }
        text = json.dumps(header, ensure_ascii=False).encode()
        numbers = rows.numbers if is_text else rows.ids
        parts = [np.ascontiguousarray(numbers, "<i8").tobytes(), rows.codes.tobytes()]
        if corrections is not None:
            parts.append(corrections.values.tobytes())
        return b"".join([_LENGTH.pack(len(text)), text, *parts])

    @classmethod
    def from_bytes(cls, content: bytes, n_bytes: int) -> "Change":
        """What :meth:`to_bytes` wrote, of codes that take so many bytes."""
        at = _LENGTH.size + _LENGTH.unpack_from(content)[0]
        header = json.loads(content[_LENGTH.size : at])
        n = header["n_rows"]
        numbers = np.frombuffer(content, "<i8", n, at).astype(np.int64)
        codes = np.frombuffer(content, np.uint8, n * n_bytes, at + 8 * n).reshape(n, n_bytes)
        corrections = None
        if header["corrections"] is not None:
            values = np.frombuffer(content, np.uint8, n, at + (8 + n_bytes) * n)
            corrections = Corrections(values, *header["corrections"])
        payloads = [header["payloads"].get(str(i), "{}") for i in range(n)]
        if header["ids"] is None:
            rows = NewRows(numbers, codes, corrections, payloads)
        else:
            rows = NewRows(as_texts(header["ids"]), codes, corrections, payloads, numbers)
        return cls(header["removed"], rows, header["n_vectors"], header["tuning"])


class Combined(NamedTuple):
    """What several changes come to. Unlike in a change, the rows are put in before those in ``removed`` are taken away:
    some of them were there in between, and the next running id tells.
    """

    rows: NewRows
    removed: list[Any]


def combined(changes: Sequence[Change]) -> Combined | None:
    """The last row of every id, and the ids that are gone in the end; None for changes that do not fit together."""
    if len({_kind(change.rows) for change in changes if len(change.rows.ids)}) > 1:
        return None
    last: dict[Any, tuple[int, int]] = {}
    gone: dict[Any, None] = {}
    for number, change in enumerate(changes):
        gone.update(dict.fromkeys(change.removed))
        for row, id in enumerate(change.rows.ids.tolist()):
            last[id] = number, row
            gone.pop(id, None)
    chosen: dict[int, list[int]] = {}
    for number, row in last.values():
        chosen.setdefault(number, []).append(row)
    parts = [_taken(changes[number].rows, rows) for number, rows in chosen.items()]
    return Combined(_joined(parts or [changes[0].rows]), list(gone))


def _kind(rows: NewRows) -> tuple:
    """Rows of one kind can be put in together."""
    affine = None if rows.corrections is None else (rows.corrections.scale, rows.corrections.offset)
    return rows.ids.dtype == object, affine


def _taken(rows: NewRows, places: list[int]) -> NewRows:
    corrections = rows.corrections
    return NewRows(
        rows.ids[places],
        rows.codes[places],
        None if corrections is None else corrections._replace(values=corrections.values[places]),
        [rows.payloads[place] for place in places],
        None if rows.numbers is None else rows.numbers[places],
    )


def _joined(parts: list[NewRows]) -> NewRows:
    ids, codes, corrections, payloads, numbers = zip(*parts)
    one = corrections[0]
    return NewRows(
        np.concatenate(ids),
        np.concatenate(codes),
        None if one is None else one._replace(values=np.concatenate([each.values for each in corrections])),
        [text for texts in payloads for text in texts],
        None if numbers[0] is None else np.concatenate(numbers),
    )


def as_texts(texts: list[str]) -> NDArray[Any]:
    """Strings as an array of objects."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array
