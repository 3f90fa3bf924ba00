"""A search at work: readers beside a writer, and processes that are killed; a log says what must be found.

    python -m faults.soak --seconds 60 --kills 500

Eight threads read and one changes, in memory and over LanceDB; one process reads what another saves. Every answer is
compared with the log of changes, replayed. Then processes that change and save are killed at random moments. The counts
are added to ``benchmarks/results/readers.jsonl``.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from replay import HASHER, LAST, QUERIES, QUERY_CODES, after, found, nearest, operation

from hashlearn import SimilaritySearch
from hashlearn.experiments.results import provenance

N_READERS = 8
OUT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "readers.jsonl"


class Reading(NamedTuple):
    """What was found for a query, between how many changes were done before and begun afterwards."""

    done_before: int
    begun_after: int
    query: int
    found: list


class Soaked(NamedTuple):
    """How many reads beside how many changes, and what was wrong."""

    reads: int
    changes: int
    wrong: int
    errors: list[str]


def threads_beside_a_writer(search: SimilaritySearch, seconds: float) -> Soaked:
    """A writer and its readers, in threads."""
    search.search_codes(QUERY_CODES)  # what is compiled is loaded
    begun, done, readings, errors = [0], [0], [], []
    stop = threading.Event()

    def write() -> None:
        rows: dict = {}
        while not stop.is_set():
            change = operation(done[0])
            begun[0] += 1
            change.on(search, rows)
            rows = after(rows, change)
            done[0] += 1

    def read(reader: int) -> None:
        query = reader % len(QUERIES)
        while not stop.is_set():
            before = done[0]
            result = found(search, query)
            readings.append(Reading(before, begun[0], query, result))
            time.sleep(0.001)  # otherwise the readers leave the writer no time of the interpreter

    def guarded(work: Callable, *args) -> None:
        try:
            work(*args)
        except BaseException as error:
            errors.append(repr(error))
            stop.set()

    threads = [threading.Thread(target=guarded, args=(write,))]
    threads += [threading.Thread(target=guarded, args=(read, reader)) for reader in range(N_READERS)]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return Soaked(len(readings), done[0], n_wrong(readings, done[0]), errors)


def process_beside_a_writer(folder: Path, seconds: float) -> Soaked:
    """A writer that saves every change, and a process that refreshes and reads."""
    fork = multiprocessing.get_context("fork")
    begun, done, stop = fork.Value("q", 1), fork.Value("q", 1), fork.Event()
    search = SimilaritySearch(HASHER)
    first = operation(0)
    first.on(search, {})
    search.save(folder)
    receive, send = fork.Pipe(duplex=False)

    def read() -> None:
        reader, readings, query, errors = SimilaritySearch.open(folder), [], 0, []
        while not stop.is_set() and not errors:
            before = done.value
            try:
                reader.refresh()
                readings.append(Reading(before, begun.value, query, found(reader, query)))
            except Exception as error:
                errors.append(repr(error))
            query = (query + 1) % len(QUERIES)
        send.send((readings, errors))

    process = fork.Process(target=read)
    process.start()
    try:
        rows = after({}, first)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            change = operation(done.value)
            begun.value += 1
            change.on(search, rows)
            rows = after(rows, change)
            done.value += 1
    finally:
        stop.set()
    readings, errors = receive.recv()
    process.join()
    return Soaked(len(readings), done.value, n_wrong(readings, done.value), errors)


def n_wrong(readings: list[Reading], n_changes: int) -> int:
    """How many readings were of no state that the log, replayed, had at their time."""
    rows: dict = {}
    expected = [nearest(rows)]
    for number in range(n_changes + 1):  # the last one may have been interrupted
        change = operation(number)
        with_new = after(rows, change._replace(gone=[]))
        rows = after(rows, change)
        # an upsert and a removal are two changes, and a reader may see the rows between them
        expected += [nearest(with_new), nearest(rows)]
    wrong = 0
    for done, begun, query, result in readings:
        allowed = [expected[version][query] for version in range(2 * done, 2 * begun + 1)]
        wrong += result not in allowed
    return wrong


class Killed(NamedTuple):
    """How many processes were killed, what they had reported as saved, and what became of it."""

    kills: int
    reported: int
    lost: int
    unreadable: int


def kill_savers(folder: Path, n_kills: int, keep_vectors: str | None, seed: int = 0) -> Killed:
    """Kill processes that change a search and save it, and compare the folder with what they have reported."""
    rng = random.Random(seed)
    search = SimilaritySearch(HASHER, keep_vectors=keep_vectors)
    first = operation(0)
    first.on(search, {})
    search.save(folder)
    rows, done, n_reported, lost, unreadable = after({}, first), 0, 0, 0, 0
    for _ in range(n_kills):
        reported = _killed_run(folder, done + 1, rng.randrange(5), rng.uniform(0, 0.05))
        n_reported += reported - done
        try:
            search = SimilaritySearch.open(folder)
            now = search.get([LAST])[0].payload["operation"]
        except Exception:
            unreadable += 1
            break  # there is nothing to go on with
        for number in range(done + 1, now + 1):
            rows = after(rows, operation(number))
        lost += now not in (reported, reported + 1) or not holds(search, rows)
        done = now
    change = operation(done + 1)
    change.on(search, rows)
    search.save()  # collects what killed processes have left
    return Killed(n_kills, n_reported, lost, unreadable)


def holds(search: SimilaritySearch, rows: dict) -> bool:
    """Whether ids, payloads, codes and kept vectors of a search are those of the log."""
    records = search.get(sorted(rows))
    X = np.array([rows[record.id][0] for record in records])
    return (
        list(search) == sorted(rows)
        and [record.payload for record in records] == [rows[record.id][1] for record in records]
        and np.array_equal([record.code for record in records], HASHER.transform(X))
        and (search.keep_vectors is None or np.array_equal([record.vector for record in records], X))
    )


def _killed_run(folder: Path, first: int, n_awaited: int, seconds: float) -> int:
    """The number of the last change that a process reported before it was killed, some time after so many reports."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _change_and_save(folder, first, send)
        finally:
            os._exit(1)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        reported = pipe.read(8 * n_awaited)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reported += pipe.read()
    return struct.unpack("<q", reported[-8:])[0] if reported else first - 1


