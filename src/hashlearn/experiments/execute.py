"""One task done: fit, encode, judge, and the line that says what came of it."""

import base64
import time
import warnings
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.experiments.anchor_cache import anchors_of, fit_from_sums
from hashlearn.experiments.data_cache import CachedData
from hashlearn.experiments.judge import DIGITS, judge_codes, judge_real_queries, judge_vectors, rounded
from hashlearn.experiments.provenance import provenance
from hashlearn.experiments.real_queries import estimate_vectors
from hashlearn.experiments.result_lines import Line
from hashlearn.experiments.tasks import Task, key_of
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.registry import method_named

MOST_WARNINGS = 3
ZERO_WEIGHT = 1e-3
"""A feature whose weights are smaller than this share of the largest feature's is drawn as one without weight: the
reweighting of eq. 11 drives rows toward zero without ever reaching it."""


class EncodedData(NamedTuple):
    """Codes of the database, as the method's authors make them, and of the queries; and the seconds of every step."""

    codes: NDArray[np.uint8]
    query_codes: NDArray[np.uint8]
    seconds: dict[str, float]


def execute(task: Task, folder: str | Path) -> Line:
    """Do a task on the data cached in ``folder``. Data a method cannot work on is a result too: a ``problem``."""
    data = _opened(str(folder))
    line: Line = {
        "key": key_of(task.config, data.digest),
        "config": task.config,
        "data": data.facts,
        **provenance(),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            line |= judge_vectors(data) if task.method is None else _result(task, data)
        except ValueError as error:
            line["problem"] = str(error).partition("\n")[0]
    said = list(dict.fromkeys(" ".join(str(warning.message).split())[:200] for warning in caught))[:MOST_WARNINGS]
    return line | ({"warnings": said} if said else {})


@lru_cache(maxsize=1)
def _opened(folder: str) -> CachedData:
    return CachedData(folder)


def _result(task: Task, data: CachedData) -> Line:
    assert task.method is not None
    hasher: Any = task.hasher()
    for name in task.method.registered:
        _warm_up(name, str(data.folder))
    encoded = _encoded(task, hasher, data)
    if task.method.ranks_real_queries(hasher):
        line = judge_real_queries(estimate_vectors(hasher, encoded.codes, data.database, data.queries), data)
    else:
        line = judge_codes(encoded.query_codes, encoded.codes, hasher.n_bits, data)
    line["seconds"] = {name: round(value, 4) for name, value in encoded.seconds.items()}
    if hasattr(hasher, "objective_"):
        line["objective"] = rounded(hasher.objective_, DIGITS)
    if getattr(hasher, "keep_weights", False):
        line["weights"] = weight_signs(hasher.personalized_weights_[0])
    return line


def _encoded(task: Task, hasher: Any, data: CachedData) -> EncodedData:
    wanted = anchors_of(task, len(data.database))
    start = time.perf_counter()
    if type(hasher).fit_codes is not Hasher.fit_codes:  # the codes of the training rows are what is learned
        codes = hasher.fit_codes(data.database)
        seconds, codes_seconds = {"fit": time.perf_counter() - start}, 0.0
    else:
        seconds = _fitted(hasher, data) if wanted is None else fit_from_sums(hasher, data, wanted)
        start = time.perf_counter()
        codes = hasher.transform(data.database)
        codes_seconds = time.perf_counter() - start
    start = time.perf_counter()
    query_codes = hasher.transform(data.queries)
    return EncodedData(codes, query_codes, {**seconds, "encode": codes_seconds + time.perf_counter() - start})


def _fitted(hasher: Any, data: CachedData) -> dict[str, float]:
    start = time.perf_counter()
    hasher.fit(data.database)
    return {"fit": time.perf_counter() - start}


@cache
def _warm_up(method: str, folder: str) -> None:
    """Have a method's compiled loops compiled, which happens once in a process and is no part of a fit's time."""
    with suppress(ValueError):
        rows = np.array(_opened(folder).database[:200])
        make: Any = method_named(method)
        make(n_bits=8, random_state=0).fit(rows).transform(rows)


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
