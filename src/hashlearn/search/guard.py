"""A guard on write: new rows that are near rows of the search, or near one another, are found before they are added."""

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_number
from hashlearn.codes.results import NO_ID, Neighbors
from hashlearn.index import HammingIndex
from hashlearn.linalg.projections import unit_rows
from hashlearn.rows import as_rows
from hashlearn.search.nearest import Options, nearest, nearest_candidates
from hashlearn.search.rows import CatalogRows, NewRows, kept_payloads, new_ids
from hashlearn.search.snapshot import Snapshot
from hashlearn.search.vector_records import VectorView

ACTIONS = ("skip", "flag", "error")
DUPLICATE_OF = "duplicate_of"
"""The field of a payload that says which row a flagged row is near to."""

ROWS_AT_A_TIME = 512
_CANDIDATES = 256
"""Nearest codes of a new row whose vectors are compared, in a search that has no lists."""

_LOOKED_AT = 8
"""Rows from the lists whose codes are compared with that of a new row."""

_EQUAL_CODES_OF = 64
"""Rows whose equal codes are looked up at a time: all codes of a search may be equal."""

_ROUNDING = 1e-12
"""The cosine distance of two rows of one direction is up to this. A squared distance that is computed by products is
wrong by up to this share of the squared lengths."""

_REPLACED = 9
"""Rows that the same call replaces and that are passed over, at most, on the way to the nearest row that stays."""


class NearRow(NamedTuple):
    """A new row that is near another one: their ids and their distance."""

    id: Any
    of: Any
    distance: float


