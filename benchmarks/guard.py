"""What the guard on write costs (``search.add(..., duplicates="flag")``): beside a search for the same rows.

    python benchmarks/guard.py VECTORS.npy                # a million rows of the file, and some more as new ones
    python benchmarks/guard.py VECTORS.npy --rows 100000

Of the new rows, one in ten is a row of the search with a little noise, and must be found. All run on one thread. Calls
take turns: a search for the new rows, an addition of them, an addition with the guard. A figure is the median. A run
adds one line to ``results/guard.jsonl``.
"""

import os

from machine import all_instructions, one_thread

os.environ.update(one_thread() | all_instructions())

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from runs import add_out_option, append_run

from hashlearn import ITQ, SimilaritySearch

NOISE = 0.02
COPIES = 10
"""One new row in 10 is a copy."""


def main() -> None:
    options = parse()
    vectors = np.load(options.vectors, mmap_mode="r")
    rows = np.asarray(vectors[: options.rows], np.float32)
    new, originals = new_rows(rows, np.asarray(vectors[options.rows :], np.float32), options.new)
    max_distance = 2 * NOISE * float(np.median(np.linalg.norm(rows[:10_000], axis=1)))
    for index in options.index:
        hasher = ITQ(n_bits=options.bits, random_state=0).fit(rows[:50_000])
        search = SimilaritySearch(hasher, keep_vectors="float32", index=index).add(rows).warm()
        first = seconds(lambda search=search: search.upsert(new[:1], [len(search)], duplicates="flag", max_distance=0))
        search.remove([len(rows)])
        measured = [measure(search, new, originals, size, max_distance, options.rounds) for size in (1, len(new))]
        for each in measured:
            print({name: round(value, 3) if isinstance(value, float) else value for name, value in each.items()})
        exact = exact_copies_found(search, rows)
        print({"exact_copies_found": exact, "first_guarded_seconds": first})
        measured = [{**each, "exact_copies_found": exact} for each in measured]
        run = {
            "first_guarded_seconds": first,
            "rows": len(rows),
            "features": rows.shape[1],
            "bits": options.bits,
            "index": index,
            "blocks": measured,
        }
        append_run(options.out, "guard", run)


def new_rows(rows: NDArray, others: NDArray, n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows to add, and the row that each is a copy of, or -1."""
    rng = np.random.default_rng(0)
    new = others[rng.choice(len(others), n, replace=False)]
    originals = np.full(n, -1)
    originals[::COPIES] = rng.choice(len(rows), len(originals[::COPIES]), replace=False)
    is_copy = originals >= 0
    noise = rng.standard_normal((np.count_nonzero(is_copy), rows.shape[1])).astype(np.float32)
    lengths = np.linalg.norm(rows[originals[is_copy]], axis=1) / np.linalg.norm(noise, axis=1)
    new[is_copy] = rows[originals[is_copy]] + NOISE * lengths[:, None] * noise
    return new, originals


def measure(
    search: SimilaritySearch, new: NDArray, originals: NDArray, size: int, max_distance: float, rounds: int
) -> dict[str, Any]:
    """Times for blocks of a size; what is added is removed again."""
    n = len(search)
    ids = np.arange(n, n + size)
    times: dict[str, list[float]] = {"search": [], "add": [], "guarded add": []}
    found = wrong = 0
    starts = [size * (number % (len(new) // size)) for number in range(rounds if size > 1 else 20 * rounds)]
    for start in starts:
        part = slice(start, start + size)
        times["search"].append(seconds(lambda part=part: search.search(new[part], 10)))
        times["add"].append(seconds(lambda part=part: search.upsert(new[part], ids)))
        search.remove(ids)
        guarded = lambda part=part: search.upsert(new[part], ids, duplicates="flag", max_distance=max_distance)  # noqa: E731
        times["guarded add"].append(seconds(guarded))
        near = {each.id - n: each.of for each in search.near_rows}
        found += sum(near.get(row) == of for row, of in enumerate(originals[part].tolist()) if of >= 0)
        wrong += sum(of >= 0 and near.get(row) != of for row, of in enumerate(originals[part].tolist()))
        search.remove(ids)
    medians = {name: 1e3 * float(np.median(spent)) for name, spent in times.items()}
    guard = medians["guarded add"] - medians["add"]
    return {
        "new_rows": size,
        **{f"{name}_ms": value for name, value in medians.items()},
        "guard_ms": guard,
        "guard_in_searches": guard / medians["search"],
        "copies_found": found / max(1, found + wrong),
    }


def exact_copies_found(search: SimilaritySearch, rows: NDArray) -> float:
    """The share of 1,000 rows of the search that are found if they are added again, at distance 0."""
    again = rows[np.random.default_rng(1).choice(len(rows), 1000, replace=False)]
    n = len(search)
    search.add(again, duplicates="skip", max_distance=0)
    return 1 - (len(search) - n) / len(again)


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", help="a file of numpy with more rows than --rows")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--new", type=int, default=500, help="rows that are added at a time")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--index", nargs="+", default=["auto", "flat"])
    parser.add_argument("--rounds", type=int, default=5)
    add_out_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
