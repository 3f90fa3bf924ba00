"""LanceDB: a table in a folder or in object storage.

LanceDB reads codes several times faster than it compares them (0.40, 64 bits), breaks ties arbitrarily and cannot
filter by JSON. So an exact search reads ids and codes in blocks and compares them here, and a filter tests the payloads
of the nearest rows until enough rows meet it. LanceDB's own search is used with ``index="ivf"``.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.stores.base import Block, Description, Hits, Place, Rows, short
from hashlearn.stores.blocks import nearest_in, within_in
from hashlearn.stores.filters import Condition, matches

METADATA_KEY = b"hashlearn"
"""The key of the description in the metadata of the table's schema."""
PRIMARY_KEY = {"lance-schema:unenforced-primary-key:position": "1"}
"""Makes the ids a primary key: otherwise two writers that merge the same new id at once would both insert it."""
BLOCK_ROWS = 1 << 16
IDS_AT_ONCE = 10_000
ATTEMPTS = 20
PROBES = 32
"""Number of lists of an IVF index that a search reads."""


class LanceEngine:
    """Codes in a table of LanceDB; see :class:`hashlearn.stores.base.StoreEngine`."""

    errors: tuple[type[Exception], ...] = (ValueError, OSError, RuntimeError)
    indexes: Sequence[str] = ("ivf",)

    def __init__(self, place: Place):
        self.place = place
        self.notes = f"{place.table}_meta"
        self.lancedb = require("lancedb", "lance")
        self.arrow = require("pyarrow", "lance")
        self.by_index = False
        self.table: Any = None
        self.description: Description | None = None
        if Path(place.address).is_file():
            raise ValueError(f"uri must be a folder, got the file {place.shown}")
        try:
            # every read checks for changes of other processes
            self.connection = self.lancedb.connect(place.address, read_consistency_interval=timedelta(0))
            self._open()
        except self.errors as error:
            raise self.explain(error) from error

    def explain(self, error: Exception) -> Exception:
        reason = short(error)
        if reason.startswith(self.place.shown):
            return error
        if "ermission denied" in str(error) or "Read-only file system" in str(error):
            return ValueError(f"{self.place.shown} cannot be written: permission denied")
        return ValueError(f"{self.place.shown}: {reason}")

    def create(self, description: Description) -> None:
        pa = self.arrow
        id_type = pa.int64() if description.id_type == "int64" else pa.string()
        fields = [
            pa.field("id", id_type, nullable=False, metadata=PRIMARY_KEY),
            pa.field("code", pa.list_(pa.uint8(), description.n_bytes), nullable=False),
            pa.field("payload", pa.string(), nullable=False),
        ]
        if description.n_features is not None:
            fields.append(pa.field("vector", pa.list_(pa.float32(), description.n_features), nullable=False))
        if description.corrections is not None:
            fields.append(pa.field("correction", pa.uint8(), nullable=False))
        schema = pa.schema(fields, metadata={METADATA_KEY: description.to_json()})
        self.connection.create_table(self.place.table, schema=schema)
        self._open()

    def use_index(self, kind: str) -> None:
        if "code" not in {column for index in self.table.list_indices() for column in index.columns}:
            ivf = require("lancedb.index", "lance").IvfFlat(distance_type="hamming")
            self.table.create_index("code", config=ivf)
        self.by_index = True

    def upsert(self, rows: Rows) -> None:
        pa = self.arrow
        arrays = [pa.array(rows.ids.tolist(), self.table.schema.field("id").type), self._lists(rows.codes)]
        arrays.append(pa.array(rows.payloads, pa.string()))
        if rows.vectors is not None:
            arrays.append(self._lists(rows.vectors))
        if rows.corrections is not None:
            arrays.append(pa.array(rows.corrections))
        incoming = pa.table(arrays, schema=self.table.schema)
        if not self._appended(incoming, rows.ids):
            _committed(lambda: _merge(self.table, "id", incoming))

    def delete(self, ids: NDArray[Any]) -> int:
        n_deleted = 0
        for chosen in self._among(ids):
            n_deleted += _committed(partial(self.table.delete, chosen)).num_deleted_rows
        return n_deleted

    def get(self, ids: NDArray[Any]) -> list[tuple[Any, bytes, str, int | None]]:
        rows = []
        for found in self._found(ids, ["id", "code", "payload", *self._correction()]):
            codes = [code.tobytes() for code in _matrix(found["code"])]
            corrections = found["correction"].to_pylist() if self._correction() else [None] * len(codes)
            rows += list(zip(found["id"].to_pylist(), codes, found["payload"].to_pylist(), corrections))
        return rows

    def vectors(self, ids: NDArray[Any]) -> list[tuple[Any, NDArray[np.float32]]]:
        rows = []
        for found in self._found(ids, ["id", "vector"]):
            rows += list(zip(found["id"].to_pylist(), _matrix(found["vector"])))
        return rows

    def count(self, condition: Condition | None) -> int:
        if condition is None:
            return self.table.count_rows()
        return sum(len(block.ids) for block in self.blocks(BLOCK_ROWS, condition, payloads=False))

    def nearest(self, codes: NDArray[np.uint8], k: int, condition: Condition | None) -> list[Hits]:
        if self.by_index and condition is None:
            return [self._nearest_by_index(code, k) for code in codes]
        return nearest_in(self._read(BLOCK_ROWS, condition is not None), codes, self._n_bits(), k, condition)

    def within(self, codes: NDArray[np.uint8], radius: int, condition: Condition | None) -> list[Hits]:
        return within_in(self._read(BLOCK_ROWS, condition is not None), codes, self._n_bits(), radius, condition)

    def blocks(self, n_rows: int, condition: Condition | None, payloads: bool) -> Iterator[Block]:
        for block in self._read(n_rows, payloads or condition is not None):
            if condition is None:
                yield block
                continue
            texts = block.payloads or []
            kept = [row for row, text in enumerate(texts) if matches(condition, json.loads(text))]
            if kept:
                corrections = None if block.corrections is None else block.corrections[kept]
                kept_texts = [texts[row] for row in kept] if payloads else None
                yield Block(block.ids[kept], block.codes[kept], kept_texts, corrections)

    def note(self, key: str) -> str | None:
        notes = self._opened(self.notes)
        found = [] if notes is None else notes.search().where(self._keyed(key)).to_list()
        return found[0]["value"] if found else None

    def keep_note(self, key: str, text: str) -> None:
        pa = self.arrow
        key_field = pa.field("key", pa.string(), nullable=False, metadata=PRIMARY_KEY)
        schema = pa.schema([key_field, pa.field("value", pa.string())])
        table = self.connection.create_table(self.notes, schema=schema, exist_ok=True)
        incoming = pa.table([[key], [text]], schema=schema)
        _committed(lambda: _merge(table, "key", incoming))

    def drop_note(self, key: str) -> None:
        notes = self._opened(self.notes)
        if notes is not None:
            _committed(partial(notes.delete, self._keyed(key)))

    def compact(self) -> None:
        _committed(self.table.optimize)

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def _n_bits(self) -> int:
        assert self.description is not None
        return self.description.n_bits

    def _correction(self) -> list[str]:
        """The column of the corrections, if the table has one."""
        assert self.description is not None
        return [] if self.description.corrections is None else ["correction"]

    def _keyed(self, key: str) -> Any:
        return self.lancedb.expr.col("key") == self.lancedb.expr.lit(key)

    def _opened(self, name: str) -> Any:
        """A table, or None if there is none of this name."""
        try:
            return self.connection.open_table(name)
        except ValueError as error:
            if "not found" not in str(error):
                raise
            return None

    def _open(self) -> None:
        self.table = self._opened(self.place.table)
        if self.table is None:
            return
        told = (self.table.schema.metadata or {}).get(METADATA_KEY, b"")
        self.description = Description.from_json(told.decode(), self.place.shown)

    def _lists(self, matrix: NDArray[Any]) -> Any:
        """Each row of a matrix as a list."""
        return self.arrow.FixedSizeListArray.from_arrays(self.arrow.array(matrix.ravel()), matrix.shape[1])

    def _among(self, ids: NDArray[Any]) -> Iterator[Any]:
        """Expressions that choose the rows with these ids."""
        for start in range(0, len(ids), IDS_AT_ONCE):
            yield self.lancedb.expr.col("id").isin(ids[start : start + IDS_AT_ONCE].tolist())

    def _appended(self, incoming: Any, ids: NDArray[Any]) -> bool:
        """Append rows if the table has no ids in their range, as in a load of running numbers.

        A merge compares with all rows of the table, in memory; appending does not. If another process has written the
        same ids meanwhile, the appended rows are deleted again and merged.
        """
        id, lit, listed = self.lancedb.expr.col("id"), self.lancedb.expr.lit, ids.tolist()
        in_range = (id >= lit(min(listed))) & (id <= lit(max(listed)))
        before = self.table.version
        if self._n_where(in_range, at_most=1):
            return False
        after = _committed(lambda: self.table.add(incoming)).version
        if after == before + 1 or self._n_where(in_range, at_most=len(ids) + 1) == len(ids):
            return True
        self.delete(ids)
        return False

    def _n_where(self, chosen: Any, at_most: int) -> int:
        return len(self.table.search().where(chosen).select(["id"]).limit(at_most).to_arrow())

    def _found(self, ids: NDArray[Any], columns: list[str]) -> Iterator[Any]:
        for chosen in self._among(ids):
            yield self.table.search().where(chosen).select(columns).limit(IDS_AT_ONCE).to_arrow()

    def _read(self, n_rows: int, payloads: bool) -> Iterator[Block]:
        columns = ["id", "code", *(["payload"] if payloads else []), *self._correction()]
        for batch in self.table.search().select(columns).to_batches(n_rows):
            ids = batch["id"].to_numpy(zero_copy_only=False)
            for start in range(0, len(ids), n_rows):  # a batch may be larger than requested
                rows = slice(start, start + n_rows)
                texts = batch["payload"][rows].to_pylist() if payloads else None
                corrections = batch["correction"][rows].to_numpy() if self._correction() else None
                yield Block(ids[rows], _matrix(batch["code"][rows]), texts, corrections)

    def _nearest_by_index(self, code: NDArray[np.uint8], k: int) -> Hits:
        query = self.table.search(code, vector_column_name="code").distance_type("hamming").nprobes(PROBES)
        found = query.select(["id", "_distance"]).limit(2 * k + 64).to_arrow()
        return sorted(zip(map(int, found["_distance"].to_pylist()), found["id"].to_pylist()))[:k]


def _merge(table: Any, key: str, incoming: Any) -> None:
    table.merge_insert(key).when_matched_update_all().when_not_matched_insert_all().execute(incoming)


def _committed(change: Callable[[], Any]) -> Any:
    """Make a change, and repeat it if another writer was faster: LanceDB refuses a change of an older version."""
    for attempt in range(ATTEMPTS):
        try:
            return change()
        except (OSError, RuntimeError, ValueError) as error:
            if "commit conflict" not in str(error).lower():
                raise
            time.sleep(random.uniform(0, 0.05 * 2 ** min(attempt, 5)))
    return change()


def _matrix(lists: Any) -> NDArray[Any]:
    """A column of lists of one length as a matrix."""
    array = lists.combine_chunks() if hasattr(lists, "combine_chunks") else lists
    return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), array.type.list_size)
