"""Ctrl-C at any moment of a change: what was changed is as before, or as after."""

import gc
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from faults.kills import Expected
from faults.savings import SAVINGS, X, listing

import hashlearn
from hashlearn import ITQ, METHODS, HammingIndex, SimilaritySearch, threads
from hashlearn.index import code_table

ROOM = str(Path(hashlearn.__file__).parent)
OTHER_ROWS = 2 * X[::-1] + 1
HASHER = ITQ(n_bits=8, random_state=0).fit(X)


class Interrupt:
    """Raises KeyboardInterrupt before the n-th instruction that this thread runs in the package; 0 only counts."""

    def __init__(self, at: int = 0):
        self.at, self.count = at, 0

    def __enter__(self) -> "Interrupt":
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)
        # Unlike a signal, a trace can raise just before a lock is let go of, and these are for the whole process.
        threads._blas.start_again()
        for lock in list(code_table._LOCKS):
            while lock._is_owned():
                lock.release()

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt
        return self._trace


class Change(NamedTuple):
    """A call that changes an object: how to make the object, the change, and what to compare."""

    make: Callable[[], Any]
    change: Callable[[Any], Any]
    content: Callable[[Any], Any]


def _fitted(method: type) -> Callable[[], Any]:
    return lambda: method(n_bits=8, random_state=0).fit(X)


def _learned(hasher: Any) -> tuple[bytes, list[str]]:
    return hasher.transform(X).tobytes(), sorted(vars(hasher))


def _search() -> SimilaritySearch:
    return SimilaritySearch(ITQ(n_bits=8, random_state=0)).fit(X).add(X, 3 * np.arange(len(X)))


def _found(search: SimilaritySearch) -> tuple[bytes, bytes, bytes]:
    return search.hasher.transform(X).tobytes(), search.index.codes().tobytes(), search.index.ids.tobytes()


def _kept() -> SimilaritySearch:
    return SimilaritySearch(ITQ(n_bits=8, random_state=0), keep_vectors="float32").fit(X).add(X)


def _vectors(search: SimilaritySearch) -> list[tuple[int, bytes, bytes]]:
    """Codes and vectors, once another change is made: it must not bring to light what an interrupted one has left."""
    search.upsert(X[:1], [9])
    return [(row.id, row.code.tobytes(), row.vector.tobytes()) for row in search.get(search.ids)]


def _in_folder() -> SimilaritySearch:
    folder = tempfile.TemporaryDirectory()
    search = _kept()
    search.save(Path(folder.name, "search"))
    search.its_folder = folder  # which goes with the search
    return search


def _in_both(search: SimilaritySearch) -> Any:
    """What the folder and the search hold, which must be the same."""
    search.refresh()
    found = _vectors(search)
    with closing(SimilaritySearch.open(search.folder)) as opened:
        assert _vectors(opened) == found
    return found


def _index() -> HammingIndex:
    return HammingIndex(8).add(HASHER.transform(X), 3 * np.arange(len(X)))


def _codes(index: HammingIndex) -> tuple[bytes, bytes]:
    return index.codes().tobytes(), index.ids.tobytes()


NEW_IDS = np.array([7, 1000, 4, 5])

CHANGES = {
    **{
        f"refit of {name}": Change(_fitted(cls), lambda h: h.fit(OTHER_ROWS), _learned) for name, cls in METHODS.items()
    },
    "fit of a search": Change(_search, lambda search: search.fit(OTHER_ROWS), _found),
    "add to a search": Change(_search, lambda search: search.add(X[:4], NEW_IDS), _found),
    "remove from a search": Change(_search, lambda search: search.remove([3, 30]), _found),
    "upsert of vectors": Change(_kept, lambda search: search.upsert(X[:4] + 1, [7, 1000, 4, 5]), _vectors),
    "upsert in a folder": Change(_in_folder, lambda search: search.upsert(X[:4] + 1, [7, 1000, 4, 5]), _in_both),
    "remove in a folder": Change(_in_folder, lambda search: search.remove([3, 30]), _in_both),
    "fit in a folder": Change(_in_folder, lambda search: search.fit(OTHER_ROWS), _in_both),
    "compact in a folder": Change(_in_folder, lambda search: search.compact(), _in_both),
    "add to an index": Change(_index, lambda index: index.add(index.codes()[:4], NEW_IDS), _codes),
    "remove from an index": Change(_index, lambda index: index.remove([0, 9]), _codes),
}


def moments(total: int, n: int, seed: int) -> list[int]:
    """Some of the moments of a call, or all if they are fewer."""
    return np.random.default_rng(seed).choice(np.arange(1, total + 1), min(total, n), replace=False).tolist()


def interrupt_change(name: str, n: int, seed: int) -> Counter[str]:
    """Interrupt a change of an object at random moments, and look at the object."""
    made, change, content = CHANGES[name]
    counts: Counter[str] = Counter()
    old = content(made())
    changed = made()
    change(changed)  # compiled now, and not in the midst of a count
    new, subject = content(changed), made()
    with Interrupt() as counting:
        change(subject)
    assert content(subject) == new
    for moment in moments(counting.count, n, seed):
        subject = made()
        counts["interrupted"] += _interrupted(lambda subject=subject: change(subject), moment)
        found = content(subject)
        counts["old" if found == old else "new" if found == new else "mixed"] += 1
        if found == old:
            change(subject)
            counts["not repeated"] += content(subject) != new
    return counts


def interrupt_save(name: str, n: int, seed: int) -> Counter[str]:
    """Interrupt a save at random moments, look at the files, and repeat it."""
    saving, expected = SAVINGS[name], Expected(SAVINGS[name])
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        saving.prepare(Path(folder))
        with Interrupt() as counting:
            saving.save(Path(folder))
    for moment in moments(counting.count, n, seed):
        with tempfile.TemporaryDirectory() as name_of_folder:
            folder = Path(name_of_folder)
            saving.prepare(folder)
            counts["interrupted"] += _interrupted(lambda folder=folder: saving.save(folder), moment)
            counts[expected.state(folder)] += 1
            gc.collect()  # connections that are in cycles with the frames of the interrupted call
            saving.save(folder)
            counts["not repeated"] += expected.state(folder) != "new"
            counts["leftovers"] += listing(folder) != expected.files
    return counts


def _interrupted(action: Callable[[], Any], moment: int) -> bool:
    try:
        with Interrupt(moment):
            action()
    except KeyboardInterrupt:
        return True
    return False
