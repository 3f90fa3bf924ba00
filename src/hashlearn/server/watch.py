"""The recall of a served search and the drift of its new rows, measured on a thread beside the requests."""

import queue
import random
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.linalg.projections import unit_rows
from hashlearn.search import SimilaritySearch
from hashlearn.server.telemetry import LOGGER, Metrics
from hashlearn.upkeep.drift import BLOCK_ROWS, REFERENCE_ROWS, DriftReference, DriftReport, DriftWatch
from hashlearn.upkeep.recall import RecallEstimate, RecallWindow, recall_of_query

_SHARE_OF_TIME = 0.03
"""Share of one core for measuring: the thread rests 32 times as long as it works."""
_MOST_WAITING = 32
_ROWS_OF_A_WRITE = 64
_FEWEST_ROWS = 200


class AskedQuery(NamedTuple):
    """A query of a client."""

    row: NDArray
    k: int
    options: dict[str, Any]


class Watch:
    """Measures the recall of some queries and the drift of new rows of one search.

    Parameters
    ----------
    search : SimilaritySearch
    name : str
        Its label in the metrics.
    share : float
        Share of the queries that are measured, if there is time.
    metrics : Metrics
        Gets the measured values.
    """

    def __init__(self, search: SimilaritySearch, name: str, share: float, metrics: Metrics):
        self.search, self.name, self.share, self.metrics = search, name, share, metrics
        self._recalls = RecallWindow()
        self._drift: DriftWatch | None = None
        self._hasher = search.hasher
        """The hasher whose codes were measured; the values do not hold for another hasher."""
        self._waiting: queue.Queue[Any] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def recall(self) -> RecallEstimate | None:
        """The recall of the latest queries; None before the first measurement."""
        return self._recalls.estimate()

    @property
    def drift(self) -> DriftReport | None:
        """The drift of the latest rows from the rows before them; None until there are enough new rows."""
        return None if self._drift is None else self._drift.latest

    def asked(self, row: NDArray, k: int, options: dict[str, Any]) -> None:
        """Note a query; some queries are measured."""
        if random.random() < self.share and self.search.keep_vectors is not None:
            self._take(AskedQuery(row, k, options))

    def written(self, X: NDArray) -> None:
        """Note new rows."""
        if self.share:
            self._take(X[:_ROWS_OF_A_WRITE])

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()

    def _take(self, item: Any) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="hashlearn-watch", daemon=True)
            self._thread.start()
        with suppress(queue.Full):  # no time for more queries
            self._waiting.put_nowait(item)

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                item = self._waiting.get(timeout=1)
            except queue.Empty:
                continue
            start = time.thread_time()
            try:
                if self._hasher is not self.search.hasher:
                    self._hasher, self._recalls, self._drift = self.search.hasher, RecallWindow(), None
                if isinstance(item, AskedQuery):
                    self._measure(item)
                else:
                    self._compare(item)
            except Exception as error:  # such as a search that was closed in the meantime
                if not self._stopped.is_set():
                    LOGGER.warning("recall or drift could not be measured", exc_info=error)
            self._stopped.wait((time.thread_time() - start) / _SHARE_OF_TIME)

    def _measure(self, query: AskedQuery) -> None:
        recall = recall_of_query(self.search, query.row, query.k, **query.options)
        if recall is None:
            return
        self._recalls.add(recall)
        estimate = self.recall
        assert estimate is not None
        self.metrics.tell_recall(self.name, estimate)

    def _compare(self, X: NDArray) -> None:
        if self._drift is None:
            reference = drift_reference(self.search)
            if reference is None:
                return
            self._drift = DriftWatch(reference)
        was_large = self.drift is not None and self.drift.is_large
        report = self._drift.add(*compared_rows(self.search, X))
        if report is None:
            return
        self.metrics.tell_drift(self.name, report)
        if report.is_large and not was_large:
            fields = {
                "search": self.name,
                "bits_differ": report.shares,
                "novelty": report.novelty,
                "error": report.error,
            }
            told = f"the last {BLOCK_ROWS} rows are of another kind than those before"
            LOGGER.warning(told, extra={"fields": fields})


def compared_rows(search: SimilaritySearch, X: NDArray) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Codes and vectors of new rows, in the form of the reference."""
    rows = np.asarray(X, np.float32)
    return search.encode(rows), unit_rows(rows) if search.metric == "cosine" else rows


def drift_reference(search: SimilaritySearch) -> DriftReference | None:
    """A sample of the existing rows; None if there are too few rows."""
    ids = search.ids
    if len(ids) < _FEWEST_ROWS:
        return None
    chosen = np.random.default_rng(0).choice(len(ids), min(len(ids), REFERENCE_ROWS), replace=False)
    records = search.get(ids[np.sort(chosen)])
    codes, vectors = np.stack([record.code for record in records]), None
    if search.keep_vectors is not None:
        vectors = np.array([record.vector for record in records], np.float32)
        vectors = unit_rows(vectors) if search.metric == "cosine" else vectors
    return DriftReference(codes, search.n_bits, vectors)
