"""Training and encoding against their own floors, interleaved in one process.

    python benchmarks/training.py --quick            # under a minute, small data
    python benchmarks/training.py --out results/     # the paper's settings: about twenty minutes, 3 GB of memory

Every figure is a ratio of times measured in turns, so that what else the machine does hits both sides alike. The floors
are what the work cannot do without: for a fit scikit-learn's k-means with as many rounds, one product of the rows with
the anchors and one Gram product; for the personalized weights one direct m x m solve a feature; for encoding the two
products of the rows with the anchors and the projection. Data are clusters of Gaussians of the paper's shapes, which
cost what real data cost. The results are a JSON file and a plot.
"""

import os

os.environ.setdefault("OPENBLAS_CORETYPE", "SKYLAKEX")  # faiss' BLAS would not choose it by itself

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy.linalg
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_info

import hashlearn
from hashlearn import ITQ, JPSH
from hashlearn.hashers.terms import PersonalizedTerm
from hashlearn.linalg.anchor_sums import with_bias
from hashlearn.linalg.graphs import anchor_similarity

Setting = tuple[int, int, int, int]
"""Rows, features, anchors, rounds of the alternation."""

FULL: dict[str, Setting] = {"cifar-10": (59_000, 512, 800, 4), "mnist": (69_000, 784, 800, 10)}
QUICK: dict[str, Setting] = {"small": (6_000, 128, 200, 4)}
clock = time.perf_counter

TARGETS = {"fit cifar-10": 1.7, "fit mnist": 2.2, "encode": 1.3, "time per row": 1.15, "ITQ against faiss": 1.0}


