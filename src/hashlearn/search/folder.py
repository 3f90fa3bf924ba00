"""A saved search as a folder.

=====================  ===============================================================================================
file                   content
=====================  ===============================================================================================
``catalog.db``         SQLite: ids, payloads, facts (:mod:`hashlearn.search.catalog`); beside it, while it is open,
                       ``catalog.db-wal`` and ``catalog.db-shm``
``acknowledged``       the number of the last change whose call has returned
``hasher-*``           a model folder
``codes-*.hli``        the codes of the rows that are not fresh; never changed
``vectors-*.hlv``      the kept vectors; only appended to
``lists-*.hll``        codes in lists, once there are many rows; never changed
=====================  ===============================================================================================

The names end in 16 random hexadecimal digits. The facts name the files that count. A file is written before the change
that names it is committed, and removed after a change that names another one.
"""

import errno
import os
import re
import secrets
import shutil
import struct
import tempfile
import zlib
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.durable.files import naming, sync, writing_new
from hashlearn.hashers.saving import load_with_digest, save_new_hasher
from hashlearn.index import AsymmetricIndex, HammingIndex
from hashlearn.index.code_table import packed_mask, unpacked_mask
from hashlearn.index.file import write_table
from hashlearn.index.partitioned import PartitionedIndex
from hashlearn.search.catalog import Catalog, Facts
from hashlearn.search.columns import Columns
from hashlearn.search.ids import Growing, IdColumn
from hashlearn.search.lists import Covered, SearchLists
from hashlearn.search.metric_hasher import Index, Lengths, MetricHasher
from hashlearn.search.snapshot import Snapshot
from hashlearn.search.vector_records import VectorView
from hashlearn.search.vectors import VectorFile

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_CRC = struct.Struct("<I")
_ACKNOWLEDGED = struct.Struct("<Q16s")
Vectors = TypeVar("Vectors", VectorView, VectorFile)

CATALOG = "catalog.db"
ACKNOWLEDGED = "acknowledged"
OLD_MANIFEST = "search.json"
"""The file that folders of earlier layouts have."""

_OWN = re.compile(
    r"(hasher-[0-9a-f]{16}|(codes-[0-9a-f]{16}\.hli|vectors-[0-9a-f]{16}\.hlv|lists-[0-9a-f]{16}\.hll))\Z"
)
_LEFT = re.compile(r"\.(codes|vectors|lists)-.*\.hashlearn-tmp\Z")
_BESIDE = re.compile(r"catalog\.db(-wal|-shm|-journal)?\Z|acknowledged\Z|\..*\.hashlearn-(tmp|lock)\Z")


