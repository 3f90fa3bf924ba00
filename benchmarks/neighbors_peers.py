"""Who finds neighbors among short codes: ours, faiss' quantizers and rabitqlib, behind one small interface."""

import importlib.util
from collections.abc import Iterator

import faiss
import numpy as np

from hashlearn import ABH, ITQ, AsymmetricIndex, HammingIndex, SimilaritySearch

CANDIDATES = 100
TRAIN_ROWS = 20_000
"""Rows that quantizers learn from, at most. ABH has the same number; OPQ takes minutes for them, and LSQ longer."""


class Contender:
    """Learns from rows, keeps a code for each of them, and returns the rows nearest to queries."""

    name: str
    bytes_per_row: float

    def train(self, X: np.ndarray) -> None:
        raise NotImplementedError

    def add(self, X: np.ndarray) -> None:
        raise NotImplementedError

    def search(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Ids of shape (n_queries, k), nearest first."""
        raise NotImplementedError


class ItqHamming(Contender):
    def __init__(self, n_bits: int):
        self.name, self.bytes_per_row = f"ITQ {n_bits}, Hamming", n_bits / 8
        self.hasher, self.index = ITQ(n_bits, random_state=0), HammingIndex(n_bits)

    def train(self, X):
        self.hasher.fit(X)

    def add(self, X):
        self.index.add(self.hasher.transform(X))

    def search(self, Q, k):
        return self.index.search(self.hasher.transform(Q), k).ids


class ItqReal(ItqHamming):
    def __init__(self, n_bits: int):
        super().__init__(n_bits)
        self.name, self.index = f"ITQ {n_bits}, real query", AsymmetricIndex(n_bits)

    def search(self, Q, k):
        return self.index.search(-self.hasher.decision_function(Q), k).ids


class Abh(Contender):
    def __init__(self, n_bits: int, restarts: int = 0):
        self.name = f"ABH {n_bits}" + (f", {restarts} restarts" if restarts else "")
        self.bytes_per_row = n_bits / 8 + 1
        self.hasher = ABH(n_bits, restarts=restarts, random_state=0)
        self.index = AsymmetricIndex(n_bits)

    def train(self, X):
        self.hasher.fit(X)

    def add(self, X):
        codes = self.hasher.transform(X)
        self.index.add(codes, corrections=self.hasher.corrections(X, codes))

    def search(self, Q, k):
        return self.index.search(self.hasher.query_weights(Q), k).ids


class AbhReranked(Contender):
    """The first 100 by ABH in the order of vectors that are kept with 8 bits a feature, which may stay on disk."""

    def __init__(self, n_bits: int):
        self.name, self.bytes_per_row = f"ABH {n_bits} + int8 rerank of {CANDIDATES}", n_bits / 8 + 1
        self.found = SimilaritySearch(ABH(n_bits, random_state=0), keep_vectors="int8")

    def train(self, X):
        self.found.fit(X)

    def add(self, X):
        self.found.add(X)

    def search(self, Q, k):
        return self.found.search(Q, k, candidates=CANDIDATES).ids


class Faiss(Contender):
    """An index of faiss by the description that its ``index_factory`` takes."""

    def __init__(self, name: str, description: str, d: int):
        self.name, self.index = name, faiss.index_factory(d, description)

    def train(self, X):
        self.index.train(X[np.random.default_rng(0).permutation(len(X))[:TRAIN_ROWS]])
        self.bytes_per_row = self.index.code_size if "FastScan" in self.name else self.index.sa_code_size()

    def add(self, X):
        self.index.add(X)

    def search(self, Q, k):
        return self.index.search(Q, k)[1]


class RabitqLib(Contender):
    """RaBitQ by its authors: all rows in one cluster, and all of it searched."""

    name = "rabitqlib, 1 bit a feature"

    def train(self, X):
        self.center = X.mean(axis=0, keepdims=True).astype(np.float32)
        self.bytes_per_row = X.shape[1] / 8 + 8

    def add(self, X):
        import rabitqlib

        self.index = rabitqlib.IvfIndex(X.shape[1], len(X), 1, 1)
        self.index.build(X, self.center, np.zeros(len(X), np.uint32))

    def search(self, Q, k):
        return next(part for part in self.index.search(Q, k, 1) if np.issubdtype(np.asarray(part).dtype, np.integer))


def contenders(d: int, quick: bool) -> Iterator[Contender]:
    """For rows of d features; those that take minutes to train only in a full run."""
    yield from (ItqHamming(64), ItqReal(64), Abh(64), Abh(128), Abh(64, restarts=10), AbhReranked(128))
    yield from (Faiss(f"PQ {m}x8", f"PQ{m}", d) for m in (8, 16) if d % m == 0)
    yield from (Faiss(f"PQFastScan {m}x4", f"PQ{m}x4fs", d) for m in (16, 32) if d % m == 0)
    yield from (Faiss(f"RaBitQ, {bits} bits a feature", f"RR,RaBitQ{bits}", d) for bits in (2, 4))
    yield Faiss("RaBitQ, 1 bit a feature", "RR,RaBitQ", d)
    if importlib.util.find_spec("rabitqlib") is not None:
        yield RabitqLib()
    if not quick:
        yield from (Abh(n_bits) for n_bits in sorted({256, d}) if n_bits <= 1280)
        yield from (Faiss(f"OPQ {m}x8", f"OPQ{m}_{d // m * m},PQ{m}", d) for m in (8, 16))
        yield Faiss("LSQ 8x8", "LSQ8x8", d)
