"""The rows of a search: in memory, or in a folder that every change is written to."""

import copy
import os
import secrets
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.durable.files import sync
from hashlearn.index.code_table import ids_from, with_bits
from hashlearn.rows import RowBlocks, as_rows
from hashlearn.search.catalog import Catalog, Facts, OutdatedError, payload_sums
from hashlearn.search.columns import Columns
from hashlearn.search.folder import SearchFolder, load, load_changes
from hashlearn.search.ids import Growing, IdColumn, Ids, given_new_ids
from hashlearn.search.lists import LEAST_ROWS, SearchLists
from hashlearn.search.metric_hasher import Encoded, MetricHasher
from hashlearn.search.snapshot import Snapshot
from hashlearn.search.tune import Tuning
from hashlearn.search.vector_records import Calibration, VectorView
from hashlearn.search.vectors import VectorFile
from hashlearn.stores.arguments import NO_PAYLOAD, payload_texts

_LEAST_FRESH = 8192
_FRESH_SHARE = 8
"""A code file is written when there are more fresh rows than 8192, and than an eighth of the rows in the code file."""
_LEAST_BURIED = 20_000
"""A search is compacted when there are more removed rows than this, and than rows that are left."""
_FEW_VECTORS = 64
"""Vectors of one call up to which they are written to the catalog too."""


class NewRows(NamedTuple):
    """Rows to be put: ids, or None for running numbers; what is kept of their vectors; payloads as JSON texts."""

    X: Any
    ids: Any
    encoded: Encoded
    payloads: list[str]

    def __len__(self) -> int:
        return len(self.encoded.codes)


@dataclass
class Pending:
    """A change that is under way: what the rows will be once it is committed.

    ``vectors`` is the file that vectors are written to, once one was made or opened.
    """

    snapshot: Snapshot
    vectors: VectorFile | None
    must_flush: bool = False

    @property
    def facts(self) -> Facts:
        return self.snapshot.facts

    def set_facts(self, **facts: Any) -> None:
        self.snapshot = replace(self.snapshot, facts=self.facts._replace(**facts))


