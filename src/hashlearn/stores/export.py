"""Export of codes from an index or a store to faiss, usearch, numpy and parquet.

Distances do not depend on the bit order, so codes are exported unchanged. Convert them with
:func:`hashlearn.codes.reverse_bit_order` only to compare them with codes that the other program has made.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import Corrections, bytes_per_code
from hashlearn.durable.files import replacing
from hashlearn.extras import require
from hashlearn.rows.inputs import NO_PAYLOAD, as_payloads
from hashlearn.stores.base import Block, CorrectionScale, Description
from hashlearn.stores.parquet import METADATA_KEY
from hashlearn.stores.store import BLOCK_ROWS, Store


class HasCodes(Protocol):
    """An object that holds codes in memory, such as a HammingIndex.

    If its attribute ``corrections`` is not None, as for an AsymmetricIndex of ABH codes, the codes are made for real
    queries.
    """

    @property
    def n_bits(self) -> int: ...

    @property
    def ids(self) -> NDArray[Any]: ...

    def codes(self, ids: ArrayLike | None = None) -> NDArray[np.uint8]: ...


def to_numpy(source: HasCodes | Store) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """All ids and codes as arrays.

    Parameters
    ----------
    source : HammingIndex, Store, or anything with ``n_bits``, ``ids`` and ``codes()``
        Where the codes are. Codes with corrections are refused: ``store.scan()`` gives them as arrays.

    Returns
    -------
    ids, codes : arrays of shape (n,) and (n, ceil(n_bits / 8))
        Ascending ids, int64 or strings, and their packed codes.

    Examples
    --------
    >>> from hashlearn import HammingIndex
    >>> ids, codes = to_numpy(HammingIndex(n_bits=8).add(np.array([[1], [7]], dtype=np.uint8), ids=[20, 10]))
    >>> ids.tolist(), codes.ravel().tolist()
    ([10, 20], [7, 1])
    """
    if _correction_scale(source) is not None:
        raise ValueError(
            "source must hold codes without corrections: to_numpy gives ids and codes only; take the blocks of "
            "store.scan(), or index.codes() and index.corrections"
        )
    blocks = list(_blocks(source))
    if not blocks:
        no_ids = np.empty(0, object if _id_type(source) == "str" else np.int64)
        return no_ids, np.empty((0, bytes_per_code(source.n_bits)), np.uint8)
    ids, codes = (np.concatenate(parts) for parts in ([b.ids for b in blocks], [b.codes for b in blocks]))
    order = np.argsort(ids, kind="stable")
    return ids[order], codes[order]


def to_parquet(source: HasCodes | Store, path: str | Path) -> None:
    """Write ids, codes, corrections and payloads to a parquet file, which ``open_store("parquet://...")`` opens.

    A store is read and written a block at a time. Vectors are left out.

    Parameters
    ----------
    source : HammingIndex, AsymmetricIndex, Store, or anything with ``n_bits``, ``ids`` and ``codes()``
        Where the codes are.
    path : str or Path
        The file, which is replaced in one step.

    Examples
    --------
    >>> from hashlearn import HammingIndex
    >>> from hashlearn.stores import open_store
    >>> path = getfixture("tmp_path") / "codes.parquet"  # any path
    >>> to_parquet(HammingIndex(n_bits=8).add(np.array([[1], [7]], dtype=np.uint8)), path)
    >>> len(open_store(f"parquet://{path}"))
    2
    """
    pa, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    model = source.model if isinstance(source, Store) else None
    id_type = _id_type(source)
    description = Description(source.n_bits, id_type, None, model, _correction_scale(source))
    fields = [
        pa.field("id", pa.int64() if id_type == "int64" else pa.string(), nullable=False),
        pa.field("code", pa.binary(), nullable=False),
        pa.field("payload", pa.string(), nullable=False),
    ]
    if description.corrections is not None:
        fields.append(pa.field("correction", pa.uint8(), nullable=False))
    schema = pa.schema(fields, metadata={METADATA_KEY: description.to_json()})
    with replacing(path) as (beside,), parquet.ParquetWriter(beside, schema) as writer:
        for ids, codes, payloads, corrections in _blocks(source):
            texts = [NO_PAYLOAD] * len(ids) if payloads is None else as_payloads(payloads, len(ids))
            columns = [ids.tolist(), [code.tobytes() for code in codes], texts]
            writer.write_table(pa.table(columns if corrections is None else [*columns, corrections], schema=schema))


def to_faiss(source: HasCodes | Store) -> Any:
    """A faiss ``IndexBinaryIDMap2`` over ``IndexBinaryFlat``, exact; lengths that are no multiple of 8 are padded.

    Parameters
    ----------
    source : HammingIndex, Store, or anything with ``n_bits``, ``ids`` and ``codes()``
        Where the codes are.

    Returns
    -------
    faiss.IndexBinaryIDMap2
        With integer ids.

    Examples
    --------
    >>> from hashlearn import HammingIndex
    >>> index = to_faiss(HammingIndex(n_bits=8).add(np.array([[1], [7]], dtype=np.uint8), ids=[10, 20]))
    >>> index.search(np.array([[3]], dtype=np.uint8), 2)[1].tolist()
    [[10, 20]]
    """
    _refuse_real_queries(source, "faiss")
    faiss = require("faiss", "faiss")
    flat = faiss.IndexBinaryFlat(8 * bytes_per_code(source.n_bits))
    index = faiss.IndexBinaryIDMap2(flat)
    flat.this.disown()
    index.own_fields = True
    for block in _blocks(source):
        index.add_with_ids(block.codes, _integers(block.ids, "faiss"))
    return index


def to_usearch(source: HasCodes | Store) -> Any:
    """A usearch ``Index`` of bits, which searches approximately; lengths that are no multiple of 8 are padded.

    Parameters
    ----------
    source : HammingIndex, Store, or anything with ``n_bits``, ``ids`` and ``codes()``
        Where the codes are.

    Returns
    -------
    usearch.index.Index
        With integer keys.

    Examples
    --------
    >>> from hashlearn import HammingIndex
    >>> index = to_usearch(HammingIndex(n_bits=8).add(np.array([[1], [7]], dtype=np.uint8), ids=[10, 20]))
    >>> index.search(np.array([7], dtype=np.uint8), 1).keys.tolist()
    [20]
    """
    _refuse_real_queries(source, "usearch")
    usearch = require("usearch.index", "usearch")
    index = usearch.Index(ndim=8 * bytes_per_code(source.n_bits), metric="hamming", dtype="b1")
    for block in _blocks(source):
        index.add(_integers(block.ids, "usearch").astype(np.uint64), block.codes)
    return index


def _blocks(source: HasCodes | Store) -> Iterator[Block]:
    if isinstance(source, Store):
        yield from source.scan(payloads=True)
        return
    ids, codes, corrections = np.asarray(source.ids), source.codes(), _corrections(source)
    for start in range(0, len(ids), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        values = None if corrections is None else corrections.values[rows]
        yield Block(ids[rows], np.ascontiguousarray(codes[rows]), None, values)


def _corrections(index: HasCodes) -> Corrections | None:
    return getattr(index, "corrections", None)


def _correction_scale(source: HasCodes | Store) -> CorrectionScale | None:
    """Scale and offset of the corrections; None if codes are compared by their bits."""
    if isinstance(source, Store):
        return source.corrections
    corrections = _corrections(source)
    return None if corrections is None else CorrectionScale(corrections.scale, corrections.offset)


def _refuse_real_queries(source: HasCodes | Store, target: str) -> None:
    if _correction_scale(source) is not None:
        raise ValueError(
            f"source must hold codes without corrections for {target}, which compares codes by their bits; codes with "
            "corrections, as those of ABH, are searched by SimilaritySearch or AsymmetricIndex"
        )


def _id_type(source: HasCodes | Store) -> Any:
    if isinstance(source, Store):
        return source.id_type
    return "int64" if np.issubdtype(np.asarray(source.ids).dtype, np.integer) else "str"


def _integers(ids: NDArray[Any], target: str) -> NDArray[np.int64]:
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"ids must be integers for {target}, which keeps no strings, got {ids[0]!r:.60}")
    return ids
