"""Searches among a share of the rows: recall, and time of one query beside that of an unfiltered search.

``python benchmarks/engines.py FILE --filters`` calls this. Rows that a filter keeps are drawn at random. Every engine
is used with the setting that its unfiltered search needs for a recall of 0.95, and gets the filter as it offers it.
The time of a query is the best of the rounds, because other work on the machine may interrupt some:

- PartitionedIndex: ``subset``, a mask; SimilaritySearch: a filter on a payload field, ids and vectors of int8 included;
- faiss: ``IDSelectorBitmap``, in an IVF index of float vectors (the index that its selectors always work with);
- hnswlib: a filter function in Python, which it calls for every row it comes by;
- usearch: its Python package has no filter, so more neighbors are asked for and those that do not fit are left out.
"""

import math
import time
from collections.abc import Iterator
from statistics import median
from typing import Any, ClassVar

import numpy as np
from engine_peers import Hnswlib, K, Ours, Usearch

SHARES = (1.0, 0.1, 0.01, 0.001)
RECALL = 0.95
N_QUERIES = 100
MOST_ASKED = 1000  # of usearch, which is asked for more neighbors than are wanted


class Filtered:
    """An engine that searches among the rows of a mask. ``settings`` ascend in recall."""

    name: str
    settings: ClassVar[list[Any]]

    def build(self, X: np.ndarray, metric: str, shares: dict[float, np.ndarray]) -> None:
        raise NotImplementedError

    def search(self, q: np.ndarray, setting: Any, share: float) -> np.ndarray:
        """The rows nearest to one query, of shape (1, d), among those that the filter of this share keeps."""
        raise NotImplementedError


class IndexFiltered(Filtered):
    name = "hashlearn, index"
    settings: ClassVar = [RECALL]

    def build(self, X, metric, shares):
        self.engine, self.shares = Ours(), shares
        self.engine.build(X, metric)

    def search(self, q, setting, share):
        subset = None if share == 1 else self.shares[share]
        return self.engine.index.search(q, K, recall=setting, vectors=self.engine.vectors, subset=subset).ids[0]


class SearchFiltered(Filtered):
    name = "hashlearn, search with payloads"
    settings: ClassVar = [RECALL]

    def build(self, X, metric, shares):
        from hashlearn import ABH, SimilaritySearch

        hasher = ABH(n_bits=128, metric=metric, random_state=0).fit(X[:20_000])
        self.engine = SimilaritySearch(hasher, keep_vectors="int8", index="lists")
        kept = {f"share {share}": mask.tolist() for share, mask in shares.items()}
        self.engine.add(X, payloads=[dict(zip(kept, values)) for values in zip(*kept.values())])

    def search(self, q, setting, share):
        among = None if share == 1 else {f"share {share}": True}
        return self.engine.search(q, K, recall=setting, filter=among).ids[0]


class FaissFiltered(Filtered):
    name = "faiss IVF, IDSelectorBitmap"
    settings: ClassVar = [4, 8, 12, 16, 24, 32, 48, 64, 128]

    def build(self, X, metric, shares):
        import faiss

        self.faiss = faiss
        n_lists = int(4 * math.sqrt(len(X)))
        self.index = faiss.index_factory(X.shape[1], f"IVF{n_lists},Flat")
        self.index.train(X)
        self.index.add(X)
        bits = {share: np.packbits(mask, bitorder="little") for share, mask in shares.items()}
        self.selectors = {share: faiss.IDSelectorBitmap(part) for share, part in bits.items() if share < 1}

    def search(self, q, setting, share):
        chosen = {} if share == 1 else {"sel": self.selectors[share]}
        return self.index.search(q, K, params=self.faiss.SearchParametersIVF(nprobe=setting, **chosen))[1][0]


