"""Loading many codes into a store: a block at a time, with progress; a repeated call continues an interrupted one."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer
from hashlearn.codes import check_codes
from hashlearn.progress import track
from hashlearn.rows.forms import is_table, library_of
from hashlearn.rows.inputs import as_ids
from hashlearn.stores.arguments import check_corrections
from hashlearn.stores.store import BLOCK_ROWS, Store

NOTE = "loading "
"""The beginning of the key of the note that says how far a load has come; the digest of the job follows."""
SECONDS_BETWEEN_NOTES = 5.0
"""A load that is killed repeats at most the work of this time."""

VECTOR_BYTES = 1 << 26
"""Bytes of vectors that are written at a time, if a store keeps vectors."""


class CodedRows(NamedTuple):
    """Codes of some rows, and their corrections if the store keeps them."""

    rows: slice
    codes: NDArray[np.uint8]
    corrections: NDArray[np.uint8] | None


Blocks = Callable[[int], Iterable[CodedRows]]


def load_codes(
    store: Store,
    codes: Any,
    ids: Any = None,
    *,
    vectors: Any = None,
    payloads: Sequence[dict | None] | None = None,
    corrections: Any = None,
    first: int | None = None,
    job: str | None = None,
    block_rows: int = BLOCK_ROWS,
) -> int:
    """Write codes into a store in blocks; memory holds one block.

    Repeat an interrupted call and it continues: a note in the store says how many rows of this job are written.
    Rows that were written after the last note are written again, which changes nothing. Several processes may load
    parts of the codes at the same time if the database allows it. :meth:`Store.compact` afterwards makes searches
    faster.

    Parameters
    ----------
    store : Store
        Where they go.
    codes : array of shape (n, ceil(n_bits / 8)), path of an .npy file, or callable
        Packed codes. A memmap or a file is read block by block. A callable gets the number of the row to begin
        with, and returns pairs of a slice of rows and their codes, as ``hasher.transform_blocks`` does. If the store
        keeps corrections, they are the third item, after the slice and the codes.
    ids : list, array, Series or other column of n ids, or None
        None gives running numbers from 0, in a store whose ids are integers.
    vectors : array of shape (n, n_features), anything that gives rows for a slice, or None
        Required if the store keeps vectors, otherwise not allowed.
    payloads : list of n dicts, frame, Arrow table, or None
        JSON values; None is no payload.
    corrections : array of shape (n,), uint8, or Corrections, or None
        Required beside an array of codes if the store keeps corrections, otherwise not allowed.
    first : int or None
        The row to begin with; None continues where the last call with the same job has stopped.
    job : str or None
        The name of this load. By default the digest of the first and the last block of an array; a callable
        without it always begins with ``first``, or 0.
    block_rows : int
        Rows written at a time; fewer if their vectors would take more than 64 MB. Smaller blocks of a callable are
        joined, because few large writes are much faster than many small ones.

    Returns
    -------
    int
        The row that this call began with: 0 if nothing had been loaded before.

    Examples
    --------
    >>> from hashlearn.stores import open_store
    >>> codes = np.random.default_rng(0).integers(0, 256, (1000, 8), dtype=np.uint8)
    >>> folder = getfixture("tmp_path")  # any folder
    >>> with open_store(f"duckdb://{folder}/codes.duckdb", n_bits=64, create=True) as store:
    ...     load_codes(store, codes, block_rows=300)
    ...     len(store)
    0
    1000
    """
    block_rows = check_integer("block_rows", block_rows, low=1)
    if vectors is not None and store.n_features is not None:
        block_rows = min(block_rows, max(1, VECTOR_BYTES // (4 * store.n_features)))
    if ids is None and store.id_type != "int64":
        raise ValueError("ids must be given for a store whose ids are strings")
    ids, vectors, payloads = None if ids is None else as_ids(ids), _by_slices(vectors), _by_slices(payloads)
    blocks: Blocks
    if callable(codes):
        if corrections is not None:
            raise ValueError("corrections must be None beside a callable: it returns them with the codes")
        blocks, n = _called(codes, store), None
    else:
        array = _opened(codes, store.n_bits)
        _check_lengths(len(array), ids=ids, vectors=vectors, payloads=payloads)
        values = check_corrections(corrections, len(array), store.corrections)
        blocks, n = _sliced(array, values, block_rows), len(array)
        job = _identity(array, values, ids, block_rows) if job is None else job
    begin = _done(store, job) if first is None else check_integer("first", first, low=0)
    n_blocks = None if n is None else -(-max(0, n - begin) // block_rows)
    _write(store, _gathered(track(blocks(begin), "load", n_blocks), block_rows), ids, vectors, payloads, job)
    return begin


def _write(store: Store, parts: Iterable[CodedRows], ids: Any, vectors: Any, payloads: Any, job: str | None) -> None:
    noted_at, done = time.monotonic(), 0
    try:
        for rows, codes, corrections in parts:
            store.upsert(
                np.arange(rows.start, rows.stop) if ids is None else ids[rows],
                codes,
                None if vectors is None else vectors[rows],
                None if payloads is None else payloads[rows],
                corrections,
            )
            done = rows.stop
            if time.monotonic() - noted_at > SECONDS_BETWEEN_NOTES:
                _keep(store, job, done)
                noted_at = time.monotonic()
    except BaseException:
        with suppress(Exception):  # the error that stopped the load may also stop the note
            _keep(store, job, done)
        raise
    if job is not None:
        store.drop_note(_key(job))


def _by_slices(values: Any) -> Any:
    """Vectors or payloads that can be sliced by rows; a slice of a ``datasets.Dataset`` would be columns."""
    return values.with_format("arrow") if library_of(values) == "datasets" and is_table(values) else values


def _gathered(parts: Iterable[CodedRows], block_rows: int) -> Iterator[CodedRows]:
    """Parts of at least ``block_rows`` rows, except the last: small neighbors are joined."""
    waiting: list[CodedRows] = []
    for part in parts:
        # copies: the source may use its memory again for the next part
        corrections = None if part.corrections is None else np.array(part.corrections)
        waiting.append(CodedRows(part.rows, np.array(part.codes), corrections))
        if part.rows.stop - waiting[0].rows.start >= block_rows:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[CodedRows]) -> CodedRows:
    rows = slice(parts[0].rows.start, parts[-1].rows.stop)
    values = [part.corrections for part in parts if part.corrections is not None]
    return CodedRows(rows, np.concatenate([part.codes for part in parts]), np.concatenate(values) if values else None)


def _keep(store: Store, job: str | None, done: int) -> None:
    if job is not None:
        store.keep_note(_key(job), str(done))


def _key(job: str) -> str:
    return NOTE + hashlib.sha256(job.encode()).hexdigest()[:32]


def _done(store: Store, job: str | None) -> int:
    """Number of rows of this job that are written, from the note in the store."""
    done = None if job is None else store.note(_key(job))
    return 0 if done is None else int(done)


def _opened(codes: Any, n_bits: int) -> NDArray[np.uint8]:
    """The codes as an array, which may be mapped. Shape and type are checked here, the bits when they are written."""
    if isinstance(codes, (str, Path)):
        try:
            codes = np.load(codes, mmap_mode="r", allow_pickle=False)
        except ValueError:
            raise ValueError(f"codes must be an array or an .npy file, got {codes}") from None
    array = codes if isinstance(codes, np.ndarray) else np.asarray(codes)
    check_codes(array[:0], n_bits)
    return array


def _sliced(array: NDArray[np.uint8], corrections: NDArray[np.uint8] | None, block_rows: int) -> Blocks:
    def blocks(first: int) -> Iterator[CodedRows]:
        for start in range(first, len(array), block_rows):
            rows = slice(start, min(start + block_rows, len(array)))
            yield CodedRows(rows, array[rows], None if corrections is None else corrections[rows])

    return blocks


def _called(codes: Callable[[int], Iterable[tuple]], store: Store) -> Blocks:
    """The checked blocks of a callable."""
    wanted = ["a slice of rows", "their codes", *([] if store.corrections is None else ["their corrections"])]

    def blocks(first: int) -> Iterator[CodedRows]:
        for block in codes(first):
            if len(block) != len(wanted):
                raise ValueError(f"codes must return {', '.join(wanted)} for {store.uri}, got {len(block)} things")
            rows, packed, corrections = block if store.corrections is not None else (*block, None)
            yield CodedRows(rows, packed, check_corrections(corrections, len(packed), store.corrections))

    return blocks


def _check_lengths(n: int, **given: Any) -> None:
    for name, values in given.items():
        if values is not None and len(values) != n:
            raise ValueError(f"{name} must be as many as the codes, got {len(values)} for {n}")


def _identity(array: NDArray[np.uint8], corrections: NDArray[np.uint8] | None, ids: Any, block_rows: int) -> str:
    """A digest of the number of codes, and of the first and last codes with their ids."""
    digest = hashlib.sha256(f"{array.shape}".encode())
    for rows in (slice(0, block_rows), slice(max(0, len(array) - block_rows), len(array))):
        digest.update(np.ascontiguousarray(array[rows]).data)
        digest.update(b"" if corrections is None else corrections[rows].tobytes())
        digest.update(repr(None if ids is None else list(ids[rows])).encode())
    return digest.hexdigest()
