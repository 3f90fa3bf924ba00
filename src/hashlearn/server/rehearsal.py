"""Every kind of request once, before the first client: what is compiled on its first use is compiled then."""

import tempfile

import numpy as np

from hashlearn.search import SimilaritySearch
from hashlearn.server.logs import log_event

_N_ROWS = 4
_IDS = [str(number) for number in range(_N_ROWS)]  # strings need all that numbers need, and more
_PAYLOADS = [{"number": number} for number in range(_N_ROWS)]


def rehearse(search: SimilaritySearch) -> None:
    """Search, write and remove rows of a small copy in a temporary folder; the search itself is left alone.

    Where no file can be written this does nothing, and the first request of a kind takes a second longer.
    """
    small = SimilaritySearch(search.hasher, metric=search.metric, query=search.query, keep_vectors=search.keep_vectors)
    X = np.random.default_rng(0).standard_normal((_N_ROWS, search.hasher.n_features_in_)).astype(np.float32)
    try:
        with tempfile.TemporaryDirectory() as folder:
            small.add(X, _IDS, _PAYLOADS).save(folder)
            opened = SimilaritySearch.open(folder)
            _read(opened, X)
            _write(opened, X)
            opened.close()
            small.close()
    except OSError as error:
        log_event("not rehearsed", reason=type(error).__name__)


def _read(search: SimilaritySearch, X: np.ndarray) -> None:
    search.get(_IDS[:1])
    orders = ["codes", "asymmetric", *(["vectors"] if search.keep_vectors else [])]
    for order in orders:
        search.search(X, 2, rerank=order)
        search.search(X, 2, rerank=order, filter={"number": {"$gt": 0}})
    if search.query == "code":
        search.search_codes(search.encode(X), 2)


def _write(search: SimilaritySearch, X: np.ndarray) -> None:
    """Rows that come from a file, and rows that were written before, are of different types to a compiler."""
    for _ in range(2):
        search.upsert(X[:2], _IDS[1:3], _PAYLOADS[:2])
        search.remove(_IDS[1:2])
        search.get(_IDS[2:3])
