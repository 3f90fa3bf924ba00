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
=====================  ===============================================================================================

The names end in 16 random hexadecimal digits. The facts name the files that count. A file is written before the change
that names it is committed, and removed after a change that names another one.
"""

import os
import re
import secrets
import shutil
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from hashlearn.durable.files import sync
from hashlearn.hashers.saving import digest_of, load_with_digest, n_bits_of, save_hasher
from hashlearn.index import AsymmetricIndex, HammingIndex
from hashlearn.index.file import fingerprint
from hashlearn.search.catalog import Catalog
from hashlearn.search.facts import Acknowledged, Facts
from hashlearn.search.metric_hasher import Lengths, MetricHasher
from hashlearn.search.vectors import VectorFile

CATALOG = "catalog.db"
ACKNOWLEDGED = "acknowledged"
OLD_MANIFEST = "search.json"
"""The file that folders of earlier layouts have."""

_OWN = re.compile(r"(hasher-[0-9a-f]{16}|codes-[0-9a-f]{16}\.hli|vectors-[0-9a-f]{16}\.hlv)\Z")
_LEFT = re.compile(r"\.(codes|vectors)-.*\.hashlearn-tmp\Z")
_BESIDE = re.compile(r"catalog\.db(-wal|-shm|-journal)?\Z|acknowledged\Z|\..*\.hashlearn-(tmp|lock)\Z")


class SearchFolder:
    """The files of a saved search."""

    def __init__(self, path: str | Path):
        self.path = Path(os.path.realpath(path))
        self.catalog_path = self.path / CATALOG
        self.acknowledged = Acknowledged(self.path / ACKNOWLEDGED)
        self._is_made = False
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
        self._is_made = not self.path.exists()
        self.path.mkdir(exist_ok=True)
        foreign = [name for name in os.listdir(self.path) if not _OWN.match(name) and not _BESIDE.match(name)]
        if foreign and not self.is_search:
            raise ValueError(
                f"folder must be new, empty or a saved similarity search, got {self.path} with {foreign[0]!r:.60}"
            )

    # -- hasher -----------------------------------------------------------------------------------------------------

    def save_hasher(self, hasher: Any) -> tuple[str, str]:
        """Write a hasher; returns the name of its folder and its digest."""
        name, digest = self._new("hasher-{}"), digest_of(hasher)
        save_hasher(hasher, self.path / name)
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
        index.save(path)
        return {"file": path.name, "fingerprint": fingerprint(path), "places": n_places}

    def open_codes(self, facts: Facts, hasher: MetricHasher) -> HammingIndex | AsymmetricIndex:
        assert facts.codes is not None
        path = self.path / facts.codes["file"]
        kind = HammingIndex if hasher.query == "code" else AsymmetricIndex
        index = kind.open(path)
        if fingerprint(path) != facts.codes["fingerprint"]:
            raise ValueError(f"{path} has other codes than were saved there (the checksum does not fit)")
        if index.n_bits != n_bits_of(hasher.hasher):
            raise ValueError(f"{path} has codes of {index.n_bits} bits, the hasher is of {n_bits_of(hasher.hasher)}")
        return index

    # -- vectors ----------------------------------------------------------------------------------------------------

    def new_vectors_path(self) -> Path:
        return self.path / self._new("vectors-{}.hlv")

    def open_vectors(self, facts: Facts) -> VectorFile | None:
        if facts.vectors is None:
            return None
        path = self.path / facts.vectors["file"]
        file = VectorFile.open(path)
        if file.layout.id != facts.vectors["id"]:
            raise ValueError(f"{path} is the vector file of another search")
        return file

    # -- all --------------------------------------------------------------------------------------------------------

    def _new(self, pattern: str) -> str:
        name = pattern.format(_drawn())
        self._written.append(name)
        return name

    def settle(self, facts: Facts | None) -> None:
        """Remove files that were written for a change, if the facts that are committed do not name them."""
        named = _named(facts)
        for name in self._written:
            if name not in named:
                self._remove(self.path / name)
        self._written = []

    def give_back(self, catalog: Catalog) -> None:
        """Remove what a save has left that failed, if nothing was ever saved here."""
        with suppress(OSError, ValueError):
            if catalog.remove_if_empty():
                self.acknowledged.path.unlink(missing_ok=True)
                if self._is_made:
                    self.path.rmdir()

    def collect(self, facts: Facts) -> None:
        """Remove files of searches that the facts do not name; what cannot be removed now is left."""
        named = _named(facts)
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
        # By a connection that only reads: one that writes would merge a damaged log when it is closed, and remove it.
        with closing(Catalog(self.catalog_path, read_only=True)) as catalog:
            # read first: a change that another process makes meanwhile is in the catalog before it is acknowledged
            acknowledged = self.acknowledged.read()
            acknowledged.check(catalog.facts(), self.catalog_path)
        return Catalog.open(self.catalog_path)


def _named(facts: Facts | None) -> set[str]:
    if facts is None:
        return set()
    return {facts.hasher, *(part["file"] for part in (facts.codes, facts.vectors) if part is not None)}


def vector_facts(file: VectorFile | None) -> dict[str, Any] | None:
    """What the facts say about a vector file."""
    return None if file is None or file.path is None else {"file": file.path.name, "id": file.layout.id}


def new_search_id() -> str:
    """A name for a search that no other has."""
    return _drawn()


def _drawn() -> str:
    return secrets.token_hex(8)
