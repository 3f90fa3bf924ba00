"""Hamming search side by side: ours against faiss, usearch and numpy, interleaved in one process, on one thread.

    python benchmarks/search.py --quick      # clustered codes, a minute on an idle machine
    python benchmarks/search.py              # the full grid: long, and 1e7 codes need memory

Every search is compared with brute force (with ``--quick`` its first ten queries): an exact contender must have its
distances, an approximate one gets its recall. Times are medians over rounds in which all
contenders take turns, so that what else the machine does hits all alike; on a busy machine ``--cpu-time`` counts
the process's own time. A run adds one line to ``results/search.jsonl`` and prints what must hold, with the fractions of
the machine's limits: popcounts out of the first-level cache, and reading memory. ``--plot FILE`` draws it.
"""

import os

from machine import all_instructions, one_thread

os.environ.update(one_thread() | all_instructions())

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numba import njit
from runs import add_out_option, append_run
from search_peers import PEERS, FaissFlat, OurAuto, OurFlat, OurTables, Peer

from hashlearn.codes import hamming_distances
from hashlearn.index.kernels.simd import any_below
from hashlearn.index.kernels.tiles import Tiles, tiled
from hashlearn.metrics import ranking_histograms, relevance_of_labels

CHECKED_WHEN_QUICK = 10
CHECKED_PAIRS = 1 << 25  # compared at a time
SETTLING_SECONDS = 5.0
COUNTING, READING = "limit of counting bits", "limit of reading codes"

# by data, bits, codes, queries and k: seconds by contender
Measurements = dict[tuple, dict[str, float]]


def main() -> None:
    options = parse()
    clock = time.process_time if options.cpu_time else time.perf_counter
    lines: list[dict] = []
    times: Measurements = {}
    for data, n_bits, codes, queries in datasets(options):
        for case in cases(data, n_bits, codes, queries, options, clock):
            lines.append(case)
            key = (data, n_bits, len(codes), case["n_queries"], case["k"])
            times[key] = case["seconds"] | case["limits"]
            show(case)
    if options.statistics:
        lines += [within_radius(options, clock), ranking_statistics(clock)]
    show_verdicts(verdicts(times, lines))
    clock_name = "process" if options.cpu_time else "wall"
    run = {"quick": options.quick, "rounds": options.rounds, "clock": clock_name, "threads": 1, "cases": lines}
    print(f"\n{append_run(options.out, 'search', run)}")
    if options.plot is not None:
        plot(times, options.plot)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small grid, under a minute")
    add_out_option(parser)
    parser.add_argument("--plot", type=Path, help="draw the times to this file")
    parser.add_argument("--cpu-time", action="store_true", help="count the process's own time (for busy machines)")
    parser.add_argument("--rounds", type=int, default=5)
    for name, kind, full in (
        ("data", str, ["random", "clustered", "real"]),
        ("bits", int, [64, 128, 256]),
        ("sizes", lambda text: int(float(text)), [100_000, 1_000_000, 10_000_000]),
        ("queries", int, [1, 100, 1000]),
        ("k", int, [1, 10, 100]),
    ):
        parser.add_argument(f"--{name}", type=kind, nargs="+", default=None, help=f"by default {full}")
        parser.set_defaults(**{f"full_{name}": full})
    parser.add_argument("--no-statistics", dest="statistics", action="store_false", help="only the grid")
    options = parser.parse_args()
    quick = {"data": ["clustered"], "bits": [64, 128, 256], "sizes": [1_000_000], "queries": [1, 100], "k": [10]}
    for name, short in quick.items():
        if getattr(options, name) is None:
            setattr(options, name, short if options.quick else getattr(options, f"full_{name}"))
    return options


