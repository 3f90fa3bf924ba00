"""The engines of engines.py behind one small interface: ours, and those that others would take.

``build(X, metric)`` gets unit rows for "cosine", and ``search(Q, setting)`` returns the rows nearest to queries, one of
``settings`` at a time. Every engine runs on one thread.
"""

import math
from typing import Any, ClassVar

import numpy as np

K = 10


class Engine:
    """An index of vectors with one parameter, or two, between speed and recall."""

    name: str
    settings: list[Any]
    reads_vectors = True
    """Does it compare candidates by vectors that it does not count among its bytes?"""

    seconds = 0.0
    bytes_in_memory = 0.0

    def build(self, X: np.ndarray, metric: str) -> None:
        raise NotImplementedError

    def search(self, Q: np.ndarray, setting: Any) -> np.ndarray:
        raise NotImplementedError


class Ours(Engine):
    """PartitionedIndex, asked for a recall; it was tuned on its own rows, not on the queries."""

    n_bits: ClassVar[int] = 128
    words: ClassVar[str] = "signed"
    lists_per_root: ClassVar[float] = 2.0
    settings: ClassVar = [0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995]

    @property
    def name(self) -> str:
        lists = "" if self.lists_per_root == 2 else f", {self.lists_per_root / 2:g} times the lists"
        return f"hashlearn, {self.n_bits} bits" + ("" if self.words == "signed" else f", {self.words} words") + lists

    def build(self, X, metric):
        from hashlearn.index.partitioned import PartitionedIndex

        n_lists = round(self.lists_per_root * math.sqrt(len(X)))
        self.index = PartitionedIndex(self.n_bits, metric=metric, n_lists=n_lists, words=self.words, random_state=0)
        self.index.fit(X).add(X).tune(X)
        self.vectors = X
        self.bytes_in_memory = self.index.nbytes / len(X)
        for n in (1, 9):
            self.search(X[:n], 0.9)  # compiled before the clock starts

    def search(self, Q, setting):
        return self.index.search(Q, K, recall=setting, vectors=self.vectors).ids


class Ours64(Ours):
    n_bits = 64


class Ours64Free(Ours):
    n_bits, words = 64, "free"


class Ours256(Ours):
    n_bits = 256


class OursMoreLists(Ours):
    lists_per_root = 4.0


class Hnswlib(Engine):
    name, reads_vectors = "hnswlib, M 16", False
    settings: ClassVar = [20, 40, 80, 160, 320, 640]

    def build(self, X, metric):
        import hnswlib

        self.index = hnswlib.Index("l2", X.shape[1])
        self.index.init_index(len(X), M=16, ef_construction=200, random_seed=0)
        self.index.set_num_threads(2)
        self.index.add_items(X)
        self.index.set_num_threads(1)
        self.bytes_in_memory = 4 * X.shape[1] + 16 * 2 * 4 + 16

    def search(self, Q, setting):
        self.index.set_ef(setting)
        return self.index.knn_query(Q, K)[0]


class FaissPQ(Engine):
    name = "faiss IVF PQ fast scan, refined"
    settings: ClassVar = [(8, 8), (16, 8), (16, 16), (32, 16), (64, 16), (64, 32), (128, 32), (256, 64)]
    code: ClassVar[str] = "PQ{half}x4fs"

    def build(self, X, metric):
        import faiss

        self.faiss = faiss
        faiss.omp_set_num_threads(2)
        d = X.shape[1]
        n_lists = int(4 * math.sqrt(len(X)))
        self.index = faiss.index_factory(d, f"IVF{n_lists},{self.code.format(half=d // 2)},RFlat")
        self.index.train(X[: 100 * n_lists])
        self.index.add(X)
        faiss.omp_set_num_threads(1)
        self.ivf = faiss.extract_index_ivf(self.index)
        self.bytes_in_memory = d / 4 + 8

    def search(self, Q, setting):
        self.ivf.nprobe, self.index.k_factor = setting
        return self.index.search(Q, K)[1]


class FaissRabitq(FaissPQ):
    name = "faiss IVF RaBitQ fast scan, refined"
    code = "RaBitQfs"

    def build(self, X, metric):
        super().build(X, metric)
        self.bytes_in_memory = X.shape[1] / 8 + 8 + 8


class Scann(Engine):
    name = "ScaNN"
    settings: ClassVar = list(zip((16, 32, 48, 64, 96, 128, 256, 400), (50, 100, 100, 100, 150, 200, 400, 600)))

    def build(self, X, metric):
        import scann

        builder = scann.scann_ops_pybind.builder(X, K, "dot_product" if metric == "cosine" else "squared_l2")
        self.index = (
            builder.tree(int(2 * math.sqrt(len(X))), 100, training_sample_size=250_000)
            .score_ah(2, anisotropic_quantization_threshold=0.2 if metric == "cosine" else math.nan)
            .reorder(100)
            .build()
        )
        self.bytes_in_memory = X.shape[1] / 4 + 4

    def search(self, Q, setting):
        leaves, candidates = setting
        if len(Q) == 1:
            return self.index.search(
                Q[0], final_num_neighbors=K, pre_reorder_num_neighbors=candidates, leaves_to_search=leaves
            )[0][None]
        return self.index.search_batched(
            Q, final_num_neighbors=K, pre_reorder_num_neighbors=candidates, leaves_to_search=leaves
        )[0]


