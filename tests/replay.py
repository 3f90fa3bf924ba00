"""A log of changes that can be replayed: what a search must hold after each of them."""

from typing import NamedTuple

import numpy as np

from hashlearn import LSH
from hashlearn.codes import hamming_distances

N_BITS, N_FEATURES, N_IDS = 16, 6, 300
HASHER = LSH(n_bits=N_BITS, random_state=0).fit(np.random.default_rng(0).standard_normal((50, N_FEATURES)))
QUERIES = np.random.default_rng(1).standard_normal((4, N_FEATURES)).astype(np.float32)
QUERY_CODES = HASHER.transform(QUERIES)
K = 8


class Operation(NamedTuple):
    """Rows that are put, and rows that are removed if they are there."""

    number: int
    ids: list[str]
    X: np.ndarray
    gone: list[str]

    @property
    def payloads(self) -> list[dict]:
        return [{"operation": self.number}] * len(self.ids)

    def on(self, search, rows: dict) -> None:
        """Make the change: one upsert, one removal."""
        search.upsert(self.X, self.ids, self.payloads)
        there = [id for id in self.gone if id in rows]
        if there:
            search.remove(there)


LAST = "last"
"""The id of a row that every change replaces: its payload says how far a search has come."""


def operation(number: int, size: int = 3) -> Operation:
    """The change of this number, the same at every call."""
    rng = np.random.default_rng([7, number])
    ids = [f"row {n}" for n in rng.choice(N_IDS, size, replace=False)]
    gone = [f"row {n}" for n in rng.choice(N_IDS, 2, replace=False) if f"row {n}" not in ids]
    X = rng.standard_normal((size + 1, N_FEATURES)).astype(np.float32)
    return Operation(number, [*ids, LAST], X, gone if number % 3 == 0 else [])


def after(rows: dict, change: Operation) -> dict:
    """Rows by id, each its vector and payload, after a change; in the order in which a search gets them."""
    rows = {id: row for id, row in rows.items() if id not in change.ids}
    rows |= {id: (x, payload) for id, x, payload in zip(change.ids, change.X, change.payloads)}
    return {id: row for id, row in rows.items() if id not in change.gone}


def nearest(rows: dict) -> list[list[tuple[int, str]]]:
    """What the queries must find."""
    ids = list(rows)
    stored = np.array([rows[id][0] for id in ids], np.float32).reshape(-1, N_FEATURES)
    distances = hamming_distances(QUERY_CODES, HASHER.transform(stored), N_BITS)
    return [[(int(row[i]), ids[i]) for i in np.argsort(row, kind="stable")[:K]] for row in distances]


def found(search, query: int) -> list[tuple[int, str]]:
    """What a search finds for a query, without the places that nothing fills."""
    result = search.search(QUERIES[query : query + 1], K, rerank="codes")
    return [(d, id) for d, id in zip(result.distances[0].tolist(), result.ids[0].tolist()) if id not in (None, -1)]