class Guard(NamedTuple):
    """What to do with new rows that are at most this far from another row."""

    action: str
    max_distance: float

    @classmethod
    def checked(cls, duplicates: Any, max_distance: Any) -> "Guard":
        """The guard that a caller asks for."""
        if duplicates is None:
            raise ValueError("max_distance must be None without duplicates='skip', 'flag' or 'error'")
        check_choice("duplicates", duplicates, ACTIONS)
        if max_distance is None:
            raise ValueError("duplicates needs max_distance, the largest distance of two rows that are the same thing")
        return cls(duplicates, check_number("max_distance", max_distance))

    def near_rows(self, snapshot: Snapshot, X: NDArray, ids: NDArray[Any]) -> list[NearRow | None]:
        """For each new row the row that it is near to: one of the search, or one before it that is to be added."""
        rows = _as_kept(snapshot, X)
        of_known, distances = self._nearest_known(snapshot, X, rows, ids)
        near: list[NearRow | None] = [
            NearRow(id, of, float(distance)) if of is not None else None
            for id, of, distance in zip(ids.tolist(), of_known, distances)
        ]
        among = self._distances_among(snapshot, X, rows)
        names, limit = ids.tolist(), self._limit(snapshot)
        for row in np.flatnonzero((np.tril(among <= limit, -1)).any(axis=1)).tolist():
            before = np.flatnonzero(among[row, :row] <= limit)
            if self.action == "skip":  # what is skipped is not there to be near to
                before = before[[near[other] is None for other in before.tolist()]]
            if near[row] is None and len(before):
                first = int(before[np.argmin(among[row, before])])
                near[row] = NearRow(names[row], names[first], float(among[row, first]))
        return near

    def _nearest_known(
        self, snapshot: Snapshot, X: NDArray, rows: NDArray, ids: NDArray[Any]
    ) -> tuple[list[Any], NDArray[np.floating]]:
        """The id of the nearest row within the distance, or None, and how far it is. Rows that are replaced do not
        count, so that a row is not near itself."""
        if not len(snapshot):
            return [None] * len(X), np.full(len(X), np.inf)
        replaced = np.empty(0, np.int64)
        if snapshot.id_type == ("str" if ids.dtype == object else "int64"):
            places = snapshot.find(ids)
            replaced = places[places >= 0]
        found, has_more = _near_codes(snapshot, X, rows, 1 + min(len(replaced), _REPLACED))
        distances = found.distances.astype(np.float64)
        distances[(found.ids == NO_ID) | np.isin(found.ids, replaced)] = np.inf
        each, best = np.arange(len(X)), np.argmin(distances, axis=1)
        places, distances = found.ids[each, best], distances[each, best]
        places[np.isinf(distances)] = NO_ID
        if snapshot.vectors is not None:
            distances = _distances(snapshot, rows, places)
            todo = np.flatnonzero(has_more & ~(distances <= self._limit(snapshot)))
            for start in range(0, len(todo), _EQUAL_CODES_OF):
                some = todo[start : start + _EQUAL_CODES_OF]
                places[some] = _nearest_of_equal_codes(snapshot, X[some], rows[some], replaced)
                distances[some] = _distances(snapshot, rows[some], places[some])
        places[~(distances <= self._limit(snapshot))] = NO_ID
        named = [None if place < 0 else id for place, id in zip(places.tolist(), snapshot.ids_at(places).tolist())]
        return named, distances

    def _limit(self, snapshot: Snapshot) -> float:
        """The largest distance, and what a distance of zero is rounded to."""
        is_rounded = snapshot.vectors is not None and snapshot.hasher.metric == "cosine"
        return self.max_distance + (_ROUNDING if is_rounded else 0)

    def _distances_among(self, snapshot: Snapshot, X: NDArray, rows: NDArray) -> NDArray[np.floating]:
        """The distances of the new rows from one another, as a search says them."""
        if snapshot.vectors is None:
            codes = snapshot.hasher.codes(X)
            return np.bitwise_count(codes[:, None, :] ^ codes[None, :, :]).sum(axis=2).astype(np.float64)
        if snapshot.hasher.metric == "dot":
            return -rows @ rows.T
        if snapshot.hasher.metric == "cosine":
            unit = unit_rows(rows)
            return 1 - unit @ unit.T
        squares = (rows**2).sum(axis=1)
        both = squares[:, None] + squares
        found = np.sqrt(np.maximum(both - 2 * rows @ rows.T, 0))
        first, second = np.nonzero(found <= self.max_distance + np.sqrt(_ROUNDING * both))
        for start in range(0, len(first), ROWS_AT_A_TIME):
            a, b = first[start : start + ROWS_AT_A_TIME], second[start : start + ROWS_AT_A_TIME]
            found[a, b] = np.linalg.norm(rows[a] - rows[b], axis=1)
        return found


def _as_kept(snapshot: Snapshot, X: NDArray) -> NDArray[np.float64]:
    """New rows as the search would keep them, in half precision or bytes: so a copy of a kept row equals it."""
    if not isinstance(snapshot.vectors, VectorView):
        return X.astype(np.float64)
    return snapshot.vectors.as_kept(X).astype(np.float64)


def _near_codes(snapshot: Snapshot, X: NDArray, rows: NDArray, k: int) -> tuple[Neighbors, NDArray[np.bool_]]:
    """The k nearest rows among the candidates of each new row, and whether other rows may have the same code."""
    if snapshot.vectors is None:
        return nearest(snapshot, X, k, Options(), None), np.zeros(len(X), np.bool_)
    if not isinstance(snapshot.index, HammingIndex):
        candidates = None if snapshot.lists is not None else _CANDIDATES
        return nearest(snapshot, X, k, Options(candidates=candidates), None), np.zeros(len(X), np.bool_)
    if snapshot.lists is not None:
        found = nearest(snapshot, X, max(k, _LOOKED_AT), Options(), None)
        return found, _one_has_its_code(snapshot, X, found.ids)
    found = snapshot.index.search(snapshot.hasher.codes(X), max(k, min(_CANDIDATES, len(snapshot))))
    is_tied = found.distances[:, -1] == 0
    return nearest_candidates(snapshot.vectors, rows, found.ids, k, snapshot.hasher.metric), is_tied


