"""Training and encoding against their own floors, in turns within one process.

    python benchmarks/training.py --quick    # under a minute, small data
    python benchmarks/training.py            # the paper's settings: five minutes, 3 GB of memory
    python benchmarks/training.py --large    # and 4,000,000 rows, a cluster: 20 minutes, 10 GB of disk

Every figure is a ratio of times measured in turns, so that what else the machine does hits both sides alike. The floors
are what the work cannot do without: for a fit scikit-learn's k-means with as many rounds, one product of the rows with
the anchors and one Gram product; for the personalized weights one direct m x m solve a feature; for encoding the two
products of the rows with the anchors and the projection. The data are MNIST and CIFAR-10 GIST where ``HASHLEARN_DATA``
has them, else clusters of Gaussians of their shapes. A run adds one line to ``results/training.jsonl``; ``--plot FILE``
draws it.
"""

import os

from machine import all_instructions

os.environ.update(all_instructions())

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.linalg
from large import cluster_against_one_thread, memory_of_fit, time_per_row
from runs import add_out_option, append_run
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_info
from training_plot import plot

from hashlearn import ITQ, JPSH
from hashlearn.datasets import load
from hashlearn.linalg.personalized import IdentityPenalty, PenaltyRule, anchor_similarity

Setting = tuple[int, int, int, int]
"""Rows, features, anchors, rounds of the alternation."""

FULL: dict[str, Setting] = {"cifar-10": (59_000, 512, 800, 4), "mnist": (69_000, 784, 800, 10)}
QUICK: dict[str, Setting] = {"small": (6_000, 128, 200, 4)}
clock = time.perf_counter
PAUSE = 0.1
"""Seconds before a measurement: BLAS leaves its threads spinning for a while, at the cost of whoever comes next."""

TARGETS = {
    "fit cifar-10": 1.7,
    "fit mnist": 2.2,
    "encode": 1.3,
    "time per row": 1.15,
    "ITQ against faiss": 1.0,
    "memory": 700,
}
AT_LEAST = {"Cholesky solves mnist": 20, "one thread against a cluster": 1.6}


def main() -> None:
    global clock
    options = parse()
    clock = time.process_time if options.cpu_time else time.perf_counter
    settings = QUICK if options.quick else {k: v for k, v in FULL.items() if options.only in (None, k)}
    found: list[dict] = []
    for name, setting in settings.items():
        X, kind = rows_of(name, setting)
        found.append(fit_against_floor(name, X, setting, options.repeat) | {"data": kind})
        found.append(weights_against_solves(name, X, setting) | {"data": kind})
        found.append(encode_against_products(name, X, setting, options.repeat) | {"data": kind})
    shape = (20_000, 128) if options.quick else (69_000, 784)
    found.append(itq_against_faiss(clusters(*shape), options.repeat))
    if options.large:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            found += time_per_row(Path(folder), (250_000, 1_000_000, 4_000_000))
            found.append(memory_of_fit(Path(folder), 4_000_000))
            found += cluster_against_one_thread(Path(folder), 1_000_000)
    for line in found:
        marks = {} if options.quick else {**TARGETS, **AT_LEAST}
        target = next((limit for key, limit in marks.items() if line["what"].startswith(key)), None)
        line["target"], line["at_least"] = target, any(line["what"].startswith(key) for key in AT_LEAST)
        wanted = "" if target is None else f"wanted: at {'least' if line['at_least'] else 'most'} {target}"
        print(f"{line['what']:<62} {line['ratio']:7.2f}   {wanted}")
    threads = {library["internal_api"]: library["num_threads"] for library in threadpool_info()}
    clock_name = "process" if options.cpu_time else "wall"
    run = {"quick": options.quick, "repeat": options.repeat, "clock": clock_name, "threads": threads, "ratios": found}
    print(append_run(options.out, "training", run))
    if options.plot is not None:
        plot(found, options.plot)


def rows_of(name: str, setting: Setting) -> tuple[np.ndarray, str]:
    """The real data of a setting and what they are, or clusters of the same shape."""
    n, d, _, _ = setting
    if os.environ.get("HASHLEARN_DATA") and name in FULL:
        dataset = load(name)
        if dataset.database.shape == (n, d):
            return dataset.database.astype(np.float32) / np.float32(255 if name == "mnist" else 1), "real"
    return clusters(n, d), "clusters"