class Symqg(Engine):
    name, reads_vectors = "SymphonyQG (rabitqlib)", False
    settings: ClassVar = [20, 40, 60, 100, 160, 250, 400, 800]

    def build(self, X, metric):
        import rabitqlib

        self.index = rabitqlib.SymqgIndex(X.shape[1], 32)
        self.index.build(X, 200, num_threads=2)
        self.bytes_in_memory = 4 * X.shape[1] + 32 * (X.shape[1] / 8 + 12)

    def search(self, Q, setting):
        return np.asarray(self.index.search(Q, K, setting)[0])


class RabitqIvf(Engine):
    name, reads_vectors = "IVF (rabitqlib), 5 bits", False
    settings: ClassVar = [8, 16, 32, 64, 128, 256]

    def build(self, X, metric):
        import faiss
        import rabitqlib

        n_lists = int(2 * math.sqrt(len(X)))
        means = faiss.Kmeans(X.shape[1], n_lists, niter=10, seed=1, max_points_per_centroid=64)
        means.train(X)
        lists = means.index.search(X, 1)[1][:, 0].astype(np.uint32)
        self.index = rabitqlib.IvfIndex(X.shape[1], len(X), n_lists, 5)
        self.index.build(X, means.centroids, lists, num_threads=2)
        self.bytes_in_memory = 5 * X.shape[1] / 8 + 20

    def search(self, Q, setting):
        return np.asarray(self.index.search(Q, K, setting)[0])


class Usearch(Engine):
    name, reads_vectors = "usearch", False
    settings: ClassVar = [20, 40, 80, 160, 320]

    def build(self, X, metric):
        from usearch.index import Index

        self.index = Index(ndim=X.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=128)
        self.index.add(np.arange(len(X)), X, threads=2)
        self.bytes_in_memory = self.index.memory_usage / len(X)

    def search(self, Q, setting):
        self.index.expansion_search = setting
        return np.asarray(self.index.search(Q, K, threads=1).keys).reshape(len(Q), -1)


class Svs(Engine):
    name, reads_vectors = "scalable-vs, Vamana LVQ4x8", False
    settings: ClassVar = [10, 16, 24, 40, 60, 100, 160, 300]

    def build(self, X, metric):
        import tempfile

        import svs

        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/vectors.fvecs"
            svs.write_vecs(X, path)
            loader = svs.VectorDataLoader(path, svs.DataType.float32)
            wanted = svs.VamanaBuildParameters(graph_max_degree=32, window_size=128)
            compressed = svs.LVQLoader(loader, primary=4, residual=8)
            self.index = svs.Vamana.build(wanted, compressed, svs.DistanceType.L2, num_threads=2)
        self.index.num_threads = 1
        self.bytes_in_memory = 12 * X.shape[1] / 8 + 33 * 4

    def search(self, Q, setting):
        self.index.search_window_size = setting
        return np.asarray(self.index.search(Q, K)[0])


class Turbovec(Engine):
    """A flat scan of codes; the number of candidates is its parameter."""

    name = "turbovec, 4 bits, refined"
    settings: ClassVar = [10, 15, 20, 30, 50, 100]

    def build(self, X, metric):
        import turbovec

        if metric != "cosine":
            raise NotImplementedError("it compares inner products only")
        self.index = turbovec.TurboQuantIndex(X.shape[1] + self._missing(X), 4)
        self.index.add(self._padded(X))
        self.index.prepare()
        self.vectors = X
        self.bytes_in_memory = X.shape[1] / 2 + 4

    @staticmethod
    def _missing(X) -> int:
        return -X.shape[1] % 8  # it wants whole groups of 8 features

    def _padded(self, X):
        return np.ascontiguousarray(np.pad(X, ((0, 0), (0, self._missing(X)))))

    def search(self, Q, setting):
        found = np.asarray(self.index.search(self._padded(Q), setting)[1]).astype(np.int64).reshape(len(Q), -1)
        distances = [np.einsum("ij,ij->i", gap, gap) for gap in (self.vectors[rows] - q for rows, q in zip(found, Q))]
        return np.take_along_axis(found, np.argsort(np.array(distances), axis=1)[:, :K], axis=1)


ENGINES: dict[str, type[Engine]] = {
    "hashlearn": Ours,
    "hashlearn-64": Ours64,
    "hashlearn-64-free": Ours64Free,
    "hashlearn-256": Ours256,
    "hashlearn-more-lists": OursMoreLists,
    "hnswlib": Hnswlib,
    "faiss-pq": FaissPQ,
    "faiss-rabitq": FaissRabitq,
    "scann": Scann,
    "symqg": Symqg,
    "rabitq-ivf": RabitqIvf,
    "usearch": Usearch,
    "svs": Svs,
    "turbovec": Turbovec,
}
"""By the word that names them on the command line."""

PEERS = [name for name in ENGINES if not name.startswith("hashlearn")]
