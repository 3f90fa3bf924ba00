"""One task done: fit, encode, judge, and the line that says what came of it."""

import base64
import platform
import time
import warnings
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hashlearn
from hashlearn.experiments.prepared import N_NEIGHBOURS, AnchorSet, Prepared
from hashlearn.experiments.store import Line
from hashlearn.experiments.tasks import Task, key_of
from hashlearn.hashers.anchored import AnchoredHasher
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.registry import method_named
from hashlearn.hashers.view import AnchorView
from hashlearn.metrics import Evaluation, evaluate, evaluate_vectors

DIGITS = 6
CURVE_DIGITS = 4
MOST_WARNINGS = 3
ZERO_WEIGHT = 1e-3
"""A feature whose weights are smaller than this share of the largest feature's is drawn as one without weight: the
reweighting of eq. 11 drives rows toward zero without ever reaching it."""


def execute(task: Task, folder: str | Path) -> Line:
    """Do a task on the prepared data in ``folder``. Data a method cannot work on is a result too: a ``problem``."""
    prepared = _opened(str(folder))
    line: Line = {
        "key": key_of(task.config, prepared.digest),
        "config": task.config,
        "data": prepared.facts,
        "versions": versions(),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            line |= _reference(prepared) if task.bits is None else _result(task, prepared)
        except ValueError as error:
            line["problem"] = str(error).partition("\n")[0]
    said = list(dict.fromkeys(" ".join(str(warning.message).split())[:200] for warning in caught))[:MOST_WARNINGS]
    return line | ({"warnings": said} if said else {})


def anchors_of(task: Task, n_rows: int) -> AnchorSet | None:
    """The shared anchors a task works with, if its method takes the centres of k-means."""
    if task.bits is None:
        return None
    hasher: Any = task.hasher()
    params = hasher.get_params(deep=False)
    if not isinstance(params.get("anchors"), str) or params["anchors"] != "kmeans":
        return None
    with suppress(ValueError):  # more anchors than rows: the fit will say so
        return AnchorSet(hasher._n_anchors(n_rows), task.run, params["anchor_iter"])
    return None


@cache
def versions() -> dict[str, str]:
    """What the numbers were made with."""
    found = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"hashlearn": hashlearn.__version__, "python": platform.python_version(), **found}


@lru_cache(maxsize=1)
def _opened(folder: str) -> Prepared:
    return Prepared(folder)


def _result(task: Task, prepared: Prepared) -> Line:
    hasher: Any = task.hasher()
    seconds: dict[str, float] = {}
    _warm_up(task.row.method or task.row.name, str(prepared.folder))
    wanted = anchors_of(task, len(prepared.database))
    codes, query_codes = _timed_codes(hasher, prepared, wanted, seconds)
    of_labels: dict[str, Any] = {"query_labels": prepared.query_labels, "labels": prepared.labels}
    expected = evaluate(
        query_codes, codes, hasher.n_bits, neighbours=prepared.neighbours(), k=N_NEIGHBOURS, **of_labels
    )
    stable = evaluate(query_codes, codes, hasher.n_bits, ties="stable", positions=[100], **of_labels)
    line = _numbers(expected, stable) | {"seconds": {name: round(value, 4) for name, value in seconds.items()}}
    if hasattr(hasher, "objective_"):
        line["objective"] = _rounded(hasher.objective_, DIGITS)
    if getattr(hasher, "keep_weights", False):
        line["weights"] = weight_signs(hasher.personalized_weights_[0])
    return line


def view_path(task: Task, prepared: Prepared) -> Path | None:
    """The file of the sums that a task shares with those of other lengths, if it does."""
    wanted, hasher = anchors_of(task, len(prepared.database)), None if task.bits is None else task.hasher()
    return prepared.view_path(hasher, wanted) if wanted is not None and isinstance(hasher, AnchoredHasher) else None


def make_view(task: Task, prepared: Prepared) -> None:
    """Have the sums made that the task shares with those of other lengths."""
    wanted, hasher = anchors_of(task, len(prepared.database)), task.hasher()
    if wanted is not None:
        with suppress(ValueError):  # the fit will say so
            shared_view(hasher, prepared, wanted, {})