def datasets(options: argparse.Namespace) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Name, bits, codes and queries."""
    n_queries = max(options.queries)
    for data in options.data:
        for n_bits in options.bits:
            if data == "real":
                yield from real_codes(n_bits, n_queries)
                continue
            for n in options.sizes:
                rng = np.random.default_rng(0)
                together = (random_codes if data == "random" else clustered_codes)(n + n_queries, n_bits, rng)
                yield data, n_bits, together[:n], together[n:]


def random_codes(n: int, n_bits: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)


def clustered_codes(n: int, n_bits: int, rng: np.random.Generator) -> np.ndarray:
    """About 100 codes around each of n / 100 centers, one bit in 20 flipped."""
    centers = random_codes(max(1, n // 100), n_bits, rng)
    codes = np.empty((n, n_bits // 8), np.uint8)
    for start in range(0, n, 1 << 18):
        block = codes[start : start + (1 << 18)]
        flips = np.packbits(rng.random((len(block), n_bits), dtype=np.float32) < 0.05, axis=1)
        block[:] = centers[rng.integers(0, len(centers), len(block))] ^ flips
    return codes


def real_codes(n_bits: int, n_queries: int) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Codes of MNIST where the data is there (see ``hashlearn data info``), of scikit-learn's digits otherwise."""
    from hashlearn import ITQ, JPSH
    from hashlearn.datasets import load

    try:
        dataset = load("mnist")
    except (OSError, ValueError):
        dataset = load("digits")
    rows = np.random.default_rng(0).permutation(len(dataset))
    X = np.asarray(dataset.features)[rows].astype(np.float32)
    for hasher in (JPSH(n_bits=n_bits, random_state=0), ITQ(n_bits=n_bits, random_state=0)):
        try:
            codes = hasher.fit(X[n_queries:]).transform(X)
        except ValueError as error:
            print(f"{type(hasher).__name__} at {n_bits} bits on {dataset.name}: {error}")
            continue
        yield f"{type(hasher).__name__} of {dataset.name}", n_bits, codes[n_queries:], codes[:n_queries]


def cases(data, n_bits, codes, queries, options, clock) -> Iterator[dict]:
    """Measure all contenders for each number of queries and each k."""
    peers: dict[str, Peer] = {}
    built: dict[str, float] = {}
    for kind in PEERS:
        if not left_out(kind, len(codes), min(options.queries), n_bits, options.quick):
            start = clock()
            peers[kind.name] = kind(codes, n_bits)
            built[kind.name] = clock() - start
    checked = queries[: CHECKED_WHEN_QUICK if options.quick else max(options.queries)]
    distances = nearest_distances(checked, codes, n_bits, max(options.k))
    for k in options.k:
        truth = distances[:, :k]
        warm_up(peers, queries, k)
        for n_queries in options.queries:
            asked = queries[:n_queries]
            fit = {
                kind.name: peers[kind.name]
                for kind in PEERS
                if kind.name in peers and not left_out(kind, len(codes), n_queries, n_bits, options.quick)
            }
            recalls = {name: check(peer, asked, k, truth) for name, peer in fit.items()}
            calls = {name: partial(peer.search, asked, k) for name, peer in fit.items()}
            calls |= limits(len(codes), n_bits, n_queries)
            seconds = take_turns(calls, options.rounds, clock)
            yield {
                "kind": "case",
                "data": data,
                "n_bits": n_bits,
                "n_codes": len(codes),
                "n_queries": n_queries,
                "k": k,
                "seconds": {name: value for name, value in seconds.items() if name in fit},
                "limits": {name: value for name, value in seconds.items() if name not in fit},
                "recall": recalls,
                "build_seconds": built,
                "left_out": sorted({kind.name for kind in PEERS} - set(fit)),
            }


