"""Recall against bytes against speed: ours beside faiss' quantizers and rabitqlib, on one thread.

    python benchmarks/neighbors.py --quick                # a few minutes: 10,000 rows, 100,000 codes, no OPQ
    python benchmarks/neighbors.py                        # all of it: an hour, most of it OPQ's training
    python benchmarks/neighbors.py --data gist text       # some of the data
    python benchmarks/neighbors.py --only ABH OPQ         # contenders whose name begins so
    python benchmarks/neighbors.py --speed scan-64 encode --data      # times alone
    python benchmarks/neighbors.py --targets              # what is wanted and was measured, from the file; runs nothing

10@10 and 10@100 are the shares of the true ten nearest rows among the first 10 and 100 found. ``HASHLEARN_DATA`` names
the folder of the data; what is not there is left out. A run adds a line for every dataset to
``results/neighbors.jsonl``; ``--plot FILE`` draws all runs.
"""

import os

from machine import all_instructions, one_thread

os.environ.update(one_thread() | all_instructions())

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np
from neighbors_peers import Contender, contenders
from neighbors_plot import plot
from neighbors_speed import SCANS, Ratio, encoding, scans, training
from neighbors_targets import rows as target_rows
from runs import add_out_option, append_run
from training import clusters

from hashlearn.datasets import load
from hashlearn.metrics import true_neighbors

DATA = ("gist", "cnn", "mnist", "text", "flickr")
SPEED = (*(f"scan-{n_bits}" for n_bits in SCANS), "encode", "train")
QUICK_ROWS, QUICK_QUERIES, QUICK_CODES = 10_000, 200, 100_000
ROUNDS = 5


class Rows(NamedTuple):
    """Database, queries, and the ten true neighbors of each query."""

    database: np.ndarray
    queries: np.ndarray
    truth: np.ndarray


def main() -> None:
    options = parse()
    faiss.omp_set_num_threads(1)
    if not options.targets:
        for name in options.data:
            keep(list(cases_of(name, options)), [], options)
        for ratio in speed(options):
            print(f"{ratio.ratio:9.3f}   {ratio.what}", flush=True)
            keep([], [ratio], options)
    show_targets(options.out)
    if options.plot is not None:
        plot(options.out / "neighbors.jsonl", options.plot)


def keep(cases: list[dict], ratios: list[Ratio], options: argparse.Namespace) -> None:
    """Add what was measured to the file at once: the next dataset may take long."""
    lines = [ratio._asdict() for ratio in ratios]
    append_run(options.out, "neighbors", {"quick": options.quick, "threads": 1, "cases": cases, "ratios": lines})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rows and codes, nothing that trains for minutes")
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA))
    parser.add_argument("--only", nargs="*", help="contenders whose name begins so")
    parser.add_argument("--speed", nargs="*", choices=SPEED, default=list(SPEED))
    parser.add_argument("--targets", action="store_true", help="run nothing")
    parser.add_argument("--plot", type=Path, help="draw recall against bytes and time to this file")
    add_out_option(parser)
    return parser.parse_args()


def cases_of(name: str, options: argparse.Namespace) -> Iterator[dict]:
    try:
        rows = rows_of(name, options.quick)
    except (OSError, ValueError) as error:
        print(f"{name} is left out: {error}")
        return
    for contender in contenders(rows.database.shape[1], options.quick):
        if options.only is None or contender.name.startswith(tuple(options.only)):
            case = {"data": name, **measured(contender, rows)}
            show(case)
            yield case


def rows_of(name: str, quick: bool) -> Rows:
    """The data of a name, as single precision."""
    folder = Path(os.environ.get("HASHLEARN_DATA", "."))
    if name == "cnn":
        dataset = load(folder / "cifar10_cnn1280.npz", array="V")
    elif name == "text":
        dataset = load(folder / "agnews_minilm384.npz")
    else:
        dataset = load({"gist": "cifar-10", "mnist": "mnist", "flickr": "flickr25k"}[name], download=False)
    database, queries = (np.ascontiguousarray(part, np.float32) for part in (dataset.database, dataset.queries))
    if name == "cnn":
        database, queries = (6 * (part / 255) ** 2 for part in (database, queries))  # the file's own coding
    if quick:
        database, queries = database[:QUICK_ROWS], queries[:QUICK_QUERIES]
    return Rows(database, queries, true_neighbors(database, queries, 10))


def measured(contender: Contender, rows: Rows) -> dict:
    """Recall, bytes, and seconds of the process."""
    start = time.process_time()
    contender.train(rows.database)
    trained = time.process_time()
    contender.add(rows.database)
    added = time.process_time()
    contender.search(rows.queries[:10], 100)  # compiles
    begun = time.process_time()
    ids = contender.search(rows.queries, 100)
    seconds = time.process_time() - begun
    hits = [[len(np.intersect1d(found[:n], true)) for found, true in zip(ids, rows.truth)] for n in (10, 100)]
    recall = np.mean(hits, axis=1) / rows.truth.shape[1]
    return {
        "method": contender.name,
        "bytes": contender.bytes_per_row,
        "recall_10": round(float(recall[0]), 4),
        "recall_100": round(float(recall[1]), 4),
        "train_seconds": trained - start,
        "add_seconds": added - trained,
        "search_microseconds": seconds / len(rows.queries) * 1e6,
        "n_rows": len(rows.database),
    }


def speed(options: argparse.Namespace) -> Iterator[Ratio]:
    for n_bits in SCANS:
        if f"scan-{n_bits}" in options.speed:
            yield from scans(n_bits, QUICK_CODES if options.quick else 1_000_000, ROUNDS)
    if {"encode", "train"} & set(options.speed):
        X = clusters(QUICK_ROWS if options.quick else 60_000, 512).astype(np.float32)
        if "encode" in options.speed:
            yield encoding(X, ROUNDS)
        if "train" in options.speed and not options.quick:
            yield training(X)


def show(case: dict) -> None:
    print(
        f"{case['data']:8}{case['method']:32}{case['bytes']:7.0f} bytes   10@10 {case['recall_10']:.3f}   10@100 "
        f"{case['recall_100']:.3f}   train {case['train_seconds']:6.1f} s   add {case['add_seconds']:6.1f} s   "
        f"{case['search_microseconds']:8.0f} us/query",
        flush=True,
    )


def show_targets(folder: Path) -> None:
    print()
    for what, wanted, measured, missed in target_rows(folder):
        print(f"{what:<85}{wanted:>10}{measured:>15}   {missed}".rstrip())


if __name__ == "__main__":
    main()
