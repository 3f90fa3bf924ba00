"""Near pairs by brute force, and data with planted ones."""

import numpy as np


def distances(X, metric):
    X = np.asarray(X, np.float64)
    if metric == "cosine":
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    squares = np.array([((X - row) ** 2).sum(axis=1) for row in X])
    return squares / 2 if metric == "cosine" else np.sqrt(squares)


def brute_force_pairs(X, max_distance, metric):
    first, second = np.nonzero(np.triu(distances(X, metric) <= max_distance, 1))
    return set(zip(first.tolist(), second.tolist()))


def all_pairs(duplicates):
    return {
        (int(a), int(b))
        for pairs in duplicates.all_pairs()
        for a, b in zip(pairs.first.tolist(), pairs.second.tolist())
    }


def with_planted(n, d, n_planted, step, seed=0):
    """Gaussian rows; each of the last ``n_planted`` is one of the others moved by ``step``."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    moves = rng.standard_normal((n_planted, d))
    moves *= step / np.linalg.norm(moves, axis=1, keepdims=True)
    X[n - n_planted :] = X[rng.choice(n - n_planted, n_planted)] + moves
    return X


def group_sets(duplicates):
    return {frozenset([group.kept, *group.members.tolist()]) for group in duplicates.groups}
