"""Readers beside a writer: whatever a reader finds is what the rows were before or after a change.

``HASHLEARN_SOAK_SECONDS=60 pytest tests/search/test_similarity_threads.py`` runs as long as you like.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest
from replay import HASHER, QUERIES, QUERY_CODES, after, found, nearest, operation

from hashlearn import SimilaritySearch

SECONDS = float(os.environ.get("HASHLEARN_SOAK_SECONDS", "2"))
N_READERS = 8


class Reading(NamedTuple):
    """What was found for a query, between how many changes were done before and begun afterwards."""

    done_before: int
    begun_after: int
    query: int
    found: list


def check_readings(readings: list[Reading], n_changes: int) -> None:
    """Compare with the log, replayed."""
    rows: dict = {}
    expected = [nearest(rows)]
    for number in range(n_changes):
        change = operation(number)
        with_new = after(rows, change._replace(gone=[]))
        rows = after(rows, change)
        # an upsert and a removal are two changes, and a reader may see the rows between them
        expected.append(nearest(with_new))
        expected.append(nearest(rows))
    wrong = 0
    for done, begun, query, result in readings:
        allowed = [expected[version][query] for version in range(2 * done, 2 * begun + 1)]
        wrong += result not in allowed
    assert readings
    assert wrong == 0, f"{wrong} wrong of {len(readings)} reads"
    print(f"{len(readings)} reads, {n_changes} changes, 0 wrong")


def run_threads(search: SimilaritySearch) -> None:
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
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(write,))]
    threads += [threading.Thread(target=guarded, args=(read, reader)) for reader in range(N_READERS)]
    for thread in threads:
        thread.start()
    stop.wait(SECONDS)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    check_readings(readings[:: max(1, len(readings) // 50_000)], done[0])


def test_readers_beside_a_writer_in_memory():
    run_threads(SimilaritySearch(HASHER))


def test_readers_beside_a_writer_over_a_store(tmp_path):
    pytest.importorskip("lancedb")
    run_threads(SimilaritySearch(HASHER, store=f"lance://{tmp_path}/rows"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_reader_in_another_process_that_refreshes(tmp_path):
    fork = multiprocessing.get_context("fork")
    begun, done, stop = fork.Value("q", 1), fork.Value("q", 1), fork.Event()
    search = SimilaritySearch(HASHER)
    first = operation(0)
    first.on(search, {})
    search.save(tmp_path / "search")
    receive, send = fork.Pipe(duplex=False)

    def read() -> None:
        reader, readings, query = SimilaritySearch.open(tmp_path / "search"), [], 0
        while not stop.is_set():
            before = done.value
            reader.refresh()
            result = found(reader, query)
            readings.append(Reading(before, begun.value, query, result))
            query = (query + 1) % len(QUERIES)
        send.send(readings)

    process = fork.Process(target=read)
    process.start()
    try:
        rows = after({}, first)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            change = operation(done.value)
            begun.value += 1
            change.on(search, rows)
            rows = after(rows, change)
            search.save()
            done.value += 1
    finally:
        stop.set()
    readings = receive.recv()
    process.join()
    check_readings(readings, done.value)