class CatalogRows:
    """Rows with a snapshot in memory, payloads in the catalog and vectors in a file.

    Any number of threads may read. The caller makes sure that only one thread at a time changes the rows.

    Parameters
    ----------
    hasher : MetricHasher
    keep : {"float32", "float16", "int8"} or None
        How vectors are kept, if they are.
    index : {"auto", "flat", "lists"}
        When the rows have lists.

    Attributes
    ----------
    reader : Snapshot
        The rows as they are now. All that a reader needs hangs on this one reference, which a change replaces at its
        end.
    """

    reader: Snapshot
    _vectors: VectorFile | None = None

    def __init__(self, hasher: MetricHasher, keep: str | None, index: str = "auto"):
        self._keep = keep
        self._calibration: Calibration | None = None
        self._folder: SearchFolder | None = None
        self._catalog = Catalog.in_memory()
        self._process = os.getpid()
        self._pending: Pending | None = None
        facts = Facts(hasher.metric, hasher.query, hasher.lengths, keep, index)
        self._show(Snapshot.empty(hasher, self._catalog, facts))

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """The rows that are in a folder."""
        place = SearchFolder(folder)
        catalog = place.open_catalog()
        try:
            snapshot = load(place, catalog)
        except BaseException:
            catalog.close()
            raise
        rows = cls.__new__(cls)
        rows._keep, rows._process, rows._pending = snapshot.facts.keep_vectors, os.getpid(), None
        rows._folder, rows._catalog, rows._calibration = place, catalog, None
        rows._show(snapshot)
        return rows

    def _show(self, now: Snapshot, **others: Any) -> None:
        """Let readers see these rows from now on, in one step: an interrupt may come between two."""
        vars(self).update(reader=now, **others)

    @property
    def clipped_share(self) -> float | None:
        """The share of int8 values that were beyond the range of the fit; None where vectors are not int8."""
        snapshot = self.reader
        if self._keep != "int8" or not snapshot.n_places:
            return None
        return min(1.0, snapshot.facts.n_clipped / (snapshot.n_places * snapshot.hasher.n_features))

    @property
    def folder(self) -> Path | None:
        return None if self._folder is None else self._folder.path

    @property
    def place(self) -> Any:
        """The store that the rows live in, as the user has named it; None if they do not."""
        return None

    @property
    def keep_vectors(self) -> str | None:
        return self._keep

    @property
    def text_field(self) -> str | None:
        """The payload field that is searched by words."""
        pending = self._open_change
        return (self.reader if pending is None else pending.snapshot).facts.text_field

    # -- changes ----------------------------------------------------------------------------------------------------

    def put(self, X: Any, ids: Any, payloads: Any, *, only_new: bool) -> None:
        """Add rows, in the place of those that have the same ids unless all must be new."""
        while True:
            pending = self._open_change
            hasher = self.reader.hasher if pending is None else pending.snapshot.hasher
            encoded = hasher.encode(X)
            new = NewRows(X, ids, encoded, kept_payloads(payloads, len(encoded.codes)))
            with self.changing() as pending:
                if pending.snapshot.hasher is hasher:  # otherwise another process has fitted the search anew
                    self.put_encoded(pending, new, only_new)
                    return

    def remove(self, ids: Any) -> None:
        with self.changing() as pending:
            self._bury(pending, np.unique(pending.snapshot.find_all(ids)))

    def keep_words(self, field: str | None) -> None:
        """Keep the words of a payload field from now on, and those of the rows that are there."""
        if field == self.text_field:
            return
        with self.changing() as pending:
            first = pending.snapshot.first_row
            self._catalog.keep_words(field, first)
            pending.snapshot = replace(pending.snapshot, columns=Columns(self._catalog, first))
            pending.set_facts(text_field=field)

    def keep_tuning(self, tuning: Tuning) -> None:
        with self.changing() as pending:
            pending.set_facts(tuning=tuning.to_dict())

    def tune_lists(self, queries: Any) -> None:
        """Measure with these queries what a recall needs in the lists."""
        snapshot = self.reader
        if snapshot.lists is None:
            return
        asked = as_rows(queries)
        lists = snapshot.lists.tuned(
            snapshot.covered(), snapshot.is_alive, asked.take(np.arange(len(asked))), snapshot.vectors_at
        )
        self._put_lists_of(snapshot, lists)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes inside of the block at its end, or none."""
        if self._open_change is not None:
            raise RuntimeError("a transaction is open already in this thread")
        with self.changing():
            yield

    @contextmanager
    def changing(self) -> Iterator[Pending]:
        """A change, or a step of the change that is open. If the block raises, the change or the step is not made."""
        if self._open_change is not None:
            yield from self._step(self._open_change)
            return
        try:
            self._catalog.begin()
            self._catch_up()
            before = self.reader
            pending = self._pending = Pending(before, self._vectors)
            yield pending
            if pending.snapshot is before:
                self._catalog.roll_back()
                return
            if pending.must_flush:
                self._flush(pending)
            self._commit(pending)
        except BaseException:
            self._catalog.roll_back()
            _settle(self._folder, self._catalog)
            raise
        finally:
            self._pending = None
        self._tidy(before.facts)

    @property
    def _open_change(self) -> Pending | None:
        """The change that this thread makes. An interrupt may leave one behind that the catalog has rolled back."""
        return self._pending if self._catalog.is_own_change else None

    def refuse_inside_transaction(self, name: str) -> None:
        """Raise where a transaction is open, of something that must not be called there."""
        if self._open_change is not None:
            raise RuntimeError(f"{name} must not be called inside of a transaction")

    def _step(self, pending: Pending) -> Iterator[Pending]:
        before = copy.copy(pending)
        self._catalog.savepoint()
        try:
            yield pending
        except BaseException:
            self._catalog.back()
            vars(pending).update(vars(before))
            raise

    def _commit(self, pending: Pending) -> None:
        pending.set_facts(change=pending.facts.change + 1)
        facts = pending.facts
        self._catalog.commit(None if self._folder is None else facts)
        self._show(pending.snapshot, _vectors=pending.vectors)
        if self._folder is not None:
            with suppress(OSError):  # the change is made; a number that lags behind does no harm
                self._folder.acknowledge(facts)
            self._folder.settle(facts)

    def _tidy(self, before: Facts) -> None:
        """Remove files that are of no use any more, and compact where most rows are removed ones.

        The change is made: where this fails, such as on a full disk, it is left to a later change.
        """
        facts = self.reader.facts
        with suppress(OSError):
            if self._folder is not None and facts.files != before.files:
                _collect(self._folder, self._catalog)
            if facts.n_places - facts.n_rows > max(_LEAST_BURIED, facts.n_rows):
                self.compact()
            else:
                self._keep_lists()

    def _keep_lists(self) -> None:
        """Make lists where there are enough rows for them, and put new rows into the lists that there are."""
        snapshot = self.reader
        facts = snapshot.facts
        if facts.n_rows < LEAST_ROWS.get(facts.index_kind, np.inf) or not isinstance(snapshot.vectors, VectorView):
            return
        if snapshot.lists is not None:
            snapshot.covered()
            if not snapshot.lists.wants_to_be_made_anew(facts.n_rows):
                return
        if facts.n_rows < self._no_lists_below:
            return
        own = snapshot.hasher
        try:
            lists = SearchLists.made(snapshot.places, snapshot.n_places, own.n_bits, own.metric, snapshot.vectors_at)
        except (MemoryError, ValueError) as error:  # the change is made: that lists are missing must not undo it
            self._no_lists_below = 2 * facts.n_rows
            warnings.warn(f"no lists could be made, so that searches look at all codes: {error}", stacklevel=2)
            return
        self._put_lists_of(snapshot, lists)

    _no_lists_below = 0
    """Rows that there must be before lists are tried again, where they could not be made."""

    def _put_lists_of(self, snapshot: Snapshot, lists: SearchLists) -> None:
        """Use lists that were made of a snapshot, unless others have fitted or compacted the search meanwhile."""
        with self.changing() as pending:
            if pending.snapshot.hasher is snapshot.hasher and pending.facts.first_row == snapshot.first_row:
                self._put_lists(pending, lists)

    def _put_lists(self, pending: Pending, lists: SearchLists) -> None:
        """Use lists, which are of their own, with the rows of a change; a folder gets them as a file."""
        pending.snapshot = replace(pending.snapshot, lists=lists)
        if self._folder is not None:
            pending.set_facts(lists=self._folder.save_lists(pending.snapshot.covered(), lists))
            opened = self._folder.open_lists(pending.facts, pending.snapshot.is_alive)
            pending.snapshot = replace(pending.snapshot, lists=opened)

    def put_encoded(self, pending: Pending, new: NewRows, only_new: bool) -> None:
        """As :meth:`put`, of rows that are encoded, in a change that is under way."""
        n = len(new)
        ids = Ids.of(new_ids(pending, new.ids, n))
        if not n:
            return
        if pending.facts.id_type not in (None, ids.id_type):
            self._forget_places(pending)  # no row is there: ids of another kind may come
        snapshot, facts = pending.snapshot, pending.facts
        known = np.full(n, -1, np.int64) if snapshot.id_column is None else snapshot.id_column.find(ids, snapshot.alive)
        if only_new and new.ids is not None and (known >= 0).any():
            (first,) = ids.at(np.flatnonzero(known >= 0)[:1]).tolist()
            raise ValueError(f"ids must be new, got {first!r:.60}, which is already in the search")
        first, places = facts.next_row, np.arange(facts.n_places, facts.n_places + n)
        sums = payload_sums(new.payloads)
        rows = first + np.arange(n)
        vectors, records = self._write_vectors(pending, new.X, int(places[0]))
        if (known >= 0).any():
            self._bury(pending, known[known >= 0])
        snapshot, facts = pending.snapshot, pending.facts
        self._catalog.put_payloads(pair for pair in zip(rows.tolist(), new.payloads) if pair[1])
        total = self._write_rows(pending, rows, ids, sums, new.encoded, records)
        largest = int(ids.numbers.max()) + 1 if ids.numbers is not None else 0
        pending.snapshot = replace(
            snapshot,
            index=new.encoded.added_to(snapshot.index.copy(), places),
            id_column=IdColumn.of(ids) if snapshot.id_column is None else snapshot.id_column.appended(ids),
            payload_sums=snapshot.payload_sums.appended(sums),
            alive=with_bits(snapshot.alive, facts.n_places, facts.n_places + n),
            vectors=vectors,
            facts=facts._replace(
                next_row=first + n,
                next_id=max(facts.next_id, largest),
                n_rows=facts.n_rows + n,
                sum=facts.sum + total,
                id_type=ids.id_type,
                vectors=_vector_facts(pending.vectors),
            ),
        )

    def _write_rows(
        self,
        pending: Pending,
        rows: NDArray[np.int64],
        ids: Ids,
        sums: NDArray[np.uint32],
        encoded: Encoded,
        records: Iterable[bytes | None],
    ) -> int:
        """Write what a folder must have of new rows; returns the total of their sums."""
        if self._folder is None:
            return 0
        total = self._catalog.put_rows(rows, ids, sums)
        facts = pending.facts
        n_in_file = 0 if facts.codes is None else facts.codes["places"]
        n_fresh = facts.n_places + len(rows) - n_in_file
        if pending.must_flush or n_fresh > max(_LEAST_FRESH, n_in_file // _FRESH_SHARE):
            pending.must_flush = True
        else:
            self._catalog.put_codes(rows, encoded.packed, records)
        return total

    def _write_vectors(self, pending: Pending, X: Any, first: int) -> tuple[Any, Iterable[bytes | None]]:
        """The kept vectors with those of new rows, and records of the new ones for the catalog.

        A few vectors are written to the catalog too, so that a change waits for the disk once and not twice. Of many
        the records are None: they are on the disk when this returns.
        """
        if self._keep is None:
            return None, repeat(None)
        rows = as_rows(X)
        file = self.have_vectors(pending, rows)
        assert file is not None
        if file.path is None and self._process != os.getpid():  # a nameless file is of the process that was forked
            file = VectorFile.copied(None, np.arange(first), file.first(first))
            self._process = os.getpid()
        if rows.shape[1] != file.n_features:
            raise ValueError(f"X must have {file.n_features} features, got {rows.shape[1]}")
        clipped = file.n_clipped
        records: Iterable[bytes | None] = repeat(None)
        if file.path is not None and len(rows) <= _FEW_VECTORS:
            records = map(bytes, file.write_few(rows, first))
        else:
            file.write(rows, first)
        pending.vectors = file
        if file.n_clipped > clipped:
            pending.set_facts(n_clipped=pending.facts.n_clipped + file.n_clipped - clipped)
        return file.first(first + len(rows)), records

    def have_vectors(self, pending: Pending, rows: RowBlocks) -> VectorFile | None:
        """Have the file of kept vectors before the first rows are in it, to compare these as they are kept."""
        file = None if self._keep is None else self._vector_file(pending)
        if file is None and self._keep is not None:
            calibration = self._calibration
            if self._keep == "int8" and calibration is None:
                calibration = Calibration.of(rows)
            path = None if self._folder is None else self._folder.new_vectors_path()
            file = pending.vectors = VectorFile.new(path, rows.shape[1], self._keep, calibration)
            pending.snapshot = replace(pending.snapshot, vectors=file.first(0))
            pending.set_facts(vectors=_vector_facts(file))
        return file

    def _bury(self, pending: Pending, places: NDArray[np.int64]) -> None:
        """Remove the rows at distinct places."""
        if not len(places):
            return
        facts, total = pending.facts, 0
        if self._folder is not None:
            total = self._catalog.bury(facts.first_row + places, facts.change + 1)
        pending.snapshot = pending.snapshot.without(places, sum=facts.sum - total)

    def _forget_places(self, pending: Pending) -> None:
        """Begin with place 0 again; there are no rows."""
        first = pending.facts.next_row
        self._catalog.clear(first)
        facts = pending.facts._replace(
            first_row=first, n_rows=0, sum=0, codes=None, vectors=None, lists=None, id_type=None
        )
        pending.vectors, pending.must_flush = None, False
        pending.snapshot = Snapshot.empty(pending.snapshot.hasher, self._catalog, facts)

    def _flush(self, pending: Pending) -> None:
        """Write all codes to a new code file, and forget those in the catalog."""
        assert self._folder is not None
        snapshot = pending.snapshot
        codes = self._folder.save_codes(snapshot.index, snapshot.n_places)
        file = self._vector_file(pending)
        if file is not None:
            file.sync()
        self._catalog.drop_codes()
        facts = snapshot.facts._replace(codes=codes)
        pending.snapshot = replace(snapshot, index=self._folder.open_codes(facts, snapshot.hasher), facts=facts)
        if snapshot.lists is not None:
            self._put_lists(pending, snapshot.lists.apart())
        pending.must_flush = False

    def compact(self) -> None:
        """Drop what is left of removed rows, and write code file and vectors anew."""
        self.refuse_inside_transaction("compact")
        with self.changing() as pending:
            snapshot, facts = pending.snapshot, pending.facts
            places, first = snapshot.places, facts.next_row
            n = len(places)
            ids = None if snapshot.id_column is None or not n else IdColumn.of(snapshot.id_column.ids.take(places))
            sums = snapshot.payload_sums.values[places]
            index = snapshot.hasher.empty_index()
            if isinstance(snapshot.vectors, VectorView):
                path = None if self._folder is None else self._folder.new_vectors_path()
                pending.vectors = VectorFile.copied(path, places, snapshot.vectors)
            self._catalog.renumber(snapshot.first_row + places, first)
            total = 0
            if self._folder is not None and ids is not None:
                total = self._catalog.put_rows(first + np.arange(n), ids.ids, sums)
            pending.snapshot = replace(
                snapshot,
                index=snapshot.encoded.added_to(index, np.arange(n)) if n else index,
                id_column=ids,
                payload_sums=Growing(sums),
                alive=with_bits(np.empty(0, np.uint64), 0, n),
                columns=snapshot.columns.taken(self._catalog, first, places),
                vectors=self._vectors_of(pending, n, ids),
                lists=None,
                facts=facts._replace(
                    first_row=first,
                    next_row=first + n,
                    n_rows=n,
                    sum=total,
                    codes=None,
                    vectors=facts.vectors if snapshot.vectors is None else _vector_facts(pending.vectors),
                    lists=None,
                ),
            )
            pending.must_flush = self._folder is not None and n > 0

    def _vectors_of(self, pending: Pending, n: int, ids: IdColumn | None) -> Any:
        """The kept vectors of rows that were numbered anew."""
        return None if pending.vectors is None or pending.snapshot.vectors is None else pending.vectors.first(n)

    def _vector_file(self, pending: Pending) -> VectorFile | None:
        """The file that vectors of the rows are written to; None where there is none yet."""
        said, file = pending.facts.vectors, pending.vectors
        if self._folder is not None and (file is None or said is None or file.layout.id != said["id"]):
            file = pending.vectors = None if said is None else self._folder.open_vector_file(pending.facts)
        return file

    # -- the folder -------------------------------------------------------------------------------------------------

    def refitted(self, hasher: MetricHasher, X: Any) -> None:
        """Use another hasher, which was fitted to the rows X; the rows of the hasher before are dropped."""
        self.refuse_inside_transaction("fit")
        calibration = Calibration.of(X) if self._keep == "int8" else None
        if self._folder is None:
            fresh = type(self)(hasher, self._keep, self.reader.facts.index_kind)
            fresh.keep_words(self.text_field)
            fresh._calibration = calibration
            vars(self).update(vars(fresh))
            return
        with self.changing() as pending:
            self._forget_places(pending)
            self.use_hasher(pending, hasher)
            if calibration is not None:  # kept with the vectors, of which there are none yet
                file = VectorFile.new(self._folder.new_vectors_path(), hasher.n_features, "int8", calibration)
                pending.vectors = file
            facts = pending.facts._replace(next_id=0, n_clipped=0, vectors=_vector_facts(pending.vectors))
            pending.snapshot = Snapshot.empty(hasher, self._catalog, facts)

    def use_hasher(self, pending: Pending, hasher: MetricHasher) -> None:
        """Have a change use another hasher; what was tuned for the one before counts no longer."""
        name, digest = ("", "") if self._folder is None else self._folder.save_hasher(hasher.hasher)
        facts = pending.facts._replace(
            hasher=name,
            model=digest,
            metric=hasher.metric,
            query=hasher.query,
            lengths=hasher.lengths,
            tuning=None,
        )
        pending.snapshot = replace(pending.snapshot, hasher=hasher, facts=facts)

    def save(self, folder: str | Path | None) -> None:
        """Write a copy of all rows to a folder; rows that have none belong to it from then on."""
        if folder is None and self._folder is None:
            raise ValueError("folder must be given: this search was neither opened from a folder nor saved to one")
        target = SearchFolder(folder) if folder is not None else self._folder
        assert target is not None
        if self._folder is not None and target.path == self._folder.path and target.is_search:
            if not self._catalog.read_only:
                with suppress(TimeoutError):
                    _collect(target, self._catalog)
            return
        self.refuse_inside_transaction("save")
        target.prepare()
        try:
            catalog = Catalog(target.catalog_path)
        except BaseException:
            target.give_back(None)
            raise
        try:
            catalog.make_tables()
            loaded = self._copied_to(target, catalog)
            sync(target.path)
            with suppress(OSError):
                _collect(target, catalog)
        except BaseException:
            _settle(target, catalog)
            target.give_back(catalog)
            catalog.close()
            raise
        if self._folder is not None and self._folder.path != target.path:
            catalog.close()
            return
        self._show(loaded, _folder=target, _catalog=catalog, _vectors=None)

    def _copied_to(self, target: SearchFolder, catalog: Catalog) -> Snapshot:
        """Put all rows into another folder; returns them as they are there."""
        while True:
            try:
                return self._copy_to(target, catalog, self.reader)
            except OutdatedError:  # another process has compacted the rows
                if not self._catch_up():
                    raise

    def _copy_to(self, target: SearchFolder, catalog: Catalog, snapshot: Snapshot) -> Snapshot:
        """As :meth:`_copied_to`, in one change of the other catalog."""
        facts, places = snapshot.facts, snapshot.places
        sums = np.zeros(snapshot.n_places, np.uint32)  # payloads of removed rows are not copied
        sums[places] = snapshot.payload_sums.values[places]
        try:
            catalog.begin()
            known = catalog.known_facts()
            hasher, model = target.save_hasher(snapshot.hasher.hasher)
            codes = target.save_codes(snapshot.index, facts.n_places) if facts.n_rows else None
            vectors = None
            view = snapshot.vectors
            if view is None and self._folder is not None and facts.vectors is not None:
                view = self._folder.open_vector_file(facts).first(0)  # it says what bytes of rows to come mean
            if view is not None:
                vectors = VectorFile.copied(target.new_vectors_path(), np.arange(facts.n_places), view)
            catalog.clear(snapshot.first_row)
            catalog.keep_words(facts.text_field, snapshot.first_row)
            total = 0
            if snapshot.id_column is not None:
                total = catalog.put_rows(snapshot.first_row + places, snapshot.id_column.ids.take(places), sums[places])
            self._copy_payloads(snapshot.first_row, sums, catalog)
            facts = facts._replace(
                search=secrets.token_hex(8) if known is None else known.search,
                change=1 if known is None else known.change + 1,
                hasher=hasher,
                model=model,
                sum=total,
                codes=codes,
                vectors=_vector_facts(vectors),
                lists=None,
            )
            if snapshot.lists is not None:
                said = target.save_lists(snapshot.covered(), snapshot.lists)
                facts = facts._replace(lists=said)
            if known is None:
                target.acknowledge(facts._replace(change=0))
            catalog.commit(facts)
            catalog.refuse_if_gone()
        except BaseException:
            catalog.roll_back()
            raise
        with suppress(OSError):
            target.acknowledge(facts)
        target.settle(facts)
        return replace(
            snapshot,
            facts=facts,
            payload_sums=Growing(sums),
            columns=Columns(catalog, snapshot.first_row),
            vectors=None if vectors is None or not snapshot.n_places else vectors.first(snapshot.n_places),
        )

    def _copy_payloads(self, first: int, sums: NDArray[np.uint32], target: Catalog) -> None:
        """Write the payloads of the rows from ``first`` on whose sums are not 0."""
        n_copied = 0
        for rows, texts in self._catalog.payload_blocks(first, first + len(sums)):
            self._catalog.check_texts(texts, sums[rows - first])
            wanted = np.flatnonzero(sums[rows - first])
            target.put_payloads(zip(rows[wanted].tolist(), texts.all()[wanted]))
            n_copied += len(wanted)
        self._catalog.check_count(n_copied, int(np.count_nonzero(sums)))

    def refresh(self) -> bool:
        """Take over what other processes have changed; returns whether there was something."""
        if self._folder is None:
            raise ValueError("refresh needs a folder: this search was neither opened from one nor saved to one")
        return self._catch_up()

    def _catch_up(self) -> bool:
        if self._folder is None:
            return False
        changed = load_changes(self._folder, self._catalog, self.reader)
        if changed is None:
            return False
        self._show(changed)
        return True

    def pickled_parts(self) -> Any:
        """A function and its arguments that make these rows in another process."""
        if self._folder is not None:
            return type(self).open, (self._folder.path,)
        snapshot = self.reader
        if snapshot.vectors is not None:
            raise TypeError("cannot copy or pickle vectors that are not saved; save the search to a folder first")
        places, sums = snapshot.places, snapshot.payload_sums.values[snapshot.places]
        payloads = self._catalog.payloads((snapshot.first_row + places).tolist(), sums.tolist())
        new = NewRows(None, snapshot.ids_at(places), snapshot.encoded, payloads)
        return _restored, (type(self), snapshot.hasher, self._keep, snapshot.facts, new)

    def close(self) -> None:
        """Close files and connections."""
        self._catalog.close()
        if self._vectors is not None:
            self._vectors.close()


def kept_payloads(payloads: Any, n: int) -> list[str]:
    """The payloads of n rows as JSON texts, "" for a row without one."""
    return ["" if text == NO_PAYLOAD else text for text in payload_texts(payloads, n)]


def new_ids(pending: Pending, ids: Any, n: int) -> NDArray[Any]:
    """The ids of n new rows: those that are given, or running numbers."""
    known = pending.facts.id_type if pending.facts.n_rows else None
    if ids is not None:
        return given_new_ids(ids, known, n)
    if known == "str":
        raise ValueError("ids must be given: those of this search are strings")
    return ids_from(pending.facts.next_id, n)


def _settle(folder: SearchFolder | None, catalog: Catalog) -> None:
    """Remove what a change has written that was given up; if that fails, a later change does it."""
    with suppress(OSError, ValueError):
        if folder is not None:
            folder.settle(catalog.known_facts())


def _collect(folder: SearchFolder, catalog: Catalog) -> None:
    """Remove files that the facts do not name; inside of a change, because others write theirs before they do."""
    try:
        catalog.begin()
        folder.collect(catalog.facts())
    finally:
        catalog.roll_back()


def _vector_facts(file: VectorFile | None) -> dict[str, Any] | None:
    """What the facts say about a vector file."""
    return None if file is None or file.path is None else {"file": file.path.name, "id": file.layout.id}


def _restored(kind: Any, hasher: MetricHasher, keep: str | None, facts: Facts, new: NewRows) -> CatalogRows:
    """The rows that were pickled or copied as these parts."""
    rows = kind(hasher, keep, facts.index_kind)
    rows.keep_words(facts.text_field)
    with rows.changing() as pending:
        rows.put_encoded(pending, new, True)
        pending.set_facts(next_id=facts.next_id, tuning=facts.tuning)
    return rows
