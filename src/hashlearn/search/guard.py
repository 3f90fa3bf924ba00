"""A guard on write: new rows that are near rows of the search, or near one another, are found before they are added."""

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_number
from hashlearn.codes.results import NO_ID
from hashlearn.linalg.projections import unit_rows
from hashlearn.rows import as_rows
from hashlearn.search.nearest import Options, nearest
from hashlearn.search.rows import CatalogRows, NewRows, kept_payloads, new_ids
from hashlearn.search.snapshot import Snapshot

ACTIONS = ("skip", "flag", "error")
DUPLICATE_OF = "duplicate_of"
"""The field of a payload that says which row a flagged row is near to."""

ROWS_AT_A_TIME = 512
_CANDIDATES = 256
"""Nearest codes of a new row whose vectors are compared, in a search that has no lists."""

_COSINE_ROUNDING = 1e-6
"""The cosine distance of two equal rows is up to this, because lengths and products are rounded to float32."""

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
        of_known, distances = self._nearest_known(snapshot, X, ids)
        near: list[NearRow | None] = [
            NearRow(id, of, float(distance)) if of is not None else None
            for id, of, distance in zip(ids.tolist(), of_known, distances)
        ]
        among = self._distances_among(snapshot, X)
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
        self, snapshot: Snapshot, X: NDArray, ids: NDArray[Any]
    ) -> tuple[list[Any], NDArray[np.floating]]:
        """The id of the nearest row within the distance, or None, and how far it is. Rows that are replaced do not
        count, so that a row is not near itself."""
        if not len(snapshot):
            return [None] * len(X), np.full(len(X), np.inf)
        replaced = np.empty(0, np.int64)
        if snapshot.id_type == ("str" if ids.dtype == object else "int64"):
            places = snapshot.find(ids)
            replaced = places[places >= 0]
        by_codes = snapshot.vectors is None
        candidates = None if by_codes or snapshot.lists is not None else _CANDIDATES
        found = nearest(snapshot, X, 1 + min(len(replaced), _REPLACED), Options(candidates=candidates), None)
        distances = found.distances.astype(np.float64)
        is_other = (found.ids != NO_ID) & ~np.isin(found.ids, replaced)
        distances[~is_other | (distances > self._limit(snapshot))] = np.inf
        best = np.argmin(distances, axis=1)
        rows = np.arange(len(X))
        places = np.where(np.isfinite(distances[rows, best]), found.ids[rows, best], NO_ID)
        named = [None if place < 0 else id for place, id in zip(places.tolist(), snapshot.ids_at(places).tolist())]
        return named, distances[rows, best]

    def _limit(self, snapshot: Snapshot) -> float:
        """The largest distance, and what a distance of zero is rounded to."""
        is_rounded = snapshot.vectors is not None and snapshot.hasher.metric == "cosine"
        return self.max_distance + (_COSINE_ROUNDING if is_rounded else 0)

    def _distances_among(self, snapshot: Snapshot, X: NDArray) -> NDArray[np.floating]:
        """The distances of the new rows from one another, as a search says them."""
        if snapshot.vectors is None:
            codes = snapshot.hasher.codes(X)
            return np.bitwise_count(codes[:, None, :] ^ codes[None, :, :]).sum(axis=2).astype(np.float64)
        rows = X.astype(np.float64)
        if snapshot.hasher.metric == "dot":
            return -rows @ rows.T
        if snapshot.hasher.metric == "cosine":
            unit = unit_rows(rows)
            return 1 - unit @ unit.T
        squares = (rows**2).sum(axis=1)
        return np.sqrt(np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0))


def put_guarded(rows: CatalogRows, X: Any, ids: Any, payloads: Any, guard: Guard, *, only_new: bool) -> list[NearRow]:
    """Put rows, block by block; those that are near others are treated as the guard says, and returned."""
    source = as_rows(X)
    n = len(source)
    texts = kept_payloads(payloads, n)
    all_near = []
    with rows.changing() as pending:
        if pending.snapshot.vectors is None and pending.snapshot.hasher.query != "code":
            raise ValueError("duplicates needs vectors to compare with; make the search with keep_vectors='float32'")
        every = new_ids(pending, ids, n)
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
