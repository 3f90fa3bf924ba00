"""The libraries a user could pick for Hamming search, each behind the same two calls, on one thread.

A peer is built from packed codes and answers ``search(queries, k)`` with distances and ids of shape (n_queries, k),
and ``within(queries, radius)`` with the number of hits of each query where it can. ``costs_too_much`` keeps a run
from taking hours; what it leaves out is said in the results.
"""

from abc import ABC, abstractmethod

import faiss
import numpy as np
import usearch.index as usearch

from hashlearn import HammingIndex

faiss.omp_set_num_threads(1)


class Peer(ABC):
    name = ""
    exact = True

    def __init__(self, codes: np.ndarray, n_bits: int):
        self.codes, self.n_bits = codes, n_bits

    @staticmethod
    def costs_too_much(n_codes: int, n_queries: int, n_bits: int) -> bool:
        return False

    @abstractmethod
    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and ids of the k nearest codes of every query."""


class OurFlat(Peer):
    name = "hashlearn flat"
    method = "flat"

    def __init__(self, codes, n_bits):
        self.index = HammingIndex(n_bits).add(codes)

    def search(self, queries, k):
        return self.index.search(queries, k, method=self.method)

    def within(self, queries, radius):
        return self.index.within(queries, radius, method=self.method).counts


class OurTables(OurFlat):
    name = "hashlearn multi-index"
    method = "multi-index"

    @staticmethod
    def costs_too_much(n_codes, n_queries, n_bits):
        return n_codes * n_bits > 1.3e9  # memory of the tables


class OurAuto(OurFlat):
    """Warmed up by searches until it has made its choice, as in a server that has been running for a while."""

    name = "hashlearn auto"
    method = "auto"
    costs_too_much = OurTables.costs_too_much


class FaissFlat(Peer):
    name = "faiss IndexBinaryFlat"

    def __init__(self, codes, n_bits):
        self.index = faiss.IndexBinaryFlat(n_bits)
        self.index.add(codes)

    def search(self, queries, k):
        return self.index.search(queries, k)

    def within(self, queries, radius):
        limits, _, _ = self.index.range_search(queries, radius + 1)  # exclusive there
        return np.diff(limits.astype(np.int64))


class FaissIVF(Peer):
    name = "faiss IndexBinaryIVF"
    exact = False

    def __init__(self, codes, n_bits):
        n_lists = int(min(1024, max(1, len(codes) // 40)))
        self._quantizer = faiss.IndexBinaryFlat(n_bits)
        self.index = faiss.IndexBinaryIVF(self._quantizer, n_bits, n_lists)
        self.index.cp.min_points_per_centroid = 1
        self.index.train(codes[: 50 * n_lists])
        self.index.add(codes)
        self.index.nprobe = 8

    @staticmethod
    def costs_too_much(n_codes, n_queries, n_bits):
        return n_codes > 2e6

    def search(self, queries, k):
        return self.index.search(queries, k)


class FaissMultiHash(Peer):
    name = "faiss IndexBinaryMultiHash"
    exact = False

    def __init__(self, codes, n_bits):
        bits = 16
        self.index = faiss.IndexBinaryMultiHash(n_bits, n_bits // bits, bits)
        self.index.add(codes)
        self.index.nflip = 1

    @staticmethod
    def costs_too_much(n_codes, n_queries, n_bits):
        return n_codes > 1e6 or n_codes * n_queries > 1e8

    def search(self, queries, k):
        return self.index.search(queries, k)


class UsearchExact(Peer):
    name = "usearch exact"

    @staticmethod
    def costs_too_much(n_codes, n_queries, n_bits):
        return n_codes * n_queries > 1e8

    def search(self, queries, k):
        found = usearch.search(
            self.codes, queries, k, usearch.MetricKind.Hamming, exact=True, threads=1, dtype=usearch.ScalarKind.B1
        )
        shape = (len(queries), -1)
        return found.distances.reshape(shape).astype(np.int32), found.keys.reshape(shape).astype(np.int64)


class UsearchGraph(Peer):
    name = "usearch HNSW"
    exact = False

    def __init__(self, codes, n_bits):
        self.index = usearch.Index(ndim=n_bits, metric=usearch.MetricKind.Hamming, dtype=usearch.ScalarKind.B1)
        self.index.add(np.arange(len(codes)), codes, threads=1)

    @staticmethod
    def costs_too_much(n_codes, n_queries, n_bits):
        return n_codes > 1e5

    def search(self, queries, k):
        found = self.index.search(queries, k, threads=1)
        shape = (len(queries), -1)
        return found.distances.reshape(shape).astype(np.int32), found.keys.reshape(shape).astype(np.int64)


class Numpy(Peer):
    name = "numpy bitwise_count"

    def __init__(self, codes, n_bits):
        self.words = codes.view(np.uint64)

    @staticmethod
    def costs_too_much(n_codes, n_queries, n_bits):
        return n_codes * n_queries > 1e8

    def search(self, queries, k):
        found = [self._one(query, k) for query in queries.view(np.uint64)]
        return np.array([d for d, _ in found]), np.array([i for _, i in found])

    def _one(self, query, k):
        distances = np.bitwise_count(self.words ^ query).sum(axis=1, dtype=np.uint16)
        nearest = np.argpartition(distances, k)[:k] if k < len(distances) else np.arange(len(distances))
        nearest = nearest[np.argsort(distances[nearest], kind="stable")]
        return distances[nearest], nearest


PEERS = (OurFlat, OurTables, OurAuto, FaissFlat, FaissIVF, FaissMultiHash, UsearchExact, UsearchGraph, Numpy)
