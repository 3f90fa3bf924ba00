"""Vectors in, neighbors out: a hasher and an index as one object, and as one folder."""

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from hashlearn.checks import check_integer
from hashlearn.codes.results import Neighbors
from hashlearn.generations import FolderFormat
from hashlearn.hashers.pipelines import check_hasher
from hashlearn.hashers.saving import digest_of, load_with_digest, n_bits_of, save_hasher
from hashlearn.search.file_format import fingerprint
from hashlearn.search.index import HammingIndex
from hashlearn.search.rerank import rerank_asymmetric, rerank_exact

FORMAT = FolderFormat(title="hashlearn similarity search", version=2, manifest="search.json")
HASHER = "hasher"
CODES = "codes.hli"


class SimilaritySearch:
    """Search vectors by learned codes.

    Parameters
    ----------
    hasher : Hasher, or a pipeline of scikit-learn that ends in one
        Fitted or not. :meth:`fit` learns with a copy of it.

    Attributes
    ----------
    hasher : Hasher or Pipeline
    index : HammingIndex
        The codes of the vectors added.

    Examples
    --------
    >>> from hashlearn import ITQ
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> search = SimilaritySearch(ITQ(n_bits=32, random_state=0)).fit(X).add(X)
    >>> search.search(X[:3], k=1).distances.tolist()
    [[0], [0], [0]]
    >>> search.search(X[:3], k=1, rerank=X).ids.tolist()
    [[0], [1], [2]]
    """

    def __init__(self, hasher: Any):
        self.hasher = check_hasher("hasher", hasher)
        self.index = HammingIndex(n_bits_of(hasher))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids, ascending."""
        return self.index.ids

    def __repr__(self) -> str:
        return f"SimilaritySearch({self.hasher!r}, {len(self)} vectors)"

    def fit(self, X: ArrayLike) -> Self:
        """Learn the hash functions; codes of an earlier fit are dropped, for they mean nothing to the new ones."""
        hasher = clone(self.hasher).fit(X)
        # One assignment: whatever interrupts it, hasher and codes belong together.
        self.__dict__ = {**vars(self), "hasher": hasher, "index": HammingIndex(n_bits_of(hasher))}
        return self

    def add(self, X: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Encode vectors and add their codes; see :meth:`HammingIndex.add` for the ids."""
        self.index.add(self.hasher.transform(X), ids)
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Remove vectors by id."""
        self.index.remove(ids)
        return self

    def search(
        self, X: ArrayLike, k: int = 10, *, rerank: Any = None, candidates: int | None = None, **options: Any
    ) -> Neighbors:
        """The k nearest of each query vector.

        Parameters
        ----------
        X : array of shape (n_queries, n_features)
        k : int
        rerank : None, "asymmetric", VectorFile, or an array, memmap or CSR matrix of vectors
            None orders by Hamming distance. ``"asymmetric"`` orders the candidates by the query's scores against their
            bits. Vectors, row i of an array being that of id i, order them by exact distance.
        candidates : int or None
            How many codes to find before ordering them; by default 4 k. See :func:`hashlearn.search.tune`.
        **options
            ``subset``, ``method`` and ``n_jobs`` of :meth:`HammingIndex.search`.

        Returns
        -------
        Neighbors
            ``(distances, ids)``, nearest first, ties by the lowest id: Hamming distances, or those that reranking is
            by.
        """
        k = check_integer("k", k, low=1)
        n_found = 4 * k if candidates is None else check_integer("candidates", candidates, low=1)
        if rerank is None:
            return self.index.search(self.hasher.transform(X), k, **options)
        if isinstance(rerank, str) and rerank != "asymmetric":
            raise ValueError(f"rerank must be None, 'asymmetric' or the vectors, got {rerank!r}")
        found = self.index.search(self.hasher.transform(X), max(k, min(n_found, len(self))), **options).ids
        if isinstance(rerank, str):
            return rerank_asymmetric(self.index, self.hasher.decision_function(X), found, k)
        return rerank_exact(rerank, X, found, k)

    def save(self, folder: str | Path) -> None:
        """Write hasher and codes to a folder: new, empty, or one that a search was saved to before.

        The folder has a whole state at every moment, whoever reads it or saves to it meanwhile; see
        :mod:`hashlearn.generations`. Other files in it are left alone.
        """
        replaced = _parts_of_version_1(Path(folder))
        FORMAT.save(folder, self._write)
        for path in replaced:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Read what :meth:`save` wrote; the codes are memory-mapped (see :meth:`HammingIndex.open`)."""
        return FORMAT.open(folder, cls._read)

    def _write(self, generation: Path) -> dict[str, Any]:
        """Write the parts of a state, and return the digests that tie them together."""
        model = digest_of(self.hasher)
        if self.index.model not in (None, model):
            raise ValueError("index must hold codes of the hasher of this search, got those of another; add them again")
        self.index.model = model
        save_hasher(self.hasher, generation / HASHER)
        self.index.save(generation / CODES)
        return {"model": model, "codes": fingerprint(generation / CODES)}

    @classmethod
    def _read(cls, generation: Path, manifest: dict[str, Any]) -> Self:
        if manifest["format_version"] == 1:
            hasher_at, codes_at = _parts(generation, manifest)
        else:
            hasher_at, codes_at = generation / HASHER, generation / CODES
        hasher, model = load_with_digest(hasher_at)
        search = cls(hasher)
        search.index = HammingIndex.open(codes_at)
        if search.index.n_bits != n_bits_of(hasher):
            raise ValueError(
                f"{codes_at} has codes of {search.index.n_bits} bits, {hasher_at} is of {n_bits_of(hasher)}"
            )
        if manifest["format_version"] > 1:
            _check_ties(manifest, {"model": model, "codes": fingerprint(codes_at)}, generation)
        if search.index.model not in (None, model):
            raise ValueError(f"{codes_at} holds codes of another model than {hasher_at}")
        return search


def _check_ties(manifest: dict[str, Any], found: dict[str, str], generation: Path) -> None:
    for part, digest in found.items():
        if manifest.get(part) != digest:
            raise ValueError(f"{generation} has another {part} than was saved there (the checksum does not fit)")


def _parts(folder: Path, manifest: dict[str, Any]) -> list[Path]:
    """Hasher and codes that a manifest of version 1 names."""
    names = [str(manifest.get(part)) for part in ("hasher", "codes")]
    if not re.fullmatch(r"hasher-[0-9a-f]{8} codes-[0-9a-f]{8}\.hli", " ".join(names)):
        raise ValueError(f"{folder / FORMAT.manifest} names no hasher and codes of its folder, got {names}")
    return [folder / name for name in names]


def _parts_of_version_1(folder: Path) -> list[Path]:
    """What a save replaces in a folder of version 1."""
    with suppress(OSError, ValueError):
        manifest = FORMAT.read_manifest(folder)
        if manifest["format_version"] == 1:
            return [path for path in _parts(folder, manifest) if path.exists()]
    return []
