"""From a folder to a snapshot: all of it, or what has changed since."""

from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import Corrections
from hashlearn.index import AsymmetricIndex
from hashlearn.index.code_table import packed_mask, unpacked_mask
from hashlearn.search.catalog import Catalog, LoadedRows
from hashlearn.search.columns import Columns
from hashlearn.search.facts import Facts
from hashlearn.search.folder import SearchFolder
from hashlearn.search.ids import Growing, IdColumn
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.snapshot import Index, Snapshot, empty_index
from hashlearn.search.tuning import Tuning
from hashlearn.search.vectors import VectorFile


class Loaded(NamedTuple):
    """A snapshot of a folder, the facts it is of, and the file of its vectors."""

    snapshot: Snapshot
    facts: Facts
    vectors: VectorFile | None


def load(folder: SearchFolder, catalog: Catalog, *, inside: bool = False) -> Loaded:
    """All rows of a folder; ``inside`` of the change that was begun, or as they were committed last."""
    while True:
        facts = catalog.facts(inside=inside)
        try:
            with nullcontext() if inside else catalog.reading():
                facts = catalog.facts(inside=inside)
                return _load(folder, catalog, facts, inside)
        except (FileNotFoundError, ValueError):  # another process may have just replaced the files
            if catalog.last_change(inside=inside) == facts.change:
                raise


def news(folder: SearchFolder, catalog: Catalog, before: Loaded, *, inside: bool) -> Loaded | None:
    """What others have changed since; None if nothing."""
    if catalog.last_change(inside=inside) == before.snapshot.change:
        return None
    try:
        with nullcontext() if inside else catalog.reading():
            facts, known = catalog.facts(inside=inside), before.facts
            same = (facts.search, facts.first_row, facts.hasher) == (known.search, known.first_row, known.hasher)
            if same and facts.change > known.change and facts.next_row >= known.next_row:
                return _extended(folder, catalog, before, facts, inside)
    except (_ReadAll, FileNotFoundError):
        pass
    return load(folder, catalog, inside=inside)


class _ReadAll(Exception):
    """The changes of others are such that all rows must be read again."""


def _load(folder: SearchFolder, catalog: Catalog, facts: Facts, inside: bool) -> Loaded:
    hasher = folder.load_hasher(facts)
    rows = catalog.load_rows(facts.first_row, facts.next_row, facts.id_type, inside=inside)
    _check_rows(catalog, facts, rows)
    places = rows.rows - facts.first_row
    n = facts.n_places
    alive = np.zeros(n, bool)
    alive[places] = True
    sums = np.zeros(n, np.uint32)
    sums[places] = rows.payload_sums
    vectors = folder.open_vectors(facts)
    if vectors is not None:
        _restore_vectors(catalog, facts, vectors, inside)
    snapshot = Snapshot(
        hasher=hasher,
        index=_index(folder, catalog, facts, hasher, alive, inside),
        ids=IdColumn.with_gaps(rows.ids, places, n) if facts.id_type is not None and n else None,
        payload_sums=Growing(sums),
        alive=packed_mask(alive),
        n_rows=facts.n_rows,
        first_row=facts.first_row,
        change=facts.change,
        columns=Columns(catalog, facts.first_row),
        vectors=None if vectors is None or not n else vectors.first(n),
        tuning=None if facts.tuning is None else Tuning.from_dict(facts.tuning),
    )
    return Loaded(snapshot, facts, vectors)


def _check_rows(catalog: Catalog, facts: Facts, rows: LoadedRows) -> None:
    if (len(rows.rows), rows.total) != (facts.n_rows, facts.sum):
        raise ValueError(
            f"{catalog.path}: {len(rows.rows)} rows, {facts.n_rows} were saved, or others; it was edited or damaged"
        )


def _restore_vectors(catalog: Catalog, facts: Facts, vectors: VectorFile, inside: bool) -> None:
    """Write vectors of the catalog that have not reached the vector file, as after a failure of the power."""
    places = catalog.rows_with_vectors(inside=inside) - facts.first_row
    if catalog.read_only or not len(places):
        return
    if not vectors.has_room_for(facts.n_places) or not vectors.first(facts.n_places).is_whole(places):
        loaded = catalog.load_vectors(inside=inside)
        if any(not isinstance(record, bytes) or len(record) != vectors.layout.record_bytes for _, record in loaded):
            raise ValueError(f"{catalog.path}: a vector was edited or damaged")
        vectors.write_again((row - facts.first_row, record) for row, record in loaded)


