"""What a database must offer to keep codes: the Protocol that every engine of this folder follows.

:class:`~hashlearn.stores.store.Store` is what users hold. It checks every argument once and gives results their form;
an engine gets arguments that are right, and does with its database what they say.
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
"""2 knows codes with corrections; a store of version 1 has none."""
BIT_ORDER = "big"
MAX_BITS = 4096

IdType = Literal["int64", "str"]
ID_TYPES = ("int64", "str")
Hits = list[tuple[int, Any]]
"""Distances and ids of the codes found for one query, nearest first, ties by the lowest id."""


class CorrectionScale(NamedTuple):
    """What the correction bytes of a store stand for: ``offset + scale * byte``."""

    scale: float
    offset: float


class Description(NamedTuple):
    """What a store says about its codes; it is kept in the database, beside them.

    Codes with ``corrections``, as those of ABH, are compared with real queries, codes without by Hamming distance.
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
        """The description in ``text``, or one line why there is none."""
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
    """Rows to be written; every list has as many entries as there are ids, and no id comes twice."""

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
    """One row of a store; ``correction`` is the byte beside the code, where the store has them."""

    id: Any
    code: NDArray[np.uint8]
    payload: dict[str, Any]
    correction: int | None = None


class Block(NamedTuple):
    """Some rows of a scan.

    Payloads, if they were asked for, are JSON texts from an engine and dicts from a store. Corrections, one byte for
    each code, are there where the store has them.
    """

    ids: NDArray[Any]
    codes: NDArray[np.uint8]
    payloads: list[Any] | None
    corrections: NDArray[np.uint8] | None = None


class Place(NamedTuple):
    """Where a store is: what a URI says.

    Attributes
    ----------
    shown : str
        The URI without its password, for messages.
    address : str
        What the database wants to be told: a path, or the address of a server.
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

    ``description`` is None until there is a store at the place: :meth:`create` makes one. Ids are integers of at least
    0, or strings; a code is compared by all of its bytes, whose padding bits are zero.
    """

    description: Description | None
    errors: tuple[type[Exception], ...]
    """What the database raises; :meth:`explain` says it in a line."""
    indexes: Sequence[str]
    """The approximate indexes that :meth:`use_index` can use."""

    def explain(self, error: Exception) -> Exception:
        """A ValueError or ConnectionError of one line."""

    def create(self, description: Description) -> None:
        """Make an empty store, in one step."""

    def use_index(self, kind: str) -> None:
        """From now on search by an approximate index, which is built if it is not there."""

    def upsert(self, rows: Rows) -> None:
        """Write rows; one whose id is there takes its place."""

    def delete(self, ids: NDArray[Any]) -> int:
        """Remove rows and say how many there were."""

    def get(self, ids: NDArray[Any]) -> list[tuple[Any, bytes, str, int | None]]:
        """Id, code, payload and correction of the rows that are there, in any order."""

    def vectors(self, ids: NDArray[Any]) -> list[tuple[Any, NDArray[np.float32]]]:
        """Id and vector of the rows that are there, in any order."""

    def count(self, condition: Condition | None) -> int:
        """How many rows meet the condition."""

    def nearest(self, codes: NDArray[np.uint8], k: int, condition: Condition | None) -> list[Hits]:
        """The k nearest codes of each query."""

    def within(self, codes: NDArray[np.uint8], radius: int, condition: Condition | None) -> list[Hits]:
        """All codes at distance ``radius`` or less of each query."""

    def blocks(self, n_rows: int, condition: Condition | None, payloads: bool) -> Iterator[Block]:
        """All rows that meet the condition, at most ``n_rows`` at a time."""

    def note(self, key: str) -> str | None:
        """A text that was kept under this key."""

    def keep_note(self, key: str, text: str) -> None:
        """Keep a text under a key, in place of the one before."""

    def drop_note(self, key: str) -> None:
        """Forget the text under a key, if there is one."""

    def compact(self) -> None:
        """Tidy up after many writes."""

    def close(self) -> None:
        """Let go of files and connections."""


def short(error: Exception, length: int = 200) -> str:
    """The first line of what an error says."""
    lines = str(error).strip().splitlines()
    return lines[0][:length] if lines else type(error).__name__


def code_matrix(codes: Sequence[bytes], n_bytes: int) -> NDArray[np.uint8]:
    """Codes of bytes as packed codes of shape (n, n_bytes)."""
    return np.frombuffer(b"".join(codes), np.uint8).reshape(len(codes), n_bytes)


def id_array(ids: Sequence[Any], id_type: IdType) -> NDArray[Any]:
    """Ids as an array: int64, or objects that are strings."""
    return np.array(ids, dtype=np.int64 if id_type == "int64" else object)
