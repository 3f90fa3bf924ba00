"""Every call that saves: what is there before, what is saved, and how to read it again.

The kills, the full disks and the interrupts all go over :data:`SAVINGS`.
"""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from PIL import Image
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from hashlearn import ITQ, HammingIndex, SimilaritySearch, load, save
from hashlearn.cli import main
from hashlearn.cli.support.code_files import read_codes
from hashlearn.durable.files import LEFTOVER, replacing_together, write_text
from hashlearn.experiments.cache import CachedData
from hashlearn.experiments.define.settings import ArrayFile, DatasetSettings
from hashlearn.experiments.results import ResultFolder
from hashlearn.search import rows

X = np.random.RandomState(0).randn(60, 8)
OLD, NEW = (ITQ(n_bits=8, random_state=seed, max_iter=3).fit(X) for seed in (0, 1))


class Saving(NamedTuple):
    """One call that saves.

    Attributes
    ----------
    prepare : puts the state before into an empty folder
    save : saves the new state, or raises
    read : what the folder holds, as something to compare; raises where it holds nothing whole
    incomplete : what ``read`` may give beside the old and the new state after a kill
    """

    prepare: Callable[[Path], Any]
    save: Callable[[Path], Any]
    read: Callable[[Path], Any]
    incomplete: tuple[Any, ...] = ()


def command(folder: Path, *arguments: str) -> None:
    """Run a command line in a folder; its error is raised with the line it has printed."""
    here, printed = os.getcwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
            main(list(arguments))
    except SystemExit as ended:
        if ended.code == 130:
            raise KeyboardInterrupt from None
        if ended.code:
            raise OSError(printed.getvalue()) from None
    finally:
        os.chdir(here)


