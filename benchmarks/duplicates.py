"""Near-duplicates side by side: ours against brute force, faiss, imagededup, datasketch and semhash, on one thread.

    python benchmarks/duplicates.py --data FOLDER               # all sets, ten minutes
    python benchmarks/duplicates.py --data FOLDER --only mnist  # one of: vectors mnist cifar texts million

``FOLDER`` has ``mnist.npz`` (X), ``cifar10_cnn1280.npz`` (V, features 6 (V / 255)^2). A set whose file is missing is
left out. Texts are paragraphs of the documentation strings of installed packages, or a column ``text`` of the CSV file
of ``--texts``. A peer that is not installed is left out.

- ``vectors``: all pairs of the CNN features within cosine distance .05. Truth is a blocked product of all pairs.
- ``mnist``, ``cifar``, ``texts``: some rows are changed copies of others. Truth is which of which; every contender is
  judged at the threshold of its grid where its F1 is best. Copies in ``cifar`` are changed features, not pictures.
  The vectors of ``mnist`` are logarithms of the pictures' spectra, which a shift does not change.
- ``million``: 1,000,000 x 128 with planted pairs: what memory the search takes above the data.

A run adds one line to ``results/duplicates.jsonl``.
"""

import os

from machine import all_instructions, one_thread

os.environ.update(one_thread() | all_instructions())

import argparse
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from duplicate_peers import image_hashes, minhash_pairs, semhash_pairs
from duplicate_sets import documentation_paragraphs, edited, moved_images, texts_of_file
from runs import add_out_option, append_run

from hashlearn import find_duplicates
from hashlearn.features import encoder_named

PairSet = set[tuple[int, int]]
Grid = dict[float, PairSet]


def main() -> None:
    options = parse()
    sets = {"vectors": vectors, "mnist": mnist, "cifar": cifar, "texts": texts, "million": million}
    lines = []
    for name in options.only or sets:
        for line in sets[name](options):
            line = {"set": name, **line}
            print(
                {key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()}, flush=True
            )
            lines.append(line)
    if lines:
        print(append_run(options.out, "duplicates", {"lines": lines}))


def vectors(options: argparse.Namespace) -> Iterable[dict]:
    X = cnn_features(options.data)
    if X is None:
        return
    find_duplicates(X[:4000], 0.05, recall=1.0)  # compiles
    find_duplicates(X[:20000], 0.05)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    true, brute_seconds = timed(lambda: blocked_product(unit, 0.05))
    yield {
        "contender": "blocked product",
        "seconds": brute_seconds,
        "pairs": len(true),
        "recall": 1.0,
        "precision": 1.0,
    }
    for recall in (0.99, 1.0):
        found, seconds = timed(lambda recall=recall: find_duplicates(X, 0.05, recall=recall))
        line = {"contender": f"hashlearn, recall={recall:g}", "seconds": seconds, "plan": str(found.plan)}
        yield line | judged(rows_of(found), true) | {"times_faster": brute_seconds / seconds}
    faiss = imported("faiss")
    if faiss is not None:
        pairs, seconds = timed(lambda: faiss_range(faiss, unit, 0.05))
        yield {"contender": "faiss range_search", "seconds": seconds} | judged(pairs, true)


def mnist(options: argparse.Namespace) -> Iterable[dict]:
    path = options.data / "mnist.npz"
    if not path.is_file():
        return
    images, true = moved_images(np.load(path)["X"][:4000].reshape(-1, 28, 28), 600)
    yield from against_vectors(log_spectrum(images), true, [0.0005, 0.05])
    for name, found in image_hashes(images, range(0, 13, 2)):
        grid, seconds = timed(found)
        yield {"contender": f"imagededup {name}", "seconds": seconds} | at_best(grid, true)


def cifar(options: argparse.Namespace) -> Iterable[dict]:
    X = cnn_features(options.data)
    if X is None:
        return
    rng = np.random.RandomState(0)
    rows = X[:20_000]
    chosen = rng.choice(len(rows), 2000, replace=False)
    copies = np.maximum(
        0, rows[chosen] * rng.uniform(0.9, 1.1, (2000, rows.shape[1])) + 0.05 * rng.standard_normal((2000, 1))
    )
    true = {(int(a), len(rows) + b) for b, a in enumerate(chosen)}
    yield from against_vectors(np.concatenate([rows, copies.astype(np.float32)]), true, [0.005, 0.03])


def texts(options: argparse.Namespace) -> Iterable[dict]:
    originals = documentation_paragraphs(10_000) if options.texts is None else texts_of_file(options.texts, 10_000)
    all_texts, true = edited(originals, 1000)
    encoder, encoding = timed(lambda: encoder_named("tfidf+svd", "text").fit(all_texts))
    encoded, more = timed(lambda: encoder.encode(all_texts))
    known = np.flatnonzero(np.any(encoded != 0, axis=1))
    for line in against_vectors(encoded[known], renumbered(true, known), [0.02, 0.4], semhash_too=True):
        yield line | {"encode_seconds": encoding + more, "source": "documentation" if options.texts is None else "file"}
    if imported("datasketch") is not None:
        grid = {threshold: timed(lambda t=threshold: minhash_pairs(all_texts, t)) for threshold in (0.5, 0.6, 0.7, 0.8)}
        found = at_best({threshold: pairs for threshold, (pairs, _) in grid.items()}, true)
        yield {"contender": "datasketch MinHash-LSH", "seconds": grid[found["threshold"]][1]} | found


