"""One task done: fit, encode, judge, and the line that says what came of it."""

import base64
import time
import warnings
from collections import defaultdict
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hashlearn.codes import pack, unpack
from hashlearn.experiments.anchor_cache import anchors_of, fit_from_sums
from hashlearn.experiments.data_cache import CachedData
from hashlearn.experiments.judge import DIGITS, judge_codes, judge_real_queries, judge_vectors, rounded
from hashlearn.experiments.provenance import provenance
from hashlearn.experiments.real_queries import estimate_vectors
from hashlearn.experiments.result_lines import Line
from hashlearn.experiments.tasks import Task, key_of
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.registry import method_named
from hashlearn.hashers.union import HasherUnion
from hashlearn.linalg.moments import KnownMoments, knowing_moments

MOST_WARNINGS = 3
ZERO_WEIGHT = 1e-3
"""A feature whose weights are smaller than this share of the largest feature's is drawn as one without weight: the
reweighting of eq. 11 drives rows toward zero without ever reaching it."""


class EncodedData(NamedTuple):
    """Codes of the database, as the method's authors make them, and of the queries; and the seconds of every step."""

    codes: NDArray[np.uint8]
    query_codes: NDArray[np.uint8]
    seconds: dict[str, float]


def execute(task: Task, folder: str | Path, stable: bool = True) -> Line:
    """Do a task on the data cached in ``folder``. Data a method cannot work on is a result too: a ``problem``.

    With ``stable`` the measures of the ranking with equal distances in the order of the database are there as well.
    """
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
            line |= judge_vectors(data, stable) if task.method is None else _result(task, data, stable)
        except ValueError as error:
            line["problem"] = str(error).partition("\n")[0]
    said = list(dict.fromkeys(" ".join(str(warning.message).split())[:200] for warning in caught))[:MOST_WARNINGS]
    return line | ({"warnings": said} if said else {})


@lru_cache(maxsize=1)
def _opened(folder: str) -> CachedData:
    return CachedData(folder)


@lru_cache(maxsize=1)
def _moments_of(folder: str) -> KnownMoments:
    return KnownMoments(_opened(folder).database)


def _result(task: Task, data: CachedData, stable: bool) -> Line:
    assert task.method is not None
    hasher: Any = task.hasher()
    for name in task.method.registered:
        _warm_up(name, str(data.folder))
    encoded = _encoded(task, hasher, data)
    if task.method.ranks_real_queries(hasher):
        line = judge_real_queries(estimate_vectors(hasher, encoded.codes, data.database, data.queries), data, stable)
    else:
        line = judge_codes(encoded.query_codes, encoded.codes, hasher.n_bits, data, stable)
    line["seconds"] = {name: round(value, 4) for name, value in encoded.seconds.items()}
    if hasattr(hasher, "objective_"):
        line["objective"] = rounded(hasher.objective_, DIGITS)
    if getattr(hasher, "keep_weights", False):
        line["weights"] = weight_signs(hasher.personalized_weights_[0])
    return line


def _encoded(task: Task, hasher: Any, data: CachedData) -> EncodedData:
    moments = _moments_of(str(data.folder))
    n_uses, known_seconds = moments.n_uses, moments.seconds
    with knowing_moments(moments):
        codes, seconds = _fit(hasher, task.run, data)
    if moments.n_uses > n_uses:
        seconds["moments"] = known_seconds  # what they took when they were found; if that was now, "fit" has it
    start = time.perf_counter()
    query_codes = hasher.transform(data.queries)
    seconds["encode"] += time.perf_counter() - start
    return EncodedData(codes, query_codes, seconds)


def _fit(hasher: Any, seed: int, data: CachedData) -> tuple[NDArray[np.uint8], dict[str, float]]:
    """Fit a hasher, and return the codes of the database and the seconds of every step."""
    if isinstance(hasher, HasherUnion):
        return _fit_union(hasher, seed, data)
    wanted = anchors_of(hasher, seed, len(data.database))
    start = time.perf_counter()
    if type(hasher).fit_codes is not Hasher.fit_codes:  # the codes of the training rows are what is learned
        codes = hasher.fit_codes(data.database)
        return codes, {"fit": time.perf_counter() - start, "encode": 0.0}
    seconds = _fitted(hasher, data) if wanted is None else fit_from_sums(hasher, data, wanted)
    start = time.perf_counter()
    codes = hasher.transform(data.database)
    return codes, {**seconds, "encode": time.perf_counter() - start}


def _fit_union(union: HasherUnion, seed: int, data: CachedData) -> tuple[NDArray[np.uint8], dict[str, float]]:
    parts = [clone(part) for part in union.hashers]
    fitted = [_fit(part, seed, data) for part in parts]
    union.n_features_in_, union.hashers_ = data.database.shape[1], parts
    bits = [unpack(codes, part.n_bits) for part, (codes, _) in zip(parts, fitted)]
    total: dict[str, float] = defaultdict(float)
    for _, seconds in fitted:
        for step, value in seconds.items():
            total[step] += value
    return pack(np.hstack(bits)), dict(total)


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
