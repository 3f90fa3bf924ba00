"""The Protocol that every engine of this folder follows: what a database must do to keep codes.

Users hold a :class:`~hashlearn.stores.store.Store`. It checks every argument once and gives results their form. An
engine gets checked arguments and passes them to its database.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import bytes_per_code
from hashlearn.stores.filters import Condition

FORMAT = "hashlearn codes"
FORMAT_VERSION = 2
"""Version 2 has codes with corrections; a store of version 1 has none."""
BIT_ORDER = "big"
MAX_BITS = 4096

IdType = Literal["int64", "str"]
ID_TYPES = ("int64", "str")
Hits = list[tuple[int, Any]]
"""Distances and ids of the codes found for one query, nearest first, ties by the lowest id."""


class CorrectionScale(NamedTuple):
    """Scale and offset of the correction bytes: a byte stands for ``offset + scale * byte``."""

    scale: float
    offset: float


class Description(NamedTuple):
    """The description of the codes of a store; it is kept in the database, beside the codes.

    Codes with ``corrections``, such as those of ABH, are compared with real queries, other codes by Hamming distance.
    """

    n_bits: int
    id_type: IdType
    n_features: int | None
    model: str | None
    corrections: CorrectionScale | None = None

    @property
    def n_bytes(self) -> int:
        """Width of a code."""
        return bytes_per_code(self.n_bits)

    def to_json(self) -> str:
        told = {"format": FORMAT, "format_version": FORMAT_VERSION, "bit_order": BIT_ORDER, **self._asdict()}
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str, place: str) -> Self:
        """The description in ``text``; a ValueError of one line if there is none."""
        try:
            told = json.loads(text)
            if told["format"] != FORMAT:
                raise ValueError
            if told["format_version"] > FORMAT_VERSION:
                raise ValueError(
                    f"{place} has store format {told['format_version']}, "
                    f"this hashlearn reads up to {FORMAT_VERSION}; update hashlearn"
                )
            if told["bit_order"] != BIT_ORDER:
                raise ValueError(f"{place} has codes of bit order {told['bit_order']!r}, this hashlearn wants 'big'")
            scale = told["corrections"] if told["format_version"] >= 2 else None
            corrections = None if scale is None else CorrectionScale(*map(float, scale))
            return cls(told["n_bits"], told["id_type"], told["n_features"], told["model"], corrections)
        except (ValueError, KeyError, TypeError) as error:
            if str(error).startswith(place):
                raise
            raise ValueError(f"{place} holds a table that hashlearn did not make") from None


class Rows(NamedTuple):
    """Rows to be written; every list has one entry for each id, and no id comes twice."""

    ids: NDArray[Any]
    codes: NDArray[np.uint8]
    payloads: list[str]
    vectors: NDArray[np.float32] | None
    corrections: NDArray[np.uint8] | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order in which a table has them."""
        vector = [] if self.vectors is None else ["vector"]
        correction = [] if self.corrections is None else ["correction"]
        return ["id", "code", "payload", *vector, *correction]

    def part(self, rows: slice) -> "Rows":
        vectors = None if self.vectors is None else self.vectors[rows]
        corrections = None if self.corrections is None else self.corrections[rows]
        return Rows(self.ids[rows], self.codes[rows], self.payloads[rows], vectors, corrections)


class StoreRecord(NamedTuple):
    """One row of a store; ``correction`` is the byte beside the code, if the store has corrections."""

    id: Any
    code: NDArray[np.uint8]
    payload: dict[str, Any]
    correction: int | None = None


class Block(NamedTuple):
    """Some rows of a scan.

    Payloads are JSON texts from an engine and dicts from a store, or None if they were not requested. Corrections, one
    byte for each code, are None if the store has none.
    """

    ids: NDArray[Any]
    codes: NDArray[np.uint8]
    payloads: list[Any] | None
    corrections: NDArray[np.uint8] | None = None


class Place(NamedTuple):
    """The place of a store, from its URI.

    Attributes
    ----------
    shown : str
        The URI without its password, for messages.
    address : str
        A path, or the address of a server, in the form of the database.
    table : str
        Name of the table or collection.
    read_only : bool
    """

    shown: str
    address: str
    table: str
    read_only: bool


class StoreEngine(Protocol):
    """A database that keeps codes.

    ``description`` is None if there is no store at the place; :meth:`create` makes one. Ids are integers of at least 0,
    or strings. Codes are compared by all their bytes; padding bits are zero.
    """

    description: Description | None
    errors: tuple[type[Exception], ...]
    """The exceptions of the database; :meth:`explain` turns one into an error of one line."""
    indexes: Sequence[str]
    """The approximate indexes that :meth:`use_index` can use."""

    def explain(self, error: Exception) -> Exception:
        """A ValueError or ConnectionError of one line for an exception of the database."""

    def create(self, description: Description) -> None:
        """Make an empty store, in one step."""

    def use_index(self, kind: str) -> None:
        """From now on search by an approximate index, which is built if needed."""

    def upsert(self, rows: Rows) -> None:
        """Write rows; a row with a known id replaces the old row."""

    def delete(self, ids: NDArray[Any]) -> int:
        """Remove rows and return how many."""

    def get(self, ids: NDArray[Any]) -> list[tuple[Any, bytes, str, int | None]]:
        """Id, code, payload and correction of the known rows among these ids, in any order."""

    def vectors(self, ids: NDArray[Any]) -> list[tuple[Any, NDArray[np.float32]]]:
        """Id and vector of the known rows among these ids, in any order."""

    def count(self, condition: Condition | None) -> int:
        """How many rows meet the condition."""

    def nearest(self, codes: NDArray[np.uint8], k: int, condition: Condition | None) -> list[Hits]:
        """The k nearest codes of each query."""

    def within(self, codes: NDArray[np.uint8], radius: int, condition: Condition | None) -> list[Hits]:
        """All codes at distance ``radius`` or less of each query."""

    def blocks(self, n_rows: int, condition: Condition | None, payloads: bool) -> Iterator[Block]:
        """All rows that meet the condition, at most ``n_rows`` at a time."""

    def note(self, key: str) -> str | None:
        """The text under this key, or None."""

    def keep_note(self, key: str, text: str) -> None:
        """Keep a text under a key; it replaces an older one."""

    def drop_note(self, key: str) -> None:
        """Remove the text under a key, if there is one."""

    def compact(self) -> None:
        """Tidy up after many writes."""

    def close(self) -> None:
        """Close files and connections."""


def short(error: Exception, length: int = 200) -> str:
    """The first line of the message of an error."""
    lines = str(error).strip().splitlines()
    return lines[0][:length] if lines else type(error).__name__


def code_matrix(codes: Sequence[bytes], n_bytes: int) -> NDArray[np.uint8]:
    """Codes of bytes as packed codes of shape (n, n_bytes)."""
    return np.frombuffer(b"".join(codes), np.uint8).reshape(len(codes), n_bytes)


def id_array(ids: Sequence[Any], id_type: IdType) -> NDArray[Any]:
    """Ids as an array: int64, or objects that are strings."""
    return np.array(ids, dtype=np.int64 if id_type == "int64" else object)