def _one_has_its_code(snapshot: Snapshot, X: NDArray, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the code of a new row is that of one of the rows at these places: then it may be that of many rows, of
    which the lists give some."""
    is_there = places != NO_ID
    has_its_code = np.zeros(places.shape, np.bool_)
    codes = snapshot.hasher.codes(snapshot.vectors.take(places[is_there]))
    has_its_code[is_there] = (codes == snapshot.hasher.codes(X)[np.nonzero(is_there)[0]]).all(axis=1)
    return np.asarray(has_its_code.any(axis=1))


def _nearest_of_equal_codes(
    snapshot: Snapshot, X: NDArray, rows: NDArray, replaced: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The place of the nearest row that has the code of a new row and is not replaced; -1 for none."""
    assert isinstance(snapshot.index, HammingIndex)
    equal = snapshot.index.within(snapshot.hasher.codes(X), 0)
    counts = np.diff(equal.offsets)
    places = np.full((len(X), max(1, int(counts.max()))), NO_ID, np.int64)
    places[np.arange(places.shape[1]) < counts[:, None]] = np.where(np.isin(equal.ids, replaced), NO_ID, equal.ids)
    return nearest_candidates(snapshot.vectors, rows, places, 1, snapshot.hasher.metric).ids[:, 0]


def _distances(snapshot: Snapshot, rows: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """The distance of each row from the vector at its place, in double precision; infinite where there is none."""
    is_there = places != NO_ID
    others = snapshot.vectors.take(places[is_there]).astype(np.float64)
    near, metric = rows[is_there], snapshot.hasher.metric
    distances = np.full(len(rows), np.inf)
    if metric == "dot":
        distances[is_there] = -(near * others).sum(axis=1)
    elif metric == "cosine":
        distances[is_there] = ((unit_rows(near) - unit_rows(others)) ** 2).sum(axis=1) / 2
    else:
        distances[is_there] = np.linalg.norm(near - others, axis=1)
    return distances


def put_guarded(rows: CatalogRows, X: Any, ids: Any, payloads: Any, guard: Guard, *, only_new: bool) -> list[NearRow]:
    """Put rows, block by block; those that are near others are treated as the guard says, and returned."""
    source = as_rows(X)
    n = len(source)
    texts = kept_payloads(payloads, n)
    all_near = []
    with rows.changing() as pending:
        if not pending.snapshot.keeps_vectors and pending.snapshot.hasher.query != "code":
            raise ValueError("duplicates needs vectors to compare with; make the search with keep_vectors='float32'")
        every = new_ids(pending, ids, n)
        if n:
            rows.have_vectors(pending, source)
        for start in range(0, n, ROWS_AT_A_TIME):
            part = np.arange(start, min(start + ROWS_AT_A_TIME, n))
            block = source.take(part)
            near = guard.near_rows(pending.snapshot, block, every[part])
            found = [each for each in near if each is not None]
            if found and guard.action == "error":
                raise ValueError(
                    f"X must have no duplicates: the row of id {found[0].id!r:.60} is at distance "
                    f"{found[0].distance:.6g} of that of id {found[0].of!r:.60}; nothing was added"
                )
            all_near += found
            is_kept = np.array([each is None or guard.action == "flag" for each in near])
            kept = part[is_kept]
            said = [_flagged(texts[row], near[row - start]) for row in kept]
            encoded = pending.snapshot.hasher.encode(block[is_kept])
            rows.put_encoded(pending, NewRows(block[is_kept], every[kept], encoded, said), only_new)
    return all_near


def _flagged(payload: str, near: NearRow | None) -> str:
    """The payload of a row, as JSON; where the row is near another, it says which."""
    if near is None:
        return payload
    return json.dumps({**json.loads(payload or "{}"), DUPLICATE_OF: near.of}, ensure_ascii=False, separators=(",", ":"))
