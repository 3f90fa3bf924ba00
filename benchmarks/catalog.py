"""What changes, filters, opening and refreshing a search cost at a million rows, beside bare SQLite.

    python benchmarks/catalog.py --rows 1000000 --out benchmarks/results/catalog.jsonl

A search of string ids, payloads and kept vectors lies in a folder. One-row changes are timed beside a bare SQLite
database of the same rows (write-ahead log, synchronous=FULL) that replaces one row with the same bytes and commits, in
turn. Filters, opening in a new process and refreshing after a change by another process are timed on the same folder.
``--other PATH`` times the bulk add also with the package of another checkout, in a process of its own.
``--folder PLACE`` keeps the rows for another run, and ``--only`` measures some parts: so it can be run in pieces.
"""

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_FEATURES, N_BITS = 64, 128
PARTS = ("query", "bulk", "changes", "filters", "opening", "refresh")
COLORS = ("red", "green", "blue", "white", "black")


def rows_of(n: int) -> tuple[np.ndarray, list[str], list[dict]]:
    X = np.random.default_rng(0).standard_normal((n, N_FEATURES), dtype=np.float32)
    ids = [f"photo-{number * 7919 % (10 * n):08}" for number in range(n)]
    return X, ids, [{"year": 1950 + number % 77, "color": COLORS[number % 5], "n": number} for number in range(n)]


def fitted(X: np.ndarray):
    from hashlearn import ITQ, SimilaritySearch

    hasher = ITQ(n_bits=64, random_state=0, max_iter=5).fit(X[:20_000])
    return SimilaritySearch(hasher, keep_vectors="int8")


def quantiles(seconds: list[float]) -> dict[str, float]:
    p50, p99 = np.quantile(seconds, [0.5, 0.99])
    return {"p50_ms": round(1e3 * p50, 4), "p99_ms": round(1e3 * p99, 4)}


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bulk_add(n: int, folder: str) -> float:
    X, ids, payloads = rows_of(n)
    search = fitted(X)
    search.add(X[:100], [f"first {i}" for i in range(100)], payloads[:100])  # what is compiled is compiled now
    search.save(Path(folder) / "bulk")
    start = time.perf_counter()
    search.add(X, ids, payloads)
    search.save()
    return time.perf_counter() - start