def million(options: argparse.Namespace) -> Iterable[dict]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, 128), dtype=np.float32)
    copies = rng.choice(990_000, 10_000, replace=False)
    X[990_000:] = X[copies] + np.float32(0.15) * rng.standard_normal((10_000, 128), dtype=np.float32)
    true = {(int(a), 990_000 + b) for b, a in enumerate(copies)}
    find_duplicates(X[:50_000], 0.03)  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found, seconds = timed(lambda: find_duplicates(X, 0.03))
    above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    line = {"contender": "hashlearn, recall=0.99", "seconds": seconds, "plan": str(found.plan)}
    yield line | judged(rows_of(found), true) | {"megabytes_above_data": above}


def against_vectors(X: np.ndarray, true: PairSet, span: list[float], semhash_too: bool = False) -> Iterable[dict]:
    """Ours and the peers that compare vectors, at several distances."""
    X = np.ascontiguousarray(X.reshape(len(X), -1), np.float32)
    distances = np.geomspace(*span, 9)
    widest = find_duplicates(X, float(distances[-1]), recall=0.99)
    best = at_best({float(d): rows_of(widest.at(float(d))) for d in distances}, true)
    _, seconds = timed(lambda: find_duplicates(X, best["threshold"], recall=0.99))
    yield {"contender": "hashlearn, recall=0.99", "seconds": seconds} | best
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    faiss = imported("faiss")
    if faiss is not None:
        pairs, seconds = timed(lambda: faiss_range(faiss, unit, best["threshold"]))
        yield {"contender": "faiss range_search", "seconds": seconds} | at_best({best["threshold"]: pairs}, true)
    if semhash_too and imported("semhash") is not None:
        pairs, seconds = timed(lambda: semhash_pairs(X, best["threshold"]))
        yield {"contender": "semhash", "seconds": seconds} | at_best({best["threshold"]: pairs}, true)


def blocked_product(unit: np.ndarray, max_distance: float, block: int = 2048) -> PairSet:
    """All pairs by products of blocks of rows: what is left without an index."""
    found: PairSet = set()
    for start in range(0, len(unit), block):
        products = unit[start : start + block] @ unit[start:].T
        first, second = np.nonzero(products >= 1 - max_distance)
        apart = first < second
        found.update(zip((start + first[apart]).tolist(), (start + second[apart]).tolist()))
    return found


def faiss_range(faiss: Any, unit: np.ndarray, max_distance: float) -> PairSet:
    index = faiss.IndexFlatIP(unit.shape[1])
    index.add(unit)
    found: PairSet = set()
    for start in range(0, len(unit), 4096):
        limits, _, ids = index.range_search(unit[start : start + 4096], 1 - max_distance)
        first = start + np.repeat(np.arange(len(limits) - 1), np.diff(limits).astype(np.int64))
        found.update((a, b) for a, b in zip(first.tolist(), ids.tolist()) if a < b)
    return found


def rows_of(found: Any) -> PairSet:
    return {pair for pairs in found.all_pairs() for pair in zip(pairs.first.tolist(), pairs.second.tolist())}


def judged(found: PairSet, true: PairSet) -> dict[str, float]:
    hits = len(found & true)
    return {"pairs": len(found), "recall": hits / max(1, len(true)), "precision": hits / max(1, len(found))}


def at_best(grid: Grid, true: PairSet) -> dict[str, float]:
    """The threshold with the best F1, and what is found there."""

    def f1(found: PairSet) -> float:
        return 2 * len(found & true) / max(1, len(found) + len(true))

    threshold = max(grid, key=lambda each: f1(grid[each]))
    return judged(grid[threshold], true) | {"f1": f1(grid[threshold]), "threshold": threshold}


def renumbered(pairs: PairSet, rows: np.ndarray) -> PairSet:
    """Pairs of rows that are there, as places among them."""
    place = {int(row): number for number, row in enumerate(rows)}
    return {(place[a], place[b]) for a, b in pairs if a in place and b in place}


def log_spectrum(images: np.ndarray) -> np.ndarray:
    """The logarithm of the magnitude of each picture's Fourier transform, without its mean."""
    pictures = images / 255.0
    return np.log1p(np.abs(np.fft.rfft2(pictures - pictures.mean(axis=(1, 2), keepdims=True))))


def cnn_features(folder: Path) -> np.ndarray | None:
    path = folder / "cifar10_cnn1280.npz"
    return 6 * (np.load(path)["V"].astype(np.float32) / 255) ** 2 if path.is_file() else None


def imported(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        print(f"{name} is not installed: left out")
        return None


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data files")
    parser.add_argument("--texts", type=Path, help="a CSV file with a column 'text'")
    parser.add_argument("--only", nargs="+", choices=["vectors", "mnist", "cifar", "texts", "million"])
    add_out_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
