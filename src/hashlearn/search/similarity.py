"""Vectors in, neighbours out: a hasher and an index as one object, and as one folder."""

import json
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike

from hashlearn.checks import check_integer
from hashlearn.files import write_text
from hashlearn.hashers import Hasher
from hashlearn.hashers.saving import load_hasher
from hashlearn.search.index import HammingIndex
from hashlearn.search.rerank import Rescored, rerank_asymmetric, rerank_exact
from hashlearn.search.results import Neighbours

FORMAT = "hashlearn similarity search"
FORMAT_VERSION = 1
MANIFEST = "search.json"


class SimilaritySearch:
    """Search vectors by learned codes.

    Parameters
    ----------
    hasher : Hasher
        Fitted or not; it is used itself, not a copy of it.

    Attributes
    ----------
    hasher : Hasher
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

    def __init__(self, hasher: Hasher):
        if not isinstance(hasher, Hasher):
            raise TypeError(f"hasher must be a Hasher such as hashlearn.JPSH(), got {hasher!r}")
        self.hasher = hasher
        self.index = HammingIndex(hasher.n_bits)

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"SimilaritySearch({self.hasher!r}, {len(self)} vectors)"

    def fit(self, X: ArrayLike) -> Self:
        """Learn the hash functions; codes of an earlier fit are dropped, for they mean nothing to the new ones."""
        self.hasher.fit(X)
        self.index = HammingIndex(self.hasher.n_bits)
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
        self, X: ArrayLike, k: int = 10, *, rerank: Any = None, candidates: int = 4, **options: Any
    ) -> Neighbours | Rescored:
        """The k nearest of each query vector.

        Parameters
        ----------
        X : array of shape (n_queries, n_features)
        k : int
        rerank : None, "asymmetric", or an array, memmap or CSR matrix of vectors
            None orders by Hamming distance. ``"asymmetric"`` orders ``candidates * k`` codes by the query's scores
            against their bits. Vectors, row i being that of id i, order them by exact distance.
        candidates : int
            How many times k codes to find before ordering them.
        **options
            ``subset``, ``method`` and ``n_jobs`` of :meth:`HammingIndex.search`.

        Returns
        -------
        Neighbours or Rescored
            ``(distances, ids)`` by Hamming distance, or ``(scores, ids)`` where reranked: nearest or best first.
        """
        k = check_integer("k", k, low=1)
        candidates = check_integer("candidates", candidates, low=1)
        if rerank is None:
            return self.index.search(self.hasher.transform(X), k, **options)
        if isinstance(rerank, str) and rerank != "asymmetric":
            raise ValueError(f"rerank must be None, 'asymmetric' or the vectors, got {rerank!r}")
        n_found = max(k, min(candidates * k, len(self)))
        found = self.index.search(self.hasher.transform(X), n_found, **options).ids
        if isinstance(rerank, str):
            return rerank_asymmetric(self.index, self.hasher.decision_function(X), found, k)
        return rerank_exact(rerank, X, found, k)

    def save(self, folder: str | Path) -> None:
        """Write hasher and codes to a folder.

        Both are written under new names, and the manifest ``search.json`` is replaced last: a process killed meanwhile
        leaves what the folder held before.
        """
        folder = Path(folder)
        _refuse_foreign(folder)
        folder.mkdir(exist_ok=True)
        mark = secrets.token_hex(4)
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "hasher": f"hasher-{mark}",
            "codes": f"codes-{mark}.hli",
        }
        try:
            self.hasher.save(folder / manifest["hasher"])
            self.index.save(folder / manifest["codes"])
            write_text(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        except BaseException:
            _remove_parts(folder, keep=_parts_in_use(folder))
            raise
        _remove_parts(folder, keep=_parts_in_use(folder))

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Read what :meth:`save` wrote; the codes are memory-mapped (see :meth:`HammingIndex.open`)."""
        folder = Path(folder)
        manifest = _read_manifest(folder)
        search = cls(load_hasher(folder / manifest["hasher"]))
        index = HammingIndex.open(folder / manifest["codes"])
        if index.n_bits != search.hasher.n_bits:
            raise ValueError(f"{folder}: codes of {index.n_bits} bits beside a hasher of {search.hasher.n_bits}")
        search.index = index
        return search


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is no saved similarity search: it has no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{path} is truncated or no JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{path} does not say format {FORMAT!r}")
    if manifest.get("format_version") != FORMAT_VERSION:
        raise ValueError(f"{path} has version {manifest.get('format_version')}, this hashlearn reads {FORMAT_VERSION}")
    for part in ("hasher", "codes"):
        name = manifest.get(part)
        if not isinstance(name, str) or os.path.basename(name) != name or not name.startswith(f"{part}-"):
            raise ValueError(f"{path} names no {part} of its folder, got {name!r}")
    return manifest


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder must be a folder, got the file {folder}")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise ValueError(f"folder must be new, empty or a saved search, got {folder} with other files in it")


def _parts_in_use(folder: Path) -> set[str]:
    with suppress(OSError, ValueError):
        manifest = _read_manifest(folder)
        return {manifest["hasher"], manifest["codes"]}
    return set()


def _remove_parts(folder: Path, keep: set[str]) -> None:
    """Remove what earlier saves, ended or killed, have left."""
    for path in [*folder.glob("hasher-*"), *folder.glob("codes-*.hli")]:
        if path.name not in keep:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
