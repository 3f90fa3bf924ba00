"""Shards of an index in processes of their own: a query goes to all, and what they find is merged.

Part of ``benchmarks/stores.py --shards``. The prediction needs one shard only::

    latency = time of one shard's search * turns + time of an empty request to all shards

where the shards of a machine take turns on its cores. On machines of their own there is one turn. What is measured
here, with all shards on this machine, says how far the prediction can be trusted.
"""

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from hashlearn import HammingIndex

BILLION = 1_000_000_000
SHARD_SIZES = (8, 16, 32)


class Shard(NamedTuple):
    """A process with some of the codes, and the way to it."""

    process: Any
    pipe: Connection


def serve_shard(pipe: Connection, first: int, n: int, n_bits: int) -> None:
    """Hold n random codes and answer searches until told to stop: pairs of queries and k, None to stop.

    k = 0 is an empty request: what asking and answering alone takes.
    """
    rng = np.random.default_rng(first)
    codes = rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)
    index = HammingIndex(n_bits).add(codes, np.arange(first, first + n))
    index.search(codes[:1], 1, method="flat")
    pipe.send("ready")
    while (request := pipe.recv()) is not None:
        queries, k = request
        pipe.send(tuple(index.search(queries, k, method="flat", n_jobs=1)) if k else None)


def start_shards(n_shards: int, n: int, n_bits: int) -> list[Shard]:
    context = multiprocessing.get_context("spawn")
    shards = []
    for number in range(n_shards):
        ours, theirs = context.Pipe()
        first = number * n // n_shards
        size = (number + 1) * n // n_shards - first
        process = context.Process(target=serve_shard, args=(theirs, first, size, n_bits), daemon=True)
        process.start()
        shards.append(Shard(process, ours))
    for shard in shards:
        shard.pipe.recv()
    return shards


def ask(shards: list[Shard], queries: np.ndarray, k: int) -> list:
    for shard in shards:
        shard.pipe.send((queries, k))
    return [shard.pipe.recv() for shard in shards]


def search(shards: list[Shard], queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of all shards: those of each, merged by distance and id."""
    found = ask(shards, queries, k)
    distances = np.concatenate([part[0] for part in found], axis=1)
    ids = np.concatenate([part[1] for part in found], axis=1)
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(ids, order, 1)


def measure_shards(n_shards: int, n: int, n_bits: int, k: int, n_queries: int) -> list[dict]:
    """What one shard and all of them take for a query, and what was predicted for all from the one."""
    queries = np.random.default_rng(1 << 20).integers(0, 256, (n_queries, n_bits // 8), dtype=np.uint8)
    shards = start_shards(n_shards, n, n_bits)
    try:
        alone, empty_alone, together, empty = take_turns(
            queries,
            lambda query: search(shards[:1], query, k),
            lambda query: ask(shards[:1], query, 0),
            lambda query: search(shards, query, k),
            lambda query: ask(shards, query, 0),
        )
        check(shards, queries[:5], n, n_bits, k)
    finally:
        for shard in shards:
            shard.pipe.send(None)
            shard.process.join()
    cores = len(os.sched_getaffinity(0))
    turns = -(-n_shards // cores)
    searching = alone - empty_alone
    return [
        {
            "name": f"{n_shards} shards",
            "codes_per_shard": n // n_shards,
            "ms_of_one_shard": 1000 * searching,
            "ms_of_an_empty_request": 1000 * empty,
            "ms_predicted": 1000 * (searching * turns + empty),
            "ms_measured": 1000 * together,
            "turns": turns,
        }
    ]


def take_turns(queries: np.ndarray, *calls: Callable) -> list[float]:
    """Median seconds of each call for one query; the first query is for warming up."""
    taken: list[list[float]] = [[] for _ in calls]
    for query in queries:
        for seconds, call in zip(taken, calls):
            start = time.perf_counter()
            call(query[None])
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds[1:]) for seconds in taken]


def check(shards: list[Shard], queries: np.ndarray, n: int, n_bits: int, k: int) -> None:
    """Shards must find what one index of all codes finds."""
    whole = HammingIndex(n_bits)
    for number in range(len(shards)):
        first = number * n // len(shards)
        size = (number + 1) * n // len(shards) - first
        whole.add(np.random.default_rng(first).integers(0, 256, (size, n_bits // 8), dtype=np.uint8))
    found, wanted = search(shards, queries, k), whole.search(queries, k, method="flat")
    if not all(np.array_equal(ours, theirs) for ours, theirs in zip(found, wanted)):
        raise AssertionError("the shards do not find what one index finds")


def shards_table(lines: list[dict]) -> str:
    """What was predicted and measured here, and what follows for a billion codes."""
    (line,) = lines
    per_code = line["ms_of_one_shard"] / line["codes_per_shard"]
    rows = [
        "| | ms a query |",
        "|---|---:|",
        f"| a search in one shard of {line['codes_per_shard']:,} codes | {line['ms_of_one_shard']:.2f} |",
        f"| an empty request to {line['name']} | {line['ms_of_an_empty_request']:.2f} |",
        f"| {line['name']}, {line['turns']} in turn on each core: predicted | {line['ms_predicted']:.2f} |",
        f"| the same, measured | {line['ms_measured']:.2f} |",
        "",
        "A billion codes of 64 bits by the same arithmetic, one core for each shard and a network that takes 1 ms:",
        "",
        "| shards | GB a shard | ms a query |",
        "|---:|---:|---:|",
    ]
    for n_shards in SHARD_SIZES:
        codes = BILLION / n_shards
        rows.append(f"| {n_shards} | {8 * codes / 1e9:.2f} | {per_code * codes + 1:.0f} |")
    return "\n".join(rows) + "\n"