def _change_and_save(folder: Path, first: int, reports: int) -> None:
    """Make one change after the other, and report its number when it is made."""
    search = SimilaritySearch.open(folder)
    rows = dict.fromkeys(search)
    for number in range(first, first + 10_000):
        change = operation(number)
        with search.transaction():
            change.on(search, rows)
        rows = after(rows, change)
        os.write(reports, struct.pack("<q", number))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="of every place; by default %(default)s")
    parser.add_argument("--kills", type=int, default=500, help="by default %(default)s")
    parser.add_argument("--out", type=Path, default=OUT, help="the file of counts; by default %(default)s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place, half = Path(folder), -(-options.kills // 2)
        runs: dict[str, Callable[[], Any]] = {
            "threads, in memory": lambda: threads_beside_a_writer(SimilaritySearch(HASHER), options.seconds),
            "two processes": lambda: process_beside_a_writer(place / "search", options.seconds),
            "kills": lambda: kill_savers(place / "killed", half, None),
            "kills, vectors kept": lambda: kill_savers(place / "killed-vectors", half, "float32"),
            # last, for processes should not be forked beside its threads
            "threads, over LanceDB": lambda: threads_beside_a_writer(
                SimilaritySearch(HASHER, store=f"lance://{place}/rows"), options.seconds
            ),
        }
        results = {}
        for name, run in runs.items():
            results[name] = run()._asdict()
            print(name, results[name], flush=True)
    with options.out.open("a") as file:
        file.write(json.dumps({"seconds": options.seconds, "results": results} | provenance(("numpy",))) + "\n")
    bad = ("wrong", "errors", "lost", "unreadable")
    return int(any(result.get(word) for result in results.values() for word in bad))


if __name__ == "__main__":
    sys.exit(main())