def listing(folder: Path) -> list[str]:
    """Names of all files, without what is random in them."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    return sorted(re.sub(r"(generation-\d+|hasher|codes|vectors)-[0-9a-f]{16}", r"\1", name) for name in names)


def _nothing(folder: Path) -> None:
    """The first save of all."""


def _codes_of(hasher: Any) -> bytes:
    return hasher.transform(X).tobytes()


def _pipeline(hasher: Any) -> Any:
    return make_pipeline(Normalizer(), clone(hasher)).fit(X)


def _save_search(hasher: Any) -> Callable[[Path], None]:
    return lambda folder: saved(SimilaritySearch(hasher).add(X), folder)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[SimilaritySearch]:
    with contextlib.closing(SimilaritySearch.open(folder / "search")) as search:
        yield search


def saved(search: SimilaritySearch, folder: Path) -> None:
    """Save a search, and let go of the folder: SQLite has files there while it is open."""
    with contextlib.closing(search):
        search.save(folder / "search")


def _read_search(folder: Path) -> tuple[bytes, list]:
    with opened(folder) as search:
        return _codes_of(search.hasher), [
            (row.id, row.code.tobytes(), row.payload, None if row.vector is None else row.vector.tobytes())
            for row in search.get(search.ids)
        ]


def _upsert(ids: list[Any]) -> Callable[[Path], None]:
    """A few rows, of which only the catalog is told, and the file of vectors."""

    def upsert(folder: Path) -> None:
        with opened(folder) as search:
            search.upsert(X[:3] + 1, ids, [{"color": "red"}, None, {"size": 2}])

    return upsert


def _add_with_code_file(folder: Path) -> None:
    with opened(folder) as search, mock.patch.object(rows, "_LEAST_FRESH", 10):
        search.upsert(X[:20] + 1, [f"more {row}" for row in range(20)])


def _several(folder: Path) -> None:
    """More than one change in one transaction."""
    with opened(folder) as search, search.transaction():
        search.upsert(X[:3] + 1, ["new", "row 3", "newer"])
        search.remove([id for id in ("row 5", "row 6") if id in search])
        search.upsert(X[:1], ["newest"], [{"color": "red"}])


def _with_removed_rows(folder: Path) -> None:
    with contextlib.closing(_kept(OLD, "float32")) as search:
        search.save(folder / "search")
        search.remove(["row 5", "row 6"])


def _compact(folder: Path) -> None:
    with opened(folder) as search:
        if _first_row(search) == 0:  # otherwise it was compacted before the process was killed
            search.compact()
        search.save()  # removes files that a killed process has left


def _first_row(search: SimilaritySearch) -> int:
    """The number that rows are counted from; compaction moves it."""
    return int((search.scroll(limit=1).after or "0-").split("-")[0])


def _read_compacted(folder: Path) -> tuple[Any, int]:
    with opened(folder) as search:
        first = _first_row(search)
    return _read_search(folder), first


def _refit(folder: Path) -> None:
    with opened(folder) as search:
        search.fit(2 * X[::-1] + 1)


def _kept(hasher: Any, dtype: str) -> SimilaritySearch:
    """A search that keeps its vectors."""
    return SimilaritySearch(hasher, keep_vectors=dtype).add(X, [f"row {row}" for row in range(len(X))])


def _save_kept(hasher: Any, dtype: str) -> Callable[[Path], None]:
    return lambda folder: saved(_kept(hasher, dtype), folder)


def _index(hasher: Any) -> HammingIndex:
    return HammingIndex(8).add(hasher.transform(X), 3 * np.arange(len(X)))


def _read_index(folder: Path) -> bytes:
    index = HammingIndex.open(folder / "codes.hli").verify()
    return index.codes().tobytes() + index.ids.tobytes()


def _inputs(folder: Path) -> None:
    OLD.save(folder / "model")
    np.save(folder / "vectors.npy", X)
    np.save(folder / "other.npy", X[::-1])


def _encode(name: str) -> Callable[[Path], None]:
    return lambda folder: command(folder, "encode", "model", name, "-o", "codes.npy")


def _encoded_before(folder: Path) -> None:
    _inputs(folder)
    _encode("other.npy")(folder)


def _read_codes(folder: Path) -> bytes:
    return read_codes(str(folder / "codes.npy")).codes.tobytes()


def _index_before(folder: Path) -> None:
    _encoded_before(folder)
    command(folder, "index", "build", "codes.npy", "-o", "codes.hli")
    np.save(folder / "ids.npy", np.arange(1000, 1000 + len(X)))
    np.save(folder / "none.npy", np.empty((0, 1), np.uint8))


def _add_to_index(folder: Path) -> None:
    if len(HammingIndex.open(folder / "codes.hli")) == len(X):
        command(folder, "index", "add", "codes.hli", "codes.npy", "--ids", "ids.npy")
    else:  # they were added before the process was killed, and no codes are added now
        command(folder, "index", "add", "codes.hli", "none.npy")


def _write_pair(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        with replacing_together(folder / "vectors", folder / "names") as beside:
            for file in beside:
                file.write_text(text)

    return write


def _read_pair(folder: Path) -> list[str]:
    return [path.read_text() for path in (folder / "vectors", folder / "names") if path.exists()]


def _append(number: int) -> Callable[[Path], None]:
    def append(folder: Path) -> None:
        ResultFolder(folder / "results").append("digits", {"key": number, "config": {}, "data": {}})

    return append


def _read_lines(folder: Path) -> list[int]:
    """The lines there are; the same one may have been appended again."""
    return sorted({line["key"] for line in ResultFolder(folder / "results").lines(["digits"])})


def _photos(folder: Path) -> None:
    (folder / "photos").mkdir()
    for number in range(2):
        pixels = np.random.RandomState(number).randint(0, 255, (16, 16)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{number}.png")


def _written_by(*arguments: str, inputs: Callable[[Path], Any] = _index_before) -> Saving:
    """A command whose last argument is the file that it makes."""
    return Saving(
        inputs, lambda folder: command(folder, *arguments), lambda folder: (folder / arguments[-1]).read_bytes()
    )


def _duplicates(name: str) -> Callable[[Path], None]:
    def find(folder: Path) -> None:
        np.save(folder / "vectors.npy", np.concatenate([X, X[:3]]))
        np.save(folder / "other.npy", np.concatenate([X, X[3:9]]))
        command(folder, "dedup", name, "--max-distance", "0.01", "-o", "groups.csv", "--dropped", "dropped.txt")

    return find


def _read_duplicates(folder: Path) -> list[int]:
    """Duplicates in the table, and in the list, of those that are there."""
    paths = [path for path in (folder / "groups.csv", folder / "dropped.txt") if path.exists()]
    return [sum("keep" not in line and "group" not in line for line in path.open()) for path in paths]


def _cache_data(folder: Path) -> CachedData:
    labels = ArrayFile(str(folder / "labels.npy"))
    settings = DatasetSettings("own", features=ArrayFile(str(folder / "vectors.npy")), labels=labels, n_queries=10)
    return CachedData.of(settings, folder / "cache")


def _rows(folder: Path) -> None:
    (folder / "cache").mkdir()
    np.save(folder / "vectors.npy", X)
    np.save(folder / "labels.npy", np.arange(len(X)) % 3)


def _read_data(folder: Path) -> bytes:
    """Of the dataset in the cache; nobody makes it here."""
    (place,) = [path for path in (folder / "cache").glob("own-*") if path.is_dir() and not path.name.endswith(LEFTOVER)]
    data = CachedData(place)
    return np.concatenate([np.ravel(data.database), np.ravel(data.labels), np.ravel(data.queries)]).tobytes()


SAVINGS = {
    "text": Saving(
        lambda folder: write_text(folder / "file", "old"),
        lambda folder: write_text(folder / "file", "new" * 1000),
        lambda folder: (folder / "file").read_text(),
    ),
    "two files": Saving(_write_pair("old"), _write_pair("new"), _read_pair, incomplete=(["old"], ["new"])),
    "model": Saving(
        lambda folder: OLD.save(folder / "model"),
        lambda folder: NEW.save(folder / "model"),
        lambda folder: _codes_of(load(folder / "model")),
    ),
    "first model": Saving(
        _nothing, lambda folder: NEW.save(folder / "model"), lambda folder: _codes_of(load(folder / "model"))
    ),
    "pipeline": Saving(
        lambda folder: save(_pipeline(OLD), folder / "model"),
        lambda folder: save(_pipeline(NEW), folder / "model"),
        lambda folder: _codes_of(load(folder / "model")),
    ),
    "index": Saving(
        lambda folder: _index(OLD).save(folder / "codes.hli"),
        lambda folder: _index(NEW).save(folder / "codes.hli"),
        _read_index,
    ),
    "search": Saving(_save_search(OLD), _save_search(NEW), _read_search),
    "first search": Saving(_nothing, _save_search(NEW), _read_search),
    "rows of a search": Saving(_save_search(OLD), _upsert([1000, 3, 1001]), _read_search),
    "search with vectors": Saving(_save_kept(OLD, "float32"), _save_kept(NEW, "float32"), _read_search),
    "first search with vectors": Saving(_nothing, _save_kept(NEW, "int8"), _read_search),
    "rows with vectors": Saving(_save_kept(OLD, "int8"), _upsert(["new", "row 3", "newer"]), _read_search),
    "rows with a code file": Saving(_save_kept(OLD, "float32"), _add_with_code_file, _read_search),
    "transaction": Saving(_save_kept(OLD, "float32"), _several, _read_search),
    "compaction": Saving(_with_removed_rows, _compact, _read_compacted),
    "fit of a saved search": Saving(_save_kept(OLD, "int8"), _refit, _read_search),
    "encode": Saving(_encoded_before, _encode("vectors.npy"), _read_codes),
    "first encode": Saving(_inputs, _encode("vectors.npy"), _read_codes),
    "index add": Saving(_index_before, _add_to_index, _read_index),
    "index build": Saving(
        _index_before,
        lambda folder: command(folder, "index", "build", "codes.npy", "--ids", "ids.npy", "-o", "codes.hli"),
        _read_index,
    ),
    "neighbors": _written_by("search", "model", "codes.npy", "vectors.npy", "-k", "3", "-o", "neighbors.npz"),
    "near-duplicates": _written_by("near-duplicates", "codes.npy", "-o", "pairs.tsv"),
    "features": _written_by("features", "gist", "photos", "-o", "gist.npy", inputs=_photos),
    "duplicates": Saving(_duplicates("other.npy"), _duplicates("vectors.npy"), _read_duplicates, ([6], [3])),
    "data cache": Saving(_rows, _cache_data, _read_data),
    "results": Saving(_append(1), _append(2), _read_lines),
}