def nearest_distances(queries: np.ndarray, codes: np.ndarray, n_bits: int, k: int) -> np.ndarray:
    """The distances of the k nearest codes of every query by brute force, ascending."""
    step = max(1, CHECKED_PAIRS // len(codes))
    blocks = (hamming_distances(queries[i : i + step], codes, n_bits) for i in range(0, len(queries), step))
    return np.concatenate([np.sort(np.partition(block, k - 1, axis=1)[:, :k], axis=1) for block in blocks])


def left_out(kind: type[Peer], n_codes: int, n_queries: int, n_bits: int, quick: bool) -> bool:
    """Would it take too long? In a quick run, all that takes long for 1e7 pairs would."""
    return kind.costs_too_much(n_codes, n_queries * (20 if quick else 1), n_bits)


def warm_up(peers: dict[str, Peer], queries: np.ndarray, k: int) -> None:
    """Compile, build our tables, and let the automatic choice see enough searches to settle."""
    for kind in (OurFlat, OurTables):
        if kind.name in peers:
            peers[kind.name].search(queries[:64], k)
    if OurAuto.name in peers:
        until = time.perf_counter() + SETTLING_SECONDS
        while time.perf_counter() < until:
            peers[OurAuto.name].search(queries[:512], k)


def check(peer: Peer, queries: np.ndarray, k: int, truth: np.ndarray) -> float:
    """Recall by distance, so that ties are fair; an exact contender must have all of it."""
    distances = np.sort(np.asarray(peer.search(queries, k)[0], np.int64), axis=1)
    true = truth[: len(queries)]
    if peer.exact and not np.array_equal(distances[: len(true)], true):
        raise AssertionError(f"{peer.name} does not return the nearest codes")
    if distances.shape[1] < k:
        return 0.0
    return float(np.mean(distances[: len(true)] <= true[:, -1:]))


def take_turns(calls: dict[str, Callable], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Median seconds of each call; in every round each is run in turn, short ones several times, the longest once.

    The first time a call may compile or read from disk, so that does not count.
    """
    repeats, taken = {}, {}
    for name, call in calls.items():
        call()
        start = clock()
        call()
        taken[name] = [clock() - start]
        repeats[name] = int(np.clip(0.02 / max(taken[name][0], 1e-6), 1, 50))
    slow = {name for name, (seconds,) in taken.items() if seconds > 1}
    for name in calls.keys() - slow:
        taken[name].clear()
    for _ in range(rounds):
        for name, call in calls.items():
            if name in slow:
                continue
            start = clock()
            for _ in range(repeats[name]):
                call()
            taken[name].append((clock() - start) / repeats[name])
    return {name: statistics.median(values) for name, values in taken.items()}


def within_radius(options: argparse.Namespace, clock: Callable[[], float]) -> dict:
    """``within(radius=3)`` of 100 queries among 1e6 clustered codes of 64 bits, against faiss."""
    codes = clustered_codes(1_000_100, 64, np.random.default_rng(0))
    queries, codes = codes[:100], codes[100:]
    peers = {kind.name: kind(codes, 64) for kind in (OurFlat, OurTables, OurAuto, FaissFlat)}
    truth = np.array([(hamming_distances(query[None], codes, 64) <= 3).sum() for query in queries])
    for _ in range(40):
        peers[OurAuto.name].within(queries, 3)
    for peer in peers.values():
        if not np.array_equal(peer.within(queries, 3), truth):
            raise AssertionError(f"{peer.name} does not find all codes within the radius")
    calls = {name: partial(peer.within, queries, 3) for name, peer in peers.items()}
    return {"kind": "within", "radius": 3, "seconds": take_turns(calls, options.rounds, clock)}


def ranking_statistics(clock: Callable[[], float]) -> dict:
    """What mAP starts from, 1,000 queries on 69,000 codes of 64 bits: our histograms against GEMM and a sort."""
    rng = np.random.default_rng(0)
    codes, queries = random_codes(69_000, 64, rng), random_codes(1000, 64, rng)
    labels, query_labels = rng.integers(0, 10, 69_000), rng.integers(0, 10, 1000)
    relevance = relevance_of_labels(query_labels, labels)
    left, right = ((2.0 * np.unpackbits(c, axis=1) - 1).astype(np.float32) for c in (queries, codes))
    part = 50  # of the queries: the rest takes as long

    def sort_all() -> None:
        order = np.argsort(-(left[:part] @ right.T), axis=1, kind="stable")
        hits = (labels[order] == query_labels[:part, None]).astype(np.float64)
        np.sum(np.cumsum(hits, axis=1) * hits / np.arange(1, hits.shape[1] + 1), axis=1)

    ranking_histograms(codes, queries, 64, relevance)
    calls = {
        "hashlearn histograms": lambda: ranking_histograms(codes, queries, 64, relevance),
        "GEMM + argsort": sort_all,
    }
    seconds = take_turns(calls, 3, clock)
    seconds["GEMM + argsort"] *= 1000 / part
    return {"kind": "ranking", "seconds": seconds}


@njit(nogil=True)
def _count_bits(tiles: Tiles, n_tiles: int):
    """Count all bits of a number of tiles in the first-level cache, again and again."""
    found = False
    in_cache = tiles.n_codes // 64
    query = np.zeros(tiles.n_front + tiles.n_back, np.uint64)
    for start in range(0, n_tiles, in_cache):
        query[0] = np.uint64(start)
        for tile in range(in_cache):
            found |= any_below(tiles, tile, query, 0, 1)
    return found


def limits(n_codes: int, n_bits: int, n_queries: int) -> dict[str, Callable]:
    """What the machine needs to count all bits of a search, and to read all codes.

    A scan of codes of several words may need less: the first half of the words is often enough.
    """
    tiles = tiled(np.full((32768 * 8 // n_bits, n_bits // 8), 255, np.uint8), n_bits)
    codes = np.ones(n_codes * n_bits // 64, np.uint64)
    _count_bits(tiles, 64)
    return {
        COUNTING: partial(_count_bits, tiles, n_codes * n_queries // 64),
        READING: codes.max,
    }


def verdicts(times: Measurements, lines: list[dict]) -> list[dict]:
    """The promises of the library and what was measured, where the run has it; a ratio is a / b of their times."""
    found = []

    def promise(what: str, at_least: float, value: float | None) -> None:
        if value is not None:
            found.append({"what": what, "at_least": at_least, "measured": round(value, 2)})

    def ratio(key: tuple, slower: str, faster: str) -> float | None:
        case = times.get(key, {})
        return case[slower] / case[faster] if slower in case and faster in case else None

    for n_queries, wanted in ((100, (10, 8, 6)), (1, (2, 1.7, 1.5))):
        for n_bits, least in zip((64, 128, 256), wanted):
            for data in ("random", "clustered"):
                key = (data, n_bits, 1_000_000, n_queries, 10)
                what = f"flat / faiss flat, 1e6 {data}, {n_bits} bits, {n_queries} queries"
                promise(what, least, ratio(key, FaissFlat.name, OurFlat.name))
                if n_queries == 100:
                    what = f"{COUNTING} / flat, {data}, {n_bits} bits"
                    promise(what, 0.8, ratio(key, COUNTING, OurFlat.name))
    key = ("clustered", 64, 10_000_000, 1000, 10)
    promise("multi-index / own flat, 1e7 clustered, 64 bits", 20, ratio(key, OurFlat.name, OurTables.name))
    for key in times:
        if key[0] == "random" and key[3] >= 100:
            promise(f"auto / flat (at least 1 / 1.15), {key}", 0.87, ratio(key, OurFlat.name, OurAuto.name))
    for line in lines:
        seconds = line.get("seconds", {})
        if line["kind"] == "within":
            promise("within 3 / faiss range_search", 10, seconds[FaissFlat.name] / seconds[OurAuto.name])
        if line["kind"] == "ranking":
            value = seconds["GEMM + argsort"] / seconds["hashlearn histograms"]
            promise("ranking statistics / GEMM + argsort", 100, value)
    return found


def show_verdicts(found: list[dict]) -> None:
    print("\nat least   measured")
    for line in found:
        mark = "" if line["measured"] >= line["at_least"] else "   <-- missed"
        print(f"{line['at_least']:8.2f}  {line['measured']:9.2f}   {line['what']}{mark}")


def show(case: dict) -> None:
    seconds = case["seconds"]
    base = seconds[OurFlat.name]
    where = f"{case['data']}, {case['n_bits']} bits, {case['n_codes']:.0e} codes"
    print(f"\n{where}, {case['n_queries']} queries, k={case['k']}")
    for name, value in sorted(seconds.items(), key=lambda item: item[1]):
        each = value / case["n_queries"] * 1e6
        print(f"  {name:28} {each:12.1f} us/query  {value / base:8.2f} x our flat  recall {case['recall'][name]:.3f}")
    for name, value in case["limits"].items():
        print(f"  our flat reaches {value / base:.2f} of the {name}")


def plot(times: Measurements, path: Path) -> None:
    """Microseconds per query against the number of codes, a panel for each kind of codes and number of bits."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n_queries = 100 if any(key[3] == 100 for key in times) else max(key[3] for key in times)
    k = 10 if any(key[4] == 10 for key in times) else max(key[4] for key in times)
    panels = sorted({key[:2] for key in times})
    figure, axes = plt.subplots(1, len(panels), figsize=(4 * len(panels), 4), squeeze=False, sharey=True)
    for panel, axis in zip(panels, axes[0]):
        for name in [kind.name for kind in PEERS]:
            points = sorted(
                (key[2], case[name] / n_queries * 1e6)
                for key, case in times.items()
                if key[:2] == panel and key[3:] == (n_queries, k) and name in case
            )
            if points:
                axis.loglog(*zip(*points), marker="o", label=name)
        axis.set(title=f"{panel[0]}, {panel[1]} bits", xlabel="codes")
    axes[0][0].set_ylabel(f"us per query ({n_queries} queries, k={k}, one thread)")
    axes[0][-1].legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