class HnswlibFiltered(Filtered):
    name = "hnswlib, filter function"
    settings: ClassVar = Hnswlib.settings

    def build(self, X, metric, shares):
        self.engine, self.shares = Hnswlib(), {share: mask.tolist() for share, mask in shares.items()}
        self.engine.build(X, metric)

    def search(self, q, setting, share):
        self.engine.index.set_ef(setting)
        chosen = {} if share == 1 else {"filter": self.shares[share].__getitem__}
        try:
            return self.engine.index.knn_query(q, K, num_threads=1, **chosen)[0][0]
        except RuntimeError:  # it came by fewer than K rows that the filter keeps, and returns none then
            return np.empty(0, np.int64)


class UsearchFiltered(Filtered):
    name = "usearch, filtered afterwards"
    settings: ClassVar = Usearch.settings

    def build(self, X, metric, shares):
        self.engine, self.shares = Usearch(), shares
        self.engine.build(X, metric)

    def search(self, q, setting, share):
        self.engine.index.expansion_search = setting
        n_asked = min(MOST_ASKED, math.ceil(K / share))
        found = np.asarray(self.engine.index.search(q[0], n_asked, threads=1).keys).astype(np.int64)
        return found[self.shares[share][found]][:K]


FILTERED: dict[str, type[Filtered]] = {
    "index": IndexFiltered,
    "search": SearchFiltered,
    "faiss": FaissFiltered,
    "hnswlib": HnswlibFiltered,
    "usearch": UsearchFiltered,
}
"""By the word that names them on the command line."""


def with_filters(kinds: list[str], X: np.ndarray, Q: np.ndarray, metric: str, rounds: int) -> Iterator[dict]:
    """For every engine, and every share: recall, and the median time of a query in milliseconds."""
    Q = Q[:N_QUERIES]
    rng = np.random.default_rng(1)
    shares = {share: rng.random(len(X)) < share for share in SHARES}
    truths = {share: _nearest(X, Q, np.flatnonzero(mask)) for share, mask in shares.items()}
    for kind in kinds:
        engine = FILTERED[kind]()
        try:
            engine.build(X, metric, shares)
        except ImportError as missing:
            print(f"{engine.name}: {missing}; left out")
            continue
        setting = _setting_of(engine, Q, truths[1.0])
        points = [_measured(engine, Q, setting, share, truths[share], rounds) for share in SHARES]
        print(engine.name, *(f"{p['share']:g}: {p['recall']:.3f} in {p['ms']:.3f} ms" for p in points), flush=True)
        yield {"engine": engine.name, "setting": setting, "points": points}


def _nearest(X: np.ndarray, Q: np.ndarray, rows: np.ndarray) -> np.ndarray:
    kept = X[rows]
    distances = np.einsum("ij,ij->i", kept, kept) - 2 * Q @ kept.T
    return rows[np.argsort(distances, axis=1)[:, :K]]


def _setting_of(engine: Filtered, Q: np.ndarray, truth: np.ndarray) -> Any:
    """The first setting with which the unfiltered search reaches the recall, or the last one."""
    for setting in engine.settings:
        if _recall(engine, Q, setting, 1.0, truth) >= RECALL:
            return setting
    return engine.settings[-1]


def _measured(engine: Filtered, Q: np.ndarray, setting: Any, share: float, truth: np.ndarray, rounds: int) -> dict:
    recall, best = _recall(engine, Q, setting, share, truth), [math.inf] * len(Q)
    for _ in range(rounds):
        for q in range(len(Q)):
            start = time.perf_counter()
            engine.search(Q[q : q + 1], setting, share)
            best[q] = min(best[q], time.perf_counter() - start)
    return {"share": share, "recall": round(recall, 4), "ms": round(1e3 * median(best), 4)}


def _recall(engine: Filtered, Q: np.ndarray, setting: Any, share: float, truth: np.ndarray) -> float:
    found = [engine.search(Q[q : q + 1], setting, share) for q in range(len(Q))]
    return float(np.mean([np.isin(true, rows).mean() for true, rows in zip(truth, found)]))