def _index(
    folder: SearchFolder, catalog: Catalog, facts: Facts, hasher: MetricHasher, alive: NDArray[np.bool_], inside: bool
) -> Index:
    """The index of a folder: the codes of its code file, and the fresh ones."""
    index = empty_index(hasher) if facts.codes is None else folder.open_codes(facts, hasher)
    n_in_file = 0 if facts.codes is None else facts.codes["places"]
    if facts.codes is not None:
        in_file = index.ids
        gone = in_file[~alive[in_file]]
        if len(gone):
            index.remove(gone)
        if len(index) != np.count_nonzero(alive[:n_in_file]):
            raise ValueError(f"{folder.path / facts.codes['file']} lacks codes of rows that are there")
    fresh_rows, codes, corrections = _fresh_codes(catalog, facts.first_row + n_in_file, hasher, inside)
    fresh = fresh_rows - facts.first_row
    here = (fresh < len(alive)) & alive[np.minimum(fresh, len(alive) - 1)] if len(fresh) else np.empty(0, bool)
    if np.count_nonzero(here) != np.count_nonzero(alive[n_in_file:]):
        raise ValueError(f"{catalog.path} lacks codes of rows that are there; it was edited or damaged")
    return _with_codes(index, fresh[here], codes[here], None if corrections is None else corrections[here], hasher)


def _fresh_codes(
    catalog: Catalog, first_row: int, hasher: MetricHasher, inside: bool
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8] | None]:
    n_bytes = -(-hasher.n_bits // 8)
    rows, codes = catalog.load_codes(first_row, n_bytes + hasher.has_weights, inside=inside)
    return rows, codes[:, :n_bytes], codes[:, n_bytes] if hasher.has_weights else None


def _with_codes(
    index: Index,
    places: NDArray[np.int64],
    codes: NDArray[np.uint8],
    corrections: NDArray[np.uint8] | None,
    hasher: MetricHasher,
) -> Index:
    if not len(places):
        return index
    if isinstance(index, AsymmetricIndex):
        affine = hasher.affine
        own = None if affine is None or corrections is None else Corrections(corrections.copy(), *affine)
        return index.add(np.ascontiguousarray(codes), places, own)
    return index.add(np.ascontiguousarray(codes), places)


def _extended(folder: SearchFolder, catalog: Catalog, before: Loaded, facts: Facts, inside: bool) -> Loaded:
    """What a few changes of others make of a snapshot."""
    snapshot, known = before.snapshot, before.facts
    rows = catalog.load_rows(known.next_row, facts.next_row, facts.id_type, inside=inside)
    n_before, n = snapshot.n_places, facts.n_places
    new = rows.rows - facts.first_row
    buried = catalog.buried_since(snapshot.change, inside=inside) - facts.first_row
    buried = buried[buried < n_before]
    if len(buried) and not unpacked_mask(snapshot.alive, n_before)[buried].all():
        raise _ReadAll
    snapshot = snapshot.without(np.unique(buried))
    index = snapshot.index.copy()
    if len(new):
        fresh_rows, codes, corrections = _fresh_codes(catalog, known.next_row, snapshot.hasher, inside)
        here = np.isin(fresh_rows, rows.rows)
        if np.count_nonzero(here) != len(new):
            raise _ReadAll
        corrections = None if corrections is None else corrections[here]
        index = _with_codes(index, fresh_rows[here] - facts.first_row, codes[here], corrections, snapshot.hasher)
    sums = np.zeros(n - n_before, np.uint32)
    sums[new - n_before] = rows.payload_sums
    alive = np.zeros(n, bool)
    alive[:n_before] = unpacked_mask(snapshot.alive, n_before)
    alive[new] = True
    ids = snapshot.ids
    if n > n_before:
        added = IdColumn.with_gaps(rows.ids, new - n_before, n - n_before)
        ids = added if ids is None else ids.more(added.ids, added.digests)
    vectors = before.vectors
    if facts.vectors != known.vectors:
        vectors = folder.open_vectors(facts)
    changed = replace(
        snapshot,
        index=index,
        ids=ids,
        payload_sums=snapshot.payload_sums.more(sums),
        alive=packed_mask(alive),
        n_rows=facts.n_rows,
        change=facts.change,
        vectors=None if vectors is None or not n else vectors.first(n),
        tuning=None if facts.tuning is None else Tuning.from_dict(facts.tuning),
    )
    if np.count_nonzero(alive) != facts.n_rows:
        raise _ReadAll
    return Loaded(changed, facts, vectors)
