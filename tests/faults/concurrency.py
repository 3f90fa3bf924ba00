"""Readers beside savers: every read is a whole state, and one that was there while it was read.

Savers save states with numbers, readers note the number they have read, and all note when they began and ended. The
log is replayed: a state that was read had begun to be saved before the read ended, and had not been replaced by another
before the read began.
"""

import multiprocessing
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from queue import Empty
from typing import Any, NamedTuple

import numpy as np

from hashlearn import LSH, HammingIndex, SimilaritySearch, load
from hashlearn.durable.files import write_text

ROWS = np.random.RandomState(0).randn(40, 6)


class Place(NamedTuple):
    """What is saved and read: a state is known by its number, in all its parts."""

    save: Callable[[Path, int], Any]
    read: Callable[[Path], int]


class Event(NamedTuple):
    """A save or a read of the state ``number``; where it failed, ``problem`` says how."""

    is_save: bool
    number: int
    began: int
    ended: int
    problem: str = ""


def _hasher(number: int) -> LSH:
    hasher = LSH(n_bits=8, random_state=number).fit(ROWS)
    hasher.projection_[:] = number
    return hasher


def _number_of(hasher: LSH) -> int:
    """In the parameters and in every array."""
    numbers = {hasher.random_state, *np.unique(hasher.projection_).astype(int).tolist()}
    if len(numbers) != 1:
        raise AssertionError(f"mixed: parts of the states {sorted(numbers)}")
    return numbers.pop()


def _codes(number: int) -> np.ndarray:
    return np.random.RandomState(number % 1000).randint(0, 256, (30, 1)).astype(np.uint8)


def _save_index(path: Path, number: int) -> None:
    HammingIndex(8).add(_codes(number), number + np.arange(30)).save(path)


def _read_index(path: Path) -> int:
    index = HammingIndex.open(path).verify()
    number = int(index.ids[0])
    if not np.array_equal(index.codes(), _codes(number)):
        raise AssertionError(f"mixed: not the codes of state {number}")
    return number


def _save_search(path: Path, number: int) -> None:
    with closing(SimilaritySearch(_hasher(number)).add(ROWS, number + np.arange(len(ROWS)))) as search:
        search.save(path)


def _read_search(path: Path) -> int:
    with closing(SimilaritySearch.open(path)) as search:
        number = _number_of(search.hasher)
        _, ids = search.search(ROWS[:1], len(ROWS))
    if sorted(ids[0]) != list(range(number, number + len(ROWS))):
        raise AssertionError(f"mixed: the codes are not of state {number}")
    return number


PLACES = {
    "text": Place(lambda path, number: write_text(path, str(number)), lambda path: int(path.read_text())),
    "model": Place(lambda path, number: _hasher(number).save(path), lambda path: _number_of(load(path))),
    "index": Place(_save_index, _read_index),
    "search": Place(_save_search, _read_search),
}


def read_beside_savers(
    name: str, n_reads: int, *, savers: int = 2, readers: int = 1
) -> tuple[Counter[str], tuple[str, ...]]:
    """So many reads while others save; counts of the reads and of what was wrong with them, and what errors said."""
    context = multiprocessing.get_context("fork")
    logs, is_over = context.Queue(), context.Event()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "place")
        PLACES[name].save(path, 0)
        processes = [context.Process(target=_keep_saving, args=(name, path, n, logs, is_over)) for n in range(savers)]
        share = n_reads // readers
        processes += [context.Process(target=_keep_reading, args=(name, path, share, logs)) for _ in range(readers)]
        for process in processes:
            process.start()
        read = _taken(logs, readers)  # a process ends only when its log is taken
        is_over.set()
        events = [event for log in [*read, *_taken(logs, savers)] for event in log]
        for process in processes:
            process.join()
        left = sorted(each.name for each in path.parent.iterdir())
    counts = replayed([Event(True, 0, 0, 0), *events])
    counts["leftovers"] += left != ["place"]
    return counts, tuple(event.problem for event in events if event.problem)


def _taken(logs: Any, n: int) -> list[list[Event]]:
    try:
        return [logs.get(timeout=300) for _ in range(n)]
    except Empty:
        raise AssertionError("a saver or a reader has died") from None


def _keep_saving(name: str, path: Path, saver: int, logs: Any, is_over: Any) -> None:
    log, number = [], saver + 1
    while not is_over.is_set():
        number += 1000
        log.append(_event(True, number, lambda number=number: PLACES[name].save(path, number)))
    logs.put(log)


def _keep_reading(name: str, path: Path, n: int, logs: Any) -> None:
    logs.put([_event(False, -1, lambda: PLACES[name].read(path)) for _ in range(n)])


def _event(is_save: bool, number: int, action: Callable[[], Any]) -> Event:
    began, problem = time.monotonic_ns(), ""
    try:
        found = action()
        number = number if is_save else found
    except Exception as error:
        problem = "".join(traceback.format_exception(error))
    return Event(is_save, number, began, time.monotonic_ns(), problem)


def replayed(events: list[Event]) -> Counter[str]:
    """What the log says of the reads."""
    saves = [event for event in events if event.is_save and not event.problem]
    by_number = {save.number: save for save in saves}
    began, ended = (np.array([getattr(save, name) for save in saves]) for name in ("began", "ended"))
    counts: Counter[str] = Counter(saves=len(saves), failed_saves=sum(e.is_save and bool(e.problem) for e in events))
    for read in events:
        if read.is_save:
            continue
        counts["reads"] += 1
        save = by_number.get(read.number)
        if read.problem:
            counts["mixed" if "mixed" in read.problem else "lost"] += 1
        elif save is None or save.began > read.ended:
            counts["of no save"] += 1
        elif np.any((began > save.ended) & (ended < read.began)):
            counts["stale"] += 1
    return counts