def main() -> None:
    global clock
    options = parse()
    clock = time.process_time if options.cpu_time else time.perf_counter
    options.out.mkdir(parents=True, exist_ok=True)
    settings = QUICK if options.quick else {k: v for k, v in FULL.items() if options.only in (None, k)}
    found: list[dict] = []
    for name, setting in settings.items():
        found.append(fit_against_floor(name, setting, options.repeat))
        found.append(weights_against_solves(name, setting))
        found.append(encode_against_products(name, setting, options.repeat))
    found.append(itq_against_faiss(*((20_000, 128) if options.quick else (69_000, 784)), options.repeat))
    found += rows_against_time((5_000, 20_000) if options.quick else (250_000, 500_000, 1_000_000), options.quick)
    for line in found:
        line["target"] = next((limit for key, limit in TARGETS.items() if line["what"].startswith(key)), None)
        print(f"{line['what']:<45} {line['ratio']:6.2f}   target {line['target'] or '-'}")
    result = {"machine": machine(), "results": found}
    (options.out / "training.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    plot(found, options.out / "training.svg")


def fit_against_floor(name: str, setting: Setting, repeat: int) -> dict:
    """JPSH's fit against k-means from the same rows, one product with the anchors and one Gram product."""
    n, d, m, rounds = setting
    X = clusters(n, d)

    def fit():
        JPSH.paper("mnist", 64, n_anchors=m, max_iter=rounds, random_state=0).fit(X)

    def floor():
        start = X[np.random.RandomState(0).choice(n, m, replace=False)]
        anchors = KMeans(m, init=start, n_init=1, max_iter=10, tol=0, algorithm="lloyd").fit(X).cluster_centers_
        for first in range(0, n, 8192):
            X[first : first + 8192] @ anchors.T
        X.T @ X

    return ratio(f"fit {name} ({n} x {d}, m={m}, T={rounds}) / floor", fit, floor, repeat)


def weights_against_solves(name: str, setting: Setting) -> dict:
    """Direct solves of every feature's m x m system against the P step of the second round.

    A few features stand for all in the direct solves.
    """
    _, d, m, _ = setting
    C = clusters(m, d).astype(np.float64) / np.sqrt(2 * d)
    B = np.where(np.random.default_rng(1).normal(size=(64, m)) > 0, 1.0, -1.0)
    settings = {"sparsity": 1.0, "smoothness": 1.0, "epsilon": 1e-5, "ridge": 1e-3}
    term = PersonalizedTerm(with_bias(C), anchor_similarity(C, 5), 64, **settings, bias=True, tol=1e-5, keep=False)
    term.solve(B)
    first = term.P
    diagonals, edges = term._penalties(first)
    system, sampled = -edges.toarray(), range(0, d, max(1, d // 16))

    def direct():
        for feature in sampled:
            M = system + np.diag(diagonals[feature])
            scipy.linalg.cho_solve(scipy.linalg.cho_factor(M, check_finite=False), B.T, check_finite=False)

    def ours():
        term.P = first
        term.solve(B)

    line = ratio(f"Cholesky solves {name} / P step", direct, ours, 2)
    factor = d / len(sampled)
    return {**line, "ratio": line["ratio"] * factor, "seconds": [line["seconds"][0] * factor, line["seconds"][1]]}


def encode_against_products(name: str, setting: Setting, repeat: int) -> dict:
    """transform against the products X C' and X W, in the same blocks."""
    n, d, m, _ = setting
    X = clusters(n, d)
    hasher = JPSH(64, n_anchors=m, anchor_iter=2, anchor_sample=5 * m, random_state=0).fit(X[: 10 * m])
    anchors, W = hasher.anchors_.T.astype(np.float32), hasher.projection_.astype(np.float32)

    def products():
        for first in range(0, n, 8192):
            X[first : first + 8192] @ anchors
            X[first : first + 8192] @ W

    return ratio(f"encode {name} / products", lambda: hasher.transform(X), products, 2 * repeat)


def itq_against_faiss(n: int, d: int, repeat: int) -> dict:
    """Training of PCA and rotation, 50 rounds each."""
    import faiss

    X = clusters(n, d)

    def theirs():
        transform = faiss.ITQTransform(d, 64, True)
        transform.itq.max_iter = 50
        transform.max_train_per_dim = n
        transform.train(X)

    return ratio("ITQ against faiss", lambda: ITQ(64, random_state=0).fit(X), theirs, repeat)


def rows_against_time(sizes: tuple[int, ...], quick: bool) -> list[dict]:
    """Seconds a row of fits with the same number of rows for k-means, against that of the smallest."""
    sample, lines = (2_000 if quick else 50_000), []
    for n in sizes:
        X = clusters(n, 256)
        hasher = JPSH(64, n_anchors=100 if quick else 800, anchor_sample=sample, random_state=0)
        seconds = timed(lambda X=X, hasher=hasher: hasher.fit(X))
        lines.append({"what": f"time per row, n={n}", "seconds": [seconds], "per_row": seconds / n})
    return [{**line, "ratio": line["per_row"] / lines[0]["per_row"]} for line in lines]


def clusters(n: int, d: int) -> np.ndarray:
    """Rows around 100 centres, as float32."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((100, d), dtype=np.float32)
    return centres[rng.integers(0, 100, n)] + rng.standard_normal((n, d), dtype=np.float32)


def ratio(what: str, left: Callable[[], object], right: Callable[[], object], repeat: int) -> dict:
    """The least time of the left over that of the right, which take turns; both run once before."""
    if repeat > 1:
        left(), right()
    pairs = [(timed(left), timed(right)) for _ in range(repeat)]
    seconds = [min(side) for side in zip(*pairs)]
    return {"what": what, "ratio": seconds[0] / seconds[1], "seconds": seconds}


def timed(work: Callable[[], object]) -> float:
    start = clock()
    work()
    return clock() - start


def machine() -> dict:
    threads = {library["internal_api"]: library["num_threads"] for library in threadpool_info()}
    versions = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "faiss-cpu")}
    versions["hashlearn"] = hashlearn.__version__
    return {"processor": platform.processor(), "cores": os.cpu_count(), "threads": threads, "versions": versions}


def plot(lines: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.45 * len(lines) + 1), layout="constrained")
    names = [line["what"] for line in lines][::-1]
    axes.barh(names, [line["ratio"] for line in lines][::-1], color="#4878a8")
    for place, line in enumerate(lines[::-1]):
        if line["target"]:
            axes.plot([line["target"]] * 2, [place - 0.4, place + 0.4], color="black")
    axes.set_xscale("log")
    axes.set_xlabel("ratio (black: at most this)")
    figure.savefig(path)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small data, under a minute")
    parser.add_argument("--cpu-time", action="store_true", help="for a busy machine; with OMP_NUM_THREADS=1")
    parser.add_argument("--only", choices=[*FULL], help="one of the paper's settings")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--repeat", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