class SearchFolder:
    """The files of a saved search."""

    def __init__(self, path: str | Path):
        self.path = Path(os.path.realpath(path))
        self.catalog_path = self.path / CATALOG
        self._acknowledged = self.path / ACKNOWLEDGED
        self._is_made = self._is_new = False
        self._written: list[str] = []
        """Files that were written and that no change may name yet."""

    @property
    def is_search(self) -> bool:
        return self.catalog_path.is_file()

    def check_there(self) -> None:
        """Raise one line where no search is saved in the folder."""
        if self.is_search:
            return
        if not self.path.is_dir():
            raise FileNotFoundError(f"there is no folder {self.path}")
        if (self.path / OLD_MANIFEST).is_file():
            raise ValueError(
                f"{self.path} was saved by an earlier hashlearn (it has {OLD_MANIFEST}); this one cannot read it: "
                "add the vectors to a new search"
            )
        raise FileNotFoundError(f"{self.path} is no saved similarity search: it has no {CATALOG}")

    def prepare(self) -> None:
        """Make the folder, or raise where it holds other things than a search."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"folder must be a folder, got the file {self.path}")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"folder must lie in an existing folder, got {self.path}: no {self.path.parent}")
        _check_locks(self.path if self.path.exists() else self.path.parent)
        self._is_made, self._is_new = not self.path.exists(), not self.is_search
        self.path.mkdir(exist_ok=True)
        foreign = [name for name in os.listdir(self.path) if not _OWN.match(name) and not _BESIDE.match(name)]
        if foreign and not self.is_search:
            raise ValueError(
                f"folder must be new, empty or a saved similarity search, got {self.path} with {foreign[0]!r:.60}"
            )

    # -- the last change --------------------------------------------------------------------------------------------

    def acknowledge(self, facts: Facts) -> None:
        """Write the number of the last change to a file of its own, without waiting for the disk.

        The file has 28 bytes: the number (8), the random name of the search (16), and the CRC-32 of both (4).
        """
        content = _ACKNOWLEDGED.pack(facts.change, facts.search.encode())
        with naming(self._acknowledged):
            descriptor = os.open(self._acknowledged, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
            try:
                os.write(descriptor, content + _CRC.pack(zlib.crc32(content)))
            finally:
                os.close(descriptor)

    def _last_acknowledged(self) -> tuple[int, str]:
        """The number of the last change whose call has returned, and the random name of the search."""
        path = self._acknowledged
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise ValueError(f"{path} is missing: the folder was not copied whole") from None
        if len(content) != _ACKNOWLEDGED.size + 4 or zlib.crc32(content[:-4]) != _CRC.unpack(content[-4:])[0]:
            raise ValueError(f"{path} does not match its checksum; it was edited or damaged")
        change, search = _ACKNOWLEDGED.unpack(content[:-4])
        return change, search.decode("ascii", "replace")

    # -- hasher -----------------------------------------------------------------------------------------------------

    def save_hasher(self, hasher: Any) -> tuple[str, str]:
        """Write a hasher; returns the name of its folder and its digest."""
        name = self._new("hasher-{}")
        digest = save_new_hasher(hasher, self.path / name)
        sync(self.path)
        return name, digest

    def load_hasher(self, facts: Facts) -> MetricHasher:
        place = self.path / facts.hasher
        hasher, digest = load_with_digest(place)
        if digest != facts.model:
            raise ValueError(f"{place} is another model than was saved there (the checksum does not fit)")
        lengths = None if facts.lengths is None else Lengths(*facts.lengths)
        return MetricHasher(hasher, facts.metric, facts.query, lengths)

    # -- codes ------------------------------------------------------------------------------------------------------

    def save_codes(self, index: HammingIndex | AsymmetricIndex, n_places: int) -> dict[str, Any]:
        """Write the codes of an index, whose ids are places; returns what the facts say of them."""
        path = self.path / self._new("codes-{}.hli")
        with writing_new(path) as file:
            fingerprint = write_table(index.view.table, file)
        return {"file": path.name, "fingerprint": fingerprint, "places": n_places}

    def open_codes(self, facts: Facts, hasher: MetricHasher) -> HammingIndex | AsymmetricIndex:
        assert facts.codes is not None
        path = self.path / facts.codes["file"]
        kind = HammingIndex if hasher.query == "code" else AsymmetricIndex
        index = kind.open(path)
        if index.view.table.fingerprint != facts.codes["fingerprint"]:
            raise ValueError(f"{path} has other codes than were saved there (the checksum does not fit)")
        return index

    # -- lists ------------------------------------------------------------------------------------------------------

    def save_lists(self, covered: Covered, lists: SearchLists) -> dict[str, Any]:
        """Write lists, whose rows are places; returns what the facts say of them."""
        path = self.path / self._new("lists-{}.hll")
        covered.lists.save(path)
        said = {"file": path.name, "fingerprint": PartitionedIndex.open(path).fingerprint, "places": covered.n_places}
        return {**said, "made_for": lists.n_made_for, "limit": lists.limit}

    def open_lists(self, facts: Facts, alive: NDArray[np.bool_]) -> SearchLists | None:
        """The lists that the facts name; ``alive`` says of each place whether its row is there."""
        if facts.lists is None:
            return None
        path = self.path / facts.lists["file"]
        index = PartitionedIndex.open(path)
        if index.fingerprint != facts.lists["fingerprint"] or not index.is_tuned:
            raise ValueError(f"{path} has other lists than were saved there (the checksum does not fit)")
        covered = Covered.opened(index, facts.lists["places"], alive)
        return SearchLists(covered, facts.lists["made_for"], facts.lists["limit"])

    # -- vectors ----------------------------------------------------------------------------------------------------

    def new_vectors_path(self) -> Path:
        return self.path / self._new("vectors-{}.hlv")

    def open_vectors(self, facts: Facts, before: VectorView | None = None) -> VectorView | None:
        """The kept vectors of all places; ``before`` are those of a state before."""
        if facts.vectors is None or not facts.n_places:
            return None
        if before is not None and before.layout.id == facts.vectors["id"]:
            longer = before.first(facts.n_places)
            if longer is not None:
                return longer
        path = self.path / facts.vectors["file"]
        return _of_search(VectorView.open(path, facts.n_places), facts, path)

    def open_vector_file(self, facts: Facts) -> VectorFile:
        """The file of the kept vectors, to be written to."""
        assert facts.vectors is not None
        path = self.path / facts.vectors["file"]
        return _of_search(VectorFile.open(path), facts, path)

    # -- all --------------------------------------------------------------------------------------------------------

    def _new(self, pattern: str) -> str:
        name = pattern.format(secrets.token_hex(8))
        self._written.append(name)
        return name

    def settle(self, facts: Facts | None) -> None:
        """Remove files that were written for a change, if the facts that are committed do not name them."""
        named = set() if facts is None else facts.files
        for name in self._written:
            if name not in named:
                self._remove(self.path / name)
        self._written = []

    def give_back(self, catalog: Catalog | None) -> None:
        """Remove what a save has left that failed, if nothing was ever saved here."""
        with suppress(OSError, ValueError):
            if self._is_given_back(catalog):
                self._acknowledged.unlink(missing_ok=True)
                if self._is_made:
                    self.path.rmdir()

    def _is_given_back(self, catalog: Catalog | None) -> bool:
        """Remove the catalog if nothing was ever saved in it; returns whether it was removed."""
        try:
            if catalog is not None:
                return catalog.remove_if_empty()
        except TimeoutError:  # another process saves here
            return False
        except OSError:  # such as on a full disk, where SQLite cannot begin a change
            pass
        # A search is acknowledged before its first change is committed.
        if not self._is_new or self._acknowledged.exists():
            return False
        for ending in ("-shm", "-wal", ""):
            self.catalog_path.with_name(CATALOG + ending).unlink(missing_ok=True)
        return True

    def collect(self, facts: Facts) -> None:
        """Remove files of searches that the facts do not name; what cannot be removed now is left."""
        named = facts.files
        with suppress(OSError):
            for name in os.listdir(self.path):
                if _LEFT.match(name) or (_OWN.match(name) and name not in named):
                    self._remove(self.path / name)

    def _remove(self, path: Path) -> None:
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def open_catalog(self) -> Catalog:
        """The catalog of a search that is there, once it is seen to have all changes that were acknowledged."""
        self.check_there()
        _check_locks(self.path)
        # By a connection that only reads: one that writes would merge a damaged log when it is closed, and remove it.
        with closing(Catalog(self.catalog_path, read_only=True)) as catalog:
            # read first: a change that another process makes meanwhile is in the catalog before it is acknowledged
            change, search = self._last_acknowledged()
            facts = catalog.facts()
        if search != facts.search:
            raise ValueError(
                f"{self.catalog_path} is of another search than {self._acknowledged}; the folder was mixed"
            )
        if facts.change < change:
            raise ValueError(
                f"{self.catalog_path} has {facts.change} changes, {change} were made: its log, {CATALOG}-wal, is "
                "damaged, missing, or cannot be merged here (open the folder once where it can be written)"
            )
        return Catalog.open(self.catalog_path)


def _check_locks(folder: Path) -> None:
    """Raise where the file system has no locks: SQLite would wait for another process that there is not."""
    if fcntl is None:
        return
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # others are of a folder that cannot be written, and is only read
        if error.errno in _NO_LOCKS:
            raise OSError(
                errno.ENOLCK, "the file system has no locks, which a search needs; nothing was changed", str(folder)
            ) from error


def _of_search(vectors: Vectors, facts: Facts, path: Path) -> Vectors:
    """Raise where vectors are those of another search than the facts are of."""
    if facts.vectors is None or vectors.layout.id != facts.vectors["id"]:
        raise ValueError(f"{path} is the vector file of another search")
    return vectors


def load(folder: SearchFolder, catalog: Catalog) -> Snapshot:
    """All rows of a folder, as they were committed last."""
    while True:
        facts = catalog.facts()
        try:
            with catalog.reading():
                facts = catalog.facts()
                return _load(folder, catalog, facts)
        except (FileNotFoundError, ValueError):  # another process may have just replaced the files
            if catalog.last_change() == facts.change:
                raise


def load_changes(folder: SearchFolder, catalog: Catalog, before: Snapshot) -> Snapshot | None:
    """What others have changed since; None if nothing."""
    if catalog.last_change() == before.facts.change:
        return None
    try:
        with catalog.reading():
            facts, known = catalog.facts(), before.facts
            same = (facts.search, facts.first_row, facts.hasher) == (known.search, known.first_row, known.hasher)
            if same and facts.change > known.change and facts.next_row >= known.next_row:
                return _extended(folder, catalog, before, facts)
    except (_ReadAll, FileNotFoundError):
        pass
    return load(folder, catalog)


class _ReadAll(Exception):
    """Another process has changed the folder in a way that all rows must be read again."""


def _load(folder: SearchFolder, catalog: Catalog, facts: Facts) -> Snapshot:
    if catalog.has_words != (facts.text_field is not None):
        raise ValueError(f"{catalog.path}: the tables of words are not those of the facts; it was edited or damaged")
    hasher = folder.load_hasher(facts)
    rows = catalog.load_rows(facts.first_row, facts.next_row, facts.id_type)
    if (len(rows.rows), rows.total) != (facts.n_rows, facts.sum):
        raise ValueError(
            f"{catalog.path}: {len(rows.rows)} rows, {facts.n_rows} were saved, or others; it was edited or damaged"
        )
    places = rows.rows - facts.first_row
    n = facts.n_places
    alive = np.zeros(n, bool)
    alive[places] = True
    sums = np.zeros(n, np.uint32)
    sums[places] = rows.payload_sums
    index = _index(folder, catalog, facts, hasher, alive)
    _restore_vectors(folder, catalog, facts)
    return Snapshot(
        hasher=hasher,
        index=index,
        id_column=IdColumn.with_gaps(rows.ids, places, n) if facts.id_type is not None and n else None,
        payload_sums=Growing(sums),
        alive=packed_mask(alive),
        facts=facts,
        columns=Columns(catalog, facts.first_row),
        vectors=folder.open_vectors(facts),
        lists=folder.open_lists(facts, alive),
    )


def _restore_vectors(folder: SearchFolder, catalog: Catalog, facts: Facts) -> None:
    """Write vectors of the catalog that have not reached the vector file, as after a failure of the power."""
    if catalog.read_only or facts.vectors is None:
        return
    loaded = catalog.load_vectors()
    if not loaded:
        return
    places = np.array([row for row, _ in loaded], np.int64) - facts.first_row
    if places.min() < 0 or places.max() >= facts.n_places:
        raise ValueError(f"{catalog.path}: a vector is of a row that never was; it was edited or damaged")
    try:
        view = folder.open_vectors(facts)
        if view is not None and view.is_whole(places):
            return
    except ValueError:  # too short for its vectors
        pass
    with closing(folder.open_vector_file(facts)) as file:
        if any(not isinstance(record, bytes) or len(record) != file.layout.record_bytes for _, record in loaded):
            raise ValueError(f"{catalog.path}: a vector was edited or damaged")
        file.write_again((row - facts.first_row, record) for row, record in loaded)


def _index(
    folder: SearchFolder, catalog: Catalog, facts: Facts, hasher: MetricHasher, alive: NDArray[np.bool_]
) -> Index:
    """The index of a folder: the codes of its code file, and the fresh ones."""
    index = hasher.empty_index() if facts.codes is None else folder.open_codes(facts, hasher)
    n_in_file = 0 if facts.codes is None else facts.codes["places"]
    if facts.codes is not None:
        in_file = index.ids
        gone = in_file[~alive[in_file]]
        if len(gone):
            index.remove(gone)
        if len(index) != np.count_nonzero(alive[:n_in_file]):
            raise ValueError(f"{folder.path / facts.codes['file']} lacks codes of rows that are there")
    rows = facts.first_row + n_in_file + np.flatnonzero(alive[n_in_file:])
    with_fresh = _with_codes(index, catalog, rows, facts.first_row, hasher)
    if with_fresh is None:
        raise ValueError(f"{catalog.path} lacks codes of rows that are there; it was edited or damaged")
    return with_fresh


def _with_codes(
    index: Index, catalog: Catalog, rows: NDArray[np.int64], first_row: int, hasher: MetricHasher
) -> Index | None:
    """The index with the codes of rows that are in no code file; None where the catalog lacks one of them."""
    if not len(rows):
        return index
    fresh, packed = catalog.load_codes(int(rows[0]), hasher.n_packed)
    here = np.isin(fresh, rows)
    if np.count_nonzero(here) != len(rows):
        return None
    return hasher.unpacked(packed[here]).added_to(index, rows - first_row)


def _extended(folder: SearchFolder, catalog: Catalog, snapshot: Snapshot, facts: Facts) -> Snapshot:
    """What a few changes of others make of a snapshot."""
    known = snapshot.facts
    rows = catalog.load_rows(known.next_row, facts.next_row, facts.id_type)
    n_before, n = snapshot.n_places, facts.n_places
    new = rows.rows - facts.first_row
    buried = catalog.buried_since(known.change) - facts.first_row
    buried = buried[buried < n_before]
    if len(buried) and not unpacked_mask(snapshot.alive, n_before)[buried].all():
        raise _ReadAll
    snapshot = snapshot.without(np.unique(buried))
    index = _with_codes(snapshot.index.copy(), catalog, rows.rows, facts.first_row, snapshot.hasher)
    if index is None:
        raise _ReadAll
    sums = np.zeros(n - n_before, np.uint32)
    sums[new - n_before] = rows.payload_sums
    alive = np.zeros(n, bool)
    alive[:n_before] = unpacked_mask(snapshot.alive, n_before)
    alive[new] = True
    ids = snapshot.id_column
    if n > n_before:
        added = IdColumn.with_gaps(rows.ids, new - n_before, n - n_before)
        ids = added if ids is None else ids.appended(added.ids, added.digests)
    lists = snapshot.lists if facts.lists == known.lists else folder.open_lists(facts, alive)
    changed = replace(
        snapshot,
        index=index,
        id_column=ids,
        payload_sums=snapshot.payload_sums.appended(sums),
        alive=packed_mask(alive),
        facts=facts,
        vectors=folder.open_vectors(facts, snapshot.vectors),
        lists=lists,
    )
    if np.count_nonzero(alive) != facts.n_rows:
        raise _ReadAll
    return changed