def bare_sqlite(path: Path, n: int, vector_bytes: int) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE t (id TEXT PRIMARY KEY, payload TEXT, code BLOB, vector BLOB)")
    _, ids, payloads = rows_of(n)
    db.execute("BEGIN")
    code, vector = b"c" * (N_BITS // 8 + 1), b"v" * vector_bytes
    rows = ((id, json.dumps(payload), code, vector) for id, payload in zip(ids, payloads))
    db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    db.execute("COMMIT")
    return db


def replace_one(db: sqlite3.Connection, id: str, payload: dict, vector: bytes) -> None:
    db.execute("BEGIN IMMEDIATE")
    row = (id, json.dumps(payload), b"d" * (N_BITS // 8 + 1), vector)
    db.execute("INSERT OR REPLACE INTO t VALUES (?, ?, ?, ?)", row)
    db.execute("COMMIT")


def remove_one(db: sqlite3.Connection, id: str) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM t WHERE id = ?", (id,))
    db.execute("COMMIT")


def one_row_changes(search, db: sqlite3.Connection, n: int, n_changes: int) -> dict:
    rng = np.random.default_rng(1)
    _, ids, _ = rows_of(n)
    drawn = rng.choice(n, min(n, 10 * n_changes), replace=False).tolist()
    chosen = [number for number in drawn if ids[number] in search][: 2 * n_changes]  # an earlier run has removed some
    times: dict[str, list[float]] = {name: [] for name in ("upsert", "sqlite replace", "remove", "sqlite delete")}
    vector = b"w" * N_FEATURES
    for turn, number in enumerate(chosen[:n_changes]):
        x, payload = rng.standard_normal((1, N_FEATURES)).astype(np.float32), {"year": 2000 + turn % 20, "color": "red"}
        times["upsert"].append(timed(lambda x=x, p=payload, n=number: search.upsert(x, [ids[n]], [p])))
        times["sqlite replace"].append(timed(lambda p=payload, n=number: replace_one(db, ids[n], p, vector)))
    for number in chosen[n_changes:]:
        times["remove"].append(timed(lambda n=number: search.remove([ids[n]])))
        times["sqlite delete"].append(timed(lambda n=number: remove_one(db, ids[n])))
    return {name: quantiles(seconds) for name, seconds in times.items()}


def filters(search, ids: list[str]) -> dict:
    """Times of a query, without and with a filter: when it is first used, again, and after a change of one row."""
    rng = np.random.default_rng(2)
    Q = rng.standard_normal((50, N_FEATURES)).astype(np.float32)
    search.search(Q[:1], 10, filter={"color": "red"})
    plain = [timed(lambda q=q: search.search(q[None], 10)) for q in Q]
    first = timed(lambda: search.search(Q[:1], 10, filter={"year": {"$gte": 2000}}))
    again = [timed(lambda q=q: search.search(q[None], 10, filter={"year": {"$gte": 2000}})) for q in Q]
    written = []
    for turn, q in enumerate(Q):
        search.upsert(q[None], [ids[turn]], [{"year": 2001}])
        written.append(timed(lambda q=q: search.search(q[None], 10, filter={"year": {"$gte": 2000}})))
    return {
        "unfiltered": quantiles(plain),
        "first_ms": round(1e3 * first, 3),
        "again": quantiles(again),
        "after a write": quantiles(written),
    }


OPEN = """
import resource, sys, time
import numpy as np
from hashlearn import SimilaritySearch
import hashlearn.search.rows, hashlearn.index.hamming
q = np.zeros((1, {n_features}), np.float32)
rss = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
anon = lambda: sum(int(l.split()[1]) for l in open("/proc/self/smaps_rollup") if l.startswith("Anonymous")) * 1024
SimilaritySearch.open(sys.argv[2]).search(q, 10)  # compiled loops are loaded
before = anon()
start = time.perf_counter()
search = SimilaritySearch.open(sys.argv[1])
opened = time.perf_counter()
search.search(q, 10)
print(opened - start, time.perf_counter() - start, anon() - before)
"""


def opening(folder: Path, small: Path) -> dict:
    runs = []
    for _ in range(3):
        command = [sys.executable, "-c", OPEN.format(n_features=N_FEATURES), str(folder), str(small)]
        runs.append(
            [float(x) for x in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]
        )
    opened, with_search, memory = np.median(runs, axis=0)
    return {
        "open_s": round(opened, 4),
        "with_first_search_s": round(with_search, 4),
        "memory_mb": round(memory / 1e6, 1),
    }


CHANGE = """
import sys
import numpy as np
from hashlearn import SimilaritySearch
search = SimilaritySearch.open(sys.argv[1])
for line in sys.stdin:
    search.upsert(np.full((1, {n_features}), float(line), np.float32), ["changed"])
    print("done", flush=True)
"""


def refreshing(search, folder: Path) -> dict:
    command = [sys.executable, "-c", CHANGE.format(n_features=N_FEATURES), str(folder)]
    nothing, one = [], []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        for turn in range(20):
            other.stdin.write(f"{turn}\n")
            other.stdin.flush()
            other.stdout.readline()
            one.append(timed(search.refresh))
            nothing.append(timed(search.refresh))
        other.stdin.close()
    return {"one change": quantiles(one), "nothing": quantiles(nothing)}


def one_query(vectors: Path) -> dict:
    """Times of one query with 100 candidates that are reranked by int8 vectors, beside the bare scan of the codes.

    The same search in lists, which is the default for as many rows, stands beside a bare index of the same lists, which
    compares candidates by float32 vectors.
    """
    from hashlearn import ABH, SimilaritySearch
    from hashlearn.index import PartitionedIndex

    X = np.load(vectors, mmap_mode="r")
    rng = np.random.default_rng(3)
    Q = np.asarray(X[np.sort(rng.choice(len(X), 300, replace=False))], np.float32)
    hasher = ABH(n_bits=128, metric="cosine", random_state=0).fit(np.asarray(X[:50_000], np.float32))
    times: dict[str, list[float]] = {"bare scan": [], "flat": [], "bare lists": [], "lists": []}
    flat, lists = (SimilaritySearch(hasher, keep_vectors="int8", index=kind).add(X) for kind in ("flat", "lists"))
    index, rows = flat.index, np.asarray(X, np.float32)
    bare = PartitionedIndex(128, metric="cosine", random_state=0).fit(rows).add(rows).tune(rows)
    for q in Q:
        weights = hasher.query_weights(q[None])
        times["bare scan"].append(timed(lambda w=weights: index.search(w, 100)))
        times["flat"].append(timed(lambda q=q: flat.search(q[None], 10, candidates=100)))
        times["bare lists"].append(timed(lambda q=q: bare.search(q[None], 10, recall=0.95, vectors=rows)))
        times["lists"].append(timed(lambda q=q: lists.search(q[None], 10)))
    return {"rows": len(X), **{name: quantiles(seconds[20:]) for name, seconds in times.items()}}


def prepared(place: Path, n: int) -> None:
    """Make the search, a small one and the bare database, unless they are there."""
    if (place / "bare.db").exists():
        return
    X, ids, payloads = rows_of(n)
    fitted(X).add(X[:100], ids[:100], payloads[:100]).save(place / "small")
    fitted(X).add(X, ids, payloads).save(place / "search")
    bare_sqlite(place / "bare.db", n, N_FEATURES).close()


def bulk_adds(n: int, other: str | None) -> dict:
    found = {}
    for name, source in {"bulk add": None, "bulk add, other": other}.items():
        if name == "bulk add" or source:
            environment = os.environ | ({"PYTHONPATH": source} if source else {})
            command = [sys.executable, __file__, "--rows", str(n), "--bulk-only"]
            run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            found[name] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=500)
    parser.add_argument("--other", help="the src folder of another checkout, for the bulk add")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--bulk-only", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the rows are kept for another run")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--vectors", type=Path, help="a .npy file of vectors, for the time of one query")
    options = parser.parse_args()
    n = options.rows
    with tempfile.TemporaryDirectory() as folder:
        if options.bulk_only:
            print(json.dumps({"bulk_add_s": bulk_add(n, folder)}))
            return
        from hashlearn.experiments.results import provenance  # --other may be without

        results: dict = {"rows": n, **provenance(("numpy", "numba"))}

        def keep(name: str, found: dict) -> None:
            results[name] = found
            print(json.dumps({name: found}, indent=1), flush=True)

        if options.vectors and "query" in options.only:
            keep("one query", one_query(options.vectors))
        if "bulk" in options.only:
            for name, found in bulk_adds(n, options.other).items():
                keep(name, found)
        if set(options.only) & {"changes", "filters", "opening", "refresh"}:
            from hashlearn import SimilaritySearch

            place = options.folder or Path(folder)
            place.mkdir(exist_ok=True)
            prepared(place, n)
            results["folder_mb"] = round(sum(f.stat().st_size for f in (place / "search").rglob("*")) / 1e6, 1)
            search, (_, ids, _) = SimilaritySearch.open(place / "search"), rows_of(n)
            search.search(np.zeros((1, N_FEATURES), np.float32), 10)
            if "changes" in options.only:
                db = sqlite3.connect(place / "bare.db", isolation_level=None)
                db.execute("PRAGMA synchronous = FULL")
                keep("one row", one_row_changes(search, db, n, options.changes))
            if "filters" in options.only:
                keep("filters", filters(search, ids))
            if "opening" in options.only:
                keep("opening", opening(place / "search", place / "small"))
            if "refresh" in options.only:
                keep("refresh", refreshing(search, place / "search"))
        results["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
    if options.out:
        with options.out.open("a") as file:
            file.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
