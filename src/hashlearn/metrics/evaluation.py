"""The result of an evaluation: all numbers as one typed object, as JSON and as a table to read."""

import json
import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.metrics.curves import RadiusCurve
from hashlearn.metrics.lookup import Lookup
from hashlearn.metrics.ties import Ties

_PER_QUERY = {"average_precision"}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How good a ranking is. A number is None if its arguments were not given.

    Attributes
    ----------
    n_queries, n_database : int
    n_bits : int or None
        None for the ranking of the float vectors.
    ties : {"expected", "stable", "optimistic", "pessimistic"}
        The rule by which equal distances were ranked.
    mAP : float or None
        Mean average precision over the whole ranking.
    precision_at_100 : float or None
        Precision among the first 100 results.
    pre100_of_the_paper : float or None
        :func:`hashlearn.metrics.top_query_map`, the mAP of the 100 queries that went best, which the JPSH paper prints
        as "Pre@100"; None with fewer than 100 queries.
    average_precision : ndarray of shape (n_queries,) or None
    positions : ndarray of int64, shape (n_positions,) or None
    precision_at, recall_at : ndarray of shape (n_positions,) or None
        Pooled precision and recall among the first N, for every N of ``positions``.
    radius_curve : RadiusCurve or None
        Pooled precision and recall within Hamming radius 0..n_bits - 1; None for float vectors.
    lookup : Lookup or None
        Macro precision, recall and F within a radius; None for float vectors.
    n_neighbors : int or None
        The k of ``neighbor_recall``.
    neighbor_recall : float or None
        Recall k@k: the share of the k nearest vectors that are among the k nearest codes.
    neighbor_recall_at_100 : float or None
        Recall k@100: the share that is among the 100 nearest codes, which reranking can put first.
    """

    n_queries: int
    n_database: int
    n_bits: int | None
    ties: Ties
    mAP: float | None = None
    precision_at_100: float | None = None
    pre100_of_the_paper: float | None = None
    average_precision: NDArray[np.float64] | None = None
    positions: NDArray[np.int64] | None = None
    precision_at: NDArray[np.float64] | None = None
    recall_at: NDArray[np.float64] | None = None
    radius_curve: RadiusCurve | None = None
    lookup: Lookup | None = None
    n_neighbors: int | None = None
    neighbor_recall: float | None = None
    neighbor_recall_at_100: float | None = None

    def to_dict(self, per_query: bool = False) -> dict[str, Any]:
        """All numbers as plain lists and floats; undefined ones (NaN) as None.

        Parameters
        ----------
        per_query : bool, default=False
            Whether to include the numbers of every single query.

        Returns
        -------
        dict
            Names and numbers.
        """
        names = [field.name for field in fields(self) if per_query or field.name not in _PER_QUERY]
        return {name: _plain(getattr(self, name)) for name in names}

    def to_json(self, per_query: bool = False, indent: int | None = 2) -> str:
        """:meth:`to_dict` as JSON.

        Parameters
        ----------
        per_query : bool, default=False
            As in :meth:`to_dict`.
        indent : int or None, default=2
            As in :func:`json.dumps`.

        Returns
        -------
        str
            JSON.
        """
        return json.dumps(self.to_dict(per_query), indent=indent, allow_nan=False)

    def table(self) -> str:
        """The numbers as plain text.

        Returns
        -------
        str
            One line for each number, then precision and recall by position.
        """
        names = [name for name, _ in self._lines()]
        width = max(map(len, names))
        text = [f"{name:<{width}}  {value:>8}" for name, value in self._lines()]
        if self.positions is not None and self.precision_at is not None and self.recall_at is not None:
            text += ["", f"{'N':>6}  {'precision@N':>11}  {'recall@N':>8}"]
            rows = zip(self.positions, self.precision_at, self.recall_at)
            text += [f"{n:>6}  {_shown(precision):>11}  {_shown(recall):>8}" for n, precision, recall in rows]
        return "\n".join(text)

    def _lines(self) -> list[tuple[str, str]]:
        lines = [
            ("queries", str(self.n_queries)),
            ("database", str(self.n_database)),
            ("bits", "float" if self.n_bits is None else str(self.n_bits)),
            ("ties", self.ties),
        ]
        if self.mAP is not None:
            lines += [
                ("mAP", _shown(self.mAP)),
                ("precision@100", _shown(self.precision_at_100)),
                ("mAP of the best 100 queries (the paper's Pre@100)", _shown(self.pre100_of_the_paper)),
            ]
        if self.neighbor_recall is not None:
            k = self.n_neighbors
            lines.append((f"recall {k}@{k} of true neighbors", _shown(self.neighbor_recall)))
            lines.append((f"recall {k}@100 of true neighbors", _shown(self.neighbor_recall_at_100)))
        if self.lookup is not None:
            within = f"look-up within radius {self.lookup.radius}: "
            lines += [
                (within + "precision", _shown(self.lookup.precision)),
                (within + "recall", _shown(self.lookup.recall)),
                (within + "F", _shown(self.lookup.f_measure)),
                (within + "queries that find nothing", _shown(self.lookup.empty_fraction)),
            ]
        return lines


def _shown(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, (RadiusCurve, Lookup)):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, float) and math.isnan(value):
        return None
    return value
