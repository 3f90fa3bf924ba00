"""The common part of the adapters: payloads under string ids in a similarity search."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice
from hashlearn.client import Client
from hashlearn.hashers.lsh import LSH
from hashlearn.rows.inputs import as_matrix
from hashlearn.search import SimilaritySearch
from hashlearn.search.rerank import METRICS

N_BITS = 256
"""Bits of a code if no fitted search is given."""


class FoundDocument(NamedTuple):
    """A result: the id, its distance (smaller is nearer), and the payload."""

    id: str
    distance: float
    payload: dict[str, Any]


class DocumentSearch:
    """Payloads with vectors under ids that are strings.

    Parameters
    ----------
    search : SimilaritySearch, Client, str, Path or None
        A search that is fitted, a client of one, or the folder of one. None makes one for the first rows, with random
        projections, which need no training data, and keeps the vectors for reranking. A learned method finds more with
        fewer bits.
    metric : {"euclidean", "cosine", "dot"}
        The metric, if the search is made here.
    candidates : int or None
        How many codes to rerank; None for the default of the search.
    """

    def __init__(
        self, search: SimilaritySearch | str | Path | None = None, metric: str = "cosine", candidates: int | None = None
    ):
        self.search = SimilaritySearch.open(search) if isinstance(search, (str, Path)) else search
        self._metric = check_choice("metric", metric, METRICS)
        self._has_numbers: bool | None = None
        self.candidates = candidates

    def __len__(self) -> int:
        return 0 if self.search is None else len(self.search)

    @property
    def metric(self) -> str:
        """The metric of the search."""
        return self._metric if self.search is None else self.search.metric

    @property
    def n_features(self) -> int:
        """Length of a vector; 0 before the first."""
        if self.search is None:
            return 0
        search: Any = self.search
        return search.info().n_features if isinstance(search, Client) else search.hasher.n_features_in_

    @property
    def ids(self) -> list[str]:
        """All ids, as strings."""
        return [] if self.search is None else [str(id) for id in self.search.ids.tolist()]

    def put(self, ids: Sequence[str], vectors: Any, payloads: Sequence[dict[str, Any]]) -> None:
        """Add rows. A row with a known id replaces the old row; if an id comes twice, the last row counts."""
        if len(ids) == 0:
            return
        last = list({id: row for row, id in enumerate(ids)}.values())
        rows = as_matrix(vectors, name="vectors")[last]
        if self.search is None:
            self.search = untrained_search(rows.shape[1], self._metric)
        chosen = [ids[row] for row in last]
        if self.has_numbers and not all(id.isdecimal() for id in chosen):
            raise ValueError("ids must be numbers, such as '17': those of this search are integers")
        self.search.upsert(rows, self._own(chosen), [payloads[row] for row in last])

    def nearest(
        self, vector: Any, k: int, filter: dict[str, Any] | None = None, subset: Iterable[str] | None = None
    ) -> list[FoundDocument]:
        """The k nearest rows of one query, nearest first; fewer if the search has fewer."""
        chosen = None if subset is None else self._own(subset)
        if self.search is None or not len(self.search) or k < 1 or (chosen is not None and not chosen):
            return []
        found = self.search.search(
            vector,
            min(k, len(self.search)),
            candidates=self.candidates,
            filter=filter,
            subset=chosen,
        )
        ids = [id for id in found.ids.ravel().tolist() if id is not None and id != -1]
        payloads = self.search.payloads(ids)
        return [
            FoundDocument(str(id), float(distance), payload)
            for id, distance, payload in zip(ids, found.distances.ravel(), payloads)
            if payload is not None
        ]

    def payloads(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The payloads of the known ids among these, by id, in the order of the ids."""
        if self.search is None:
            return {}
        listed = list(ids)
        found = self.search.payloads(self._own(listed))
        return {id: payload for id, payload in zip(listed, found) if payload is not None}

    def vectors(self, ids: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors of the known ids among these, by id; ValueError if the search keeps no vectors."""
        if self.search is None:
            return {}
        if self.search.keep_vectors is None:
            raise ValueError("this needs vectors; make the search with keep_vectors='float32'")
        records = self.search.get(self._own(ids))
        return {str(record.id): record.vector for record in records if record.vector is not None}

    def remove(self, ids: Iterable[str]) -> int:
        """Remove rows and return how many; unknown ids are ignored."""
        known = self._own([id for id in dict.fromkeys(ids) if id in self])
        if known and self.search is not None:
            self.search.remove(known)
        return len(known)

    def __contains__(self, id: str) -> bool:
        return self.search is not None and self._own([id])[0] in self.search

    @property
    def has_numbers(self) -> bool:
        """Whether the ids of the search are integers; a search that was made elsewhere may have them."""
        if self.search is None or not len(self.search):
            return False
        if self._has_numbers is None:  # reading all ids takes time, and the kind stays while there are rows
            self._has_numbers = self.search.ids.dtype != object
        return self._has_numbers

    def _own(self, ids: Iterable[str]) -> list[Any]:
        """The ids converted to the kind of the search."""
        return [int(id) if id.isdecimal() else NO_ROW for id in ids] if self.has_numbers else list(ids)


NO_ROW = 2**63 - 1
"""Replaces an id that is not an integer, in a search with integer ids: no row has this id."""


def untrained_search(n_features: int, metric: str, keep_vectors: str | None = "float32") -> SimilaritySearch:
    """A search that needs no training rows: signs of random projections, then the vectors."""
    hasher = LSH(N_BITS, center=False, random_state=0).fit(np.zeros((2, n_features), np.float32))
    return SimilaritySearch(hasher, metric=metric, keep_vectors=keep_vectors)