def fit_against_floor(name: str, X: np.ndarray, setting: Setting, repeat: int) -> dict:
    """JPSH's fit against k-means from the same rows, one product with the anchors and one Gram product."""
    n, d, m, rounds = setting

    def fit():
        JPSH.paper("mnist", 64, n_anchors=m, max_iter=rounds, random_state=0).fit(X)

    def floor():
        start = X[np.random.RandomState(0).choice(n, m, replace=False)]
        anchors = KMeans(m, init=start, n_init=1, max_iter=10, tol=0, algorithm="lloyd").fit(X).cluster_centers_
        for first in range(0, n, 8192):
            X[first : first + 8192] @ anchors.T
        X.T @ X

    return ratio(f"fit {name} ({n} x {d}, m={m}, T={rounds}) / floor", fit, floor, repeat)


def weights_against_solves(name: str, X: np.ndarray, setting: Setting) -> dict:
    """Direct solves of every feature's m x m system against the P step, the median over its rounds.

    A few features stand for all in the direct solves, whose time does not depend on the numbers.
    """
    _, d, m, rounds = setting
    C = X[:: len(X) // m][:m].astype(np.float64)
    with_bias = np.hstack([C, np.ones((m, 1))])
    S = anchor_similarity(C, 5)
    T = np.where(np.random.default_rng(1).normal(size=(m, 64)) > 0, 1.0, -1.0)
    rule = PenaltyRule(lambda1=1.0, lambda2=1.0, epsilon=1e-5, ridge=1e-3, bias=True)
    penalty = rule.at(IdentityPenalty(S).solve(with_bias, T, 1e-5), S)
    edges, sampled = penalty.edges.toarray(), range(0, d, max(1, d // 16))

    def direct():
        for feature in sampled:
            M = np.diag(penalty.diagonals[feature]) - edges
            scipy.linalg.cho_solve(scipy.linalg.cho_factor(M, check_finite=False), T, check_finite=False)

    def ours():
        nonlocal penalty
        penalty = rule.at(penalty.solve(with_bias, T, 1e-5), S)

    ours()  # compiles
    pairs = [(timed(direct) * d / len(sampled), timed(ours)) for _ in range(rounds - 1)]
    seconds = [float(np.median(side)) for side in zip(*pairs)]
    return {"what": f"Cholesky solves {name} / P step", "ratio": seconds[0] / seconds[1], "seconds": seconds}


def encode_against_products(name: str, X: np.ndarray, setting: Setting, repeat: int) -> dict:
    """transform against the products X C' and X W, in the same blocks."""
    n, _, m, _ = setting
    hasher = JPSH(64, n_anchors=m, kmeans_max_iter=2, kmeans_sample=5 * m, random_state=0).fit(X[: 10 * m])
    anchors, W = hasher.anchors_.T.astype(np.float32), hasher.projection_.astype(np.float32)

    def products():
        for first in range(0, n, 8192):
            X[first : first + 8192] @ anchors
            X[first : first + 8192] @ W

    return ratio(f"encode {name} / products", lambda: hasher.transform(X), products, 3 * repeat)


def itq_against_faiss(X: np.ndarray, repeat: int) -> dict:
    """Training of PCA and rotation, 50 rounds each."""
    import faiss

    def theirs():
        transform = faiss.ITQTransform(X.shape[1], 64, True)
        transform.itq.max_iter = 50
        transform.max_train_per_dim = len(X)
        transform.train(X)

    return ratio("ITQ against faiss", lambda: ITQ(64, random_state=0).fit(X), theirs, repeat)


def clusters(n: int, d: int) -> np.ndarray:
    """Rows around 100 centers, as float32."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((100, d), dtype=np.float32)
    return centers[rng.integers(0, 100, n)] + rng.standard_normal((n, d), dtype=np.float32)


def ratio(what: str, left: Callable[[], object], right: Callable[[], object], repeat: int) -> dict:
    """The least time of the left over that of the right, which take turns; both run once before."""
    if repeat > 1:
        left(), right()
    pairs = [(timed(left), timed(right)) for _ in range(repeat)]
    seconds = [min(side) for side in zip(*pairs)]
    return {"what": what, "ratio": seconds[0] / seconds[1], "seconds": seconds}


def timed(work: Callable[[], object]) -> float:
    time.sleep(PAUSE)
    start = clock()
    work()
    return clock() - start


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small data, under a minute")
    parser.add_argument("--large", action="store_true", help="also data beyond memory and a cluster of two processes")
    parser.add_argument("--cpu-time", action="store_true", help="for a busy machine; with OMP_NUM_THREADS=1")
    parser.add_argument("--only", choices=[*FULL], help="one of the paper's settings")
    add_out_option(parser)
    parser.add_argument("--plot", type=Path, help="draw the ratios to this file")
    parser.add_argument("--scratch", type=Path, help="folder for the files of --large; the system's if not given")
    parser.add_argument("--repeat", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