def shared_view(
    hasher: Any, prepared: Prepared, wanted: AnchorSet, seconds: dict[str, float]
) -> tuple[AnchorView, np.random.RandomState]:
    """What the hasher sees of the data through the shared anchors, which it is given."""
    centres, seconds["anchors"] = prepared.anchors(wanted)
    hasher.set_params(anchors=centres)
    hasher._check_parameters()
    view, rng, seconds["sums"] = prepared.view(hasher, wanted)
    return view, rng


def _timed_codes(
    hasher: Any, prepared: Prepared, wanted: AnchorSet | None, seconds: dict[str, float]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Codes of the database, as the method's authors make them, and of the queries."""
    view = None if wanted is None else shared_view(hasher, prepared, wanted, seconds)
    start = time.perf_counter()
    if type(hasher).fit_codes is Hasher.fit_codes:
        if view is None:
            hasher.fit(prepared.database)
        else:
            hasher._learn(*view)
        fitted = time.perf_counter()
        codes = hasher.transform(prepared.database)
    else:  # the codes of the training rows are what is learned
        codes = hasher.fit_codes(prepared.database)
        fitted = time.perf_counter()
    seconds["fit"] = fitted - start
    query_codes = hasher.transform(prepared.queries)
    seconds["encode"] = time.perf_counter() - fitted
    return codes, query_codes


@cache
def _warm_up(method: str, folder: str) -> None:
    """Have a method's compiled loops compiled, which happens once in a process and is no part of a fit's time."""
    with suppress(ValueError):
        rows = np.array(_opened(folder).database[:200])
        make: Any = method_named(method)
        make(n_bits=8, random_state=0).fit(rows).transform(rows)


def _reference(prepared: Prepared) -> Line:
    judged = [
        evaluate_vectors(
            prepared.queries,
            prepared.database,
            query_labels=prepared.query_labels,
            labels=prepared.labels,
            k=N_NEIGHBOURS,
            ties=ties,
        )
        for ties in ("expected", "stable")
    ]
    return _numbers(*judged)


def _numbers(expected: Evaluation, stable: Evaluation) -> Line:
    """The measures, by both rules for ties where they differ, and the curves."""
    measures = {
        "mAP": expected.mAP,
        "mAP_stable": stable.mAP,
        "pre100": expected.pre100_of_the_paper,
        "pre100_stable": stable.pre100_of_the_paper,
        "precision_at_100": expected.precision_at_100,
        "recall_at_10": expected.neighbour_recall,
    }
    if expected.lookup is not None:
        plain = expected.to_dict()["lookup"]
        measures |= {f"radius2_{name}": plain[name] for name in ("precision", "recall", "f_measure", "empty_fraction")}
    curves = {
        "positions": [int(n) for n in expected.positions],  # type: ignore[union-attr]
        "precision_at": _rounded(expected.precision_at),
        "recall_at": _rounded(expected.recall_at),
    }
    if expected.radius_curve is not None:
        curves |= {
            "radius_precision": _rounded(expected.radius_curve.precision),
            "radius_recall": _rounded(expected.radius_curve.recall),
        }
    return {"measures": {name: _short(value) for name, value in measures.items()}, "curves": curves}


def weight_signs(weights: NDArray) -> dict[str, Any]:
    """The signs of one cluster's weights (d x b), packed: bits of the b x d matrix, and the features without weight."""
    norms = np.linalg.norm(weights, axis=1)
    zero = np.flatnonzero(norms <= ZERO_WEIGHT * norms.max())
    positive = np.packbits((weights.T > 0).ravel())
    return {
        "shape": [weights.shape[1], weights.shape[0]],
        "positive": base64.b64encode(positive.tobytes()).decode(),
        "zero_features": zero.tolist(),
    }


def _rounded(values: Any, digits: int = CURVE_DIGITS) -> list[float | None]:
    return [_short(value, digits) for value in values]


def _short(value: float | None, digits: int = DIGITS) -> float | None:
    """As many digits as the results keep; what is not defined as null."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{float(value):.{digits}g}")
