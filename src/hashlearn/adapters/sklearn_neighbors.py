"""Neighbors for scikit-learn: a transformer that is used where ``KNeighborsTransformer`` is."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from hashlearn.adapters.documents import untrained_search
from hashlearn.checks import check_choice, check_integer
from hashlearn.rows import RowBlocks, plain_rows
from hashlearn.rows.blocks import dense
from hashlearn.rows.forms import is_frame_of_numbers
from hashlearn.search import SimilaritySearch
from hashlearn.search.graph import MODES, check_neighbors, neighbor_graph, without_self


class HashNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A sparse graph of the nearest neighbors, found by codes and ordered by the vectors.

    It gives what ``sklearn.neighbors.KNeighborsTransformer`` gives: put it before ``KNeighborsClassifier``,
    ``Isomap``, ``DBSCAN``, ``TSNE`` or ``SpectralClustering`` with ``metric="precomputed"``.

    Parameters
    ----------
    mode : {"distance", "connectivity"}
        Whether the graph has distances or ones. In a graph of distances a row is also its own neighbor, in addition to
        ``n_neighbors``.
    n_neighbors : int
    hasher : Hasher or None
        The method, which is fitted to the rows; None is random projections of 256 bits.
    metric : {"euclidean", "cosine"}
    candidates : int or None
        How many codes are ordered by their vectors for each query; None is 10 for each neighbor, at least 200.

    Attributes
    ----------
    search_ : SimilaritySearch
    n_samples_fit_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(HashNeighborsTransformer(n_neighbors=5), KNeighborsClassifier(5, metric="precomputed"))
    >>> bool(model.fit(X[:1500], y[:1500]).score(X[1500:], y[1500:]) > 0.95)
    True
    """

    def __init__(self, *, mode="distance", n_neighbors=5, hasher=None, metric="euclidean", candidates=None):
        self.mode = mode
        self.n_neighbors = n_neighbors
        self.hasher = hasher
        self.metric = metric
        self.candidates = candidates

    def fit(self, X: Any, y: Any = None) -> Self:
        """Index the rows of X.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : None
            Ignored.
        """
        check_choice("mode", self.mode, MODES)
        check_choice("metric", self.metric, ("euclidean", "cosine"))
        check_integer("n_neighbors", self.n_neighbors, low=1)
        rows = validate_data(self, _array_or_frame(X), dtype=[np.float64, np.float32])
        if self.hasher is None:
            search = untrained_search(rows.shape[1], self.metric, keep_vectors=None)
        else:
            search = SimilaritySearch(self.hasher, metric=self.metric).fit(rows)
        self.search_ = search.add(rows)
        self.n_samples_fit_ = len(rows)
        self._fit_rows = rows
        return self

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """The nearest rows of queries.

        Parameters
        ----------
        X : array of shape (n_queries, n_features) or None
            None takes the rows of the fit; then no row is its own neighbor.
        n_neighbors : int or None
            None is that of the class.
        return_distance : bool

        Returns
        -------
        distances, rows : arrays of shape (n_queries, n_neighbors)
            Nearest first; the rows alone without ``return_distance``.
        """
        check_is_fitted(self)
        wanted = self.n_neighbors if n_neighbors is None else n_neighbors
        k = check_neighbors(wanted, self.n_samples_fit_ - (X is None))
        if X is None:
            distances, rows = without_self(*self._nearest(self._fit_rows, k + 1))
        else:
            queries = validate_data(self, _array_or_frame(X), dtype=[np.float64, np.float32], reset=False)
            distances, rows = self._nearest(queries, k)
        return (distances, rows) if return_distance else rows

    def kneighbors_graph(self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity") -> csr_matrix:
        """The graph of the nearest rows.

        Parameters
        ----------
        X, n_neighbors
            As for :meth:`kneighbors`.
        mode : {"connectivity", "distance"}

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit)
        """
        distances, rows = self.kneighbors(X, n_neighbors)
        return neighbor_graph(distances, rows, self.n_samples_fit_, mode)

    def transform(self, X: Any) -> csr_matrix:
        """The graph of the nearest rows of X, of the mode that the class has.

        Parameters
        ----------
        X : array of shape (n_queries, n_features)

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit)
        """
        check_is_fitted(self)
        return self.kneighbors_graph(X, self.n_neighbors + (self.mode == "distance"), self.mode)

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:
        """The graph of the rows themselves.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : None
            Ignored.

        Returns
        -------
        csr_matrix of shape (n, n)
        """
        return self.fit(X).transform(X)

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _nearest(self, queries: NDArray, k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        wanted = max(10 * k, 200) if self.candidates is None else self.candidates
        candidates = max(k, min(wanted, self.n_samples_fit_))
        found = self.search_.search(queries, k, candidates=candidates, rerank=self._fit_rows)
        return found.distances.astype(np.float64), found.ids


def _array_or_frame(X: Any) -> Any:
    """What scikit-learn checks: an array, or a frame with the names of its features."""
    if is_frame_of_numbers(X):
        return X
    rows = plain_rows(X)
    return rows.take(np.arange(len(rows))) if isinstance(rows, RowBlocks) else dense(rows)
