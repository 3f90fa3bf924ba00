"""A partitioned index that is asked for a recall: what it finds against the true neighbors."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.index.kernels.list_queries import Probes, ask
from hashlearn.index.kernels.lists import Kept
from hashlearn.index.partitioned import PartitionedIndex


def clustered(n, d=24, seed=0, n_clusters=60):
    """Rows around centers, as wide apart as real ones are: neighbors are in several lists."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(7).standard_normal((n_clusters, d))
    return (centers[rng.integers(0, n_clusters, n)] + 0.7 * rng.standard_normal((n, d))).astype(np.float32)


def distances(metric, Q, X):
    if metric == "dot":
        return -(Q @ X.T)
    if metric == "cosine":
        return 1 - (Q / np.linalg.norm(Q, axis=1, keepdims=True)) @ (X / np.linalg.norm(X, axis=1, keepdims=True)).T
    return ((Q[:, None] - X[None]) ** 2).sum(axis=2) if len(X) < 2000 else squared(Q, X)


def squared(Q, X):
    Q, X = Q.astype(np.float64), X.astype(np.float64)
    return (Q**2).sum(1)[:, None] - 2 * Q @ X.T + (X**2).sum(1)


def nearest(metric, Q, X, k, rows=None):
    rows = np.arange(len(X)) if rows is None else rows
    away = distances(metric, Q, X[rows])
    near = np.sort(np.argpartition(away, min(k, len(rows) - 1), axis=1)[:, :k], axis=1) if len(rows) else away
    order = np.argsort(np.take_along_axis(away, near, axis=1), axis=1, kind="stable")
    return rows[np.take_along_axis(near, order, axis=1)]


def share_found(found, truth):
    return np.mean([np.isin(true, here).mean() for true, here in zip(truth, found)])


@pytest.fixture(scope="module", params=["euclidean", "cosine", "dot"])
def tuned(request):
    X = clustered(15_000)
    index = PartitionedIndex(n_bits=48, metric=request.param, n_lists=150, random_state=0)
    return index.fit(X).add(X).tune(X), X


@pytest.mark.parametrize("recall", [0.8, 0.9, 0.95, 0.99])
def test_the_recall_asked_for_is_reached_by_queries_that_nobody_tuned_on(tuned, recall):
    index, X = tuned
    Q = clustered(600, seed=1)
    truth = nearest(index.metric, Q, X, 10)
    for k in (10, 4):
        found = index.search(Q, k, recall=recall, vectors=X)
        reached = share_found(found.ids, truth[:, :k])
        assert found.recall == pytest.approx(recall, abs=1e-9)
        assert reached == pytest.approx(recall, abs=0.02) or reached > recall


def test_more_recall_looks_at_more_lists_and_each_query_at_its_own_number(tuned):
    index, X = tuned
    Q = clustered(100, seed=2)
    probed = [index.search(Q, recall=recall, vectors=X).probed for recall in (0.7, 0.9, 0.99)]
    assert probed[0].mean() < probed[1].mean() < probed[2].mean()
    assert len(np.unique(probed[2])) > 5
    assert (probed[2] < index.n_lists).all()


def test_recall_1_is_exact(tuned):
    index, X = tuned
    Q = clustered(20, seed=3)
    found = index.search(Q, 10, recall=1.0, vectors=X)
    np.testing.assert_array_equal(found.ids, nearest(index.metric, Q, X, 10))
    assert found.recall == 1


@pytest.mark.parametrize("selectivity", [0.5, 0.1, 0.01, 0.001])
def test_a_filter_costs_no_recall(tuned, selectivity):
    index, X = tuned
    Q = clustered(200, seed=4)
    subset = np.random.default_rng(5).random(len(X)) < selectivity
    found = index.search(Q, 10, recall=0.95, vectors=X, subset=subset)
    assert subset[found.ids[found.ids >= 0]].all()
    truth = nearest(index.metric, Q, X, 10, np.flatnonzero(subset))
    assert share_found(found.ids, truth) > 0.93


def test_a_query_looks_where_the_rows_of_a_filter_are():
    """A share of the weight is a share of the rows that may be found, wherever these are."""
    X = clustered(2000)
    index = _small_index(X)
    state, Q = index._state, X[:1]
    away = distances("euclidean", Q, state.partition.centers)[0]
    far = np.isin(index.nearest_lists(X), np.argsort(away)[-6:])
    probes, kept, allowed = Probes(index.n_lists, 0.7, 0.0), Kept(2000, 2000), state.allowed(far)
    assert (state.look(Q, probes, kept, allowed, None).ids < 0).all()
    found = state.look(Q, probes, kept, allowed, None, state.expecting(allowed))
    assert 0.65 * far.sum() < (found.ids >= 0).sum() < far.sum()
    assert far[found.ids[found.ids >= 0]].all()


def test_a_filter_of_rows_far_from_the_query_finds_as_many_as_there_are(tuned):
    index, X = tuned
    Q = X[:5]
    far = np.argsort(distances(index.metric, Q, X).min(axis=0))[-4000:]
    found = index.search(Q, 50, recall=0.8, vectors=X, subset=far)
    assert np.isin(found.ids, far).all()


def test_removed_rows_are_not_found_and_do_not_count_as_neighbors():
    X = clustered(4000)
    index = PartitionedIndex(n_bits=32, n_lists=40, random_state=0).fit(X).add(X)
    removed = np.arange(0, 4000, 2)
    index.remove(removed).tune(X)
    Q = clustered(100, seed=1)
    found = index.search(Q, 10, recall=0.95, vectors=X)
    assert not np.isin(found.ids, removed).any()
    truth = nearest("euclidean", Q, X, 10, np.arange(1, 4000, 2))
    assert share_found(found.ids, truth) > 0.9


def test_an_index_is_tuned_with_queries_that_are_no_rows(tuned):
    index, X = tuned
    Q = 1.3 * clustered(400, seed=8)
    other = index.copy().tune(X, Q[:300])
    found = other.search(Q[300:], 10, recall=0.9, vectors=X)
    assert share_found(found.ids, nearest(index.metric, Q[300:], X, 10)) > 0.86


def test_what_was_measured_is_kept_with_the_index(tmp_path, tuned):
    index, X = tuned
    index.save(tmp_path / "index.hll")
    for other in (PartitionedIndex.open(tmp_path / "index.hll"), pickle.loads(pickle.dumps(index)), copy.copy(index)):
        assert other.is_tuned
        assert other.plan(10, 0.95) == index.plan(10, 0.95)
        assert other.plan(10, 0.95, 500) == index.plan(10, 0.95, 500)
    assert index.copy().add(X[:10]).is_tuned
    assert not index.copy().fit(X).is_tuned


@settings(deadline=None, max_examples=30)
@given(share=st.floats(1e-6, 1, exclude_max=True), k=st.integers(1, 40), n=st.integers(1, 140))
def test_queries_that_look_at_different_numbers_of_lists_find_what_each_finds_alone(share, k, n):
    X, Q = clustered(2000), clustered(n, seed=1)
    index = _small_index(X)
    state = index._state
    probes = Probes(index.n_lists, share, 0.05)
    found = state.look(Q, probes, Kept(k, k), state.allowed(None), None)
    for q in range(0, n, 7):
        asked, _ = ask(state.lists, state.geometry, Q[q : q + 1], probes)
        n_probes = int((asked.lists[0] >= 0).sum())
        assert n_probes >= 1
        alone = index.search(Q[q : q + 1], k, probes=n_probes)
        np.testing.assert_array_equal(alone.ids[0], found.ids[q])
        assert found.probed[q] <= n_probes


@pytest.mark.parametrize("most", [20, 200])
def test_a_search_by_vectors_returns_the_nearest_of_the_candidates_for_a_query_alone_and_among_others(most):
    X, Q = clustered(2000), clustered(60, seed=1)
    index = _small_index(X).copy().tune(X)
    state, plan = index._state, index.plan(10, 0.95)._replace(candidates=most, margin=np.inf)
    index.plan = lambda *arguments: plan
    candidates = state.look(Q, plan.probes, plan.kept, state.allowed(None), None).ids
    n_candidates = (candidates >= 0).sum(axis=1)
    assert (n_candidates < most).any() == (most == 200)
    found = index.search(Q, 10, recall=0.95, vectors=X)
    for q in range(len(Q)):
        alone = index.search(Q[q : q + 1], 10, recall=0.95, vectors=X)
        np.testing.assert_array_equal(alone.ids[0], found.ids[q])
        if n_candidates[q] >= 10:
            rows = np.sort(candidates[q, : n_candidates[q]])
            np.testing.assert_array_equal(found.ids[q], nearest("euclidean", Q[q : q + 1], X, 10, rows)[0])


@pytest.mark.parametrize("most", [15, 60, 3000])
@pytest.mark.parametrize("margin", [0.0, 0.1, 0.5, 1e6])
def test_a_margin_keeps_the_candidates_not_much_farther_than_the_last_neighbor(margin, most):
    X, Q = clustered(3000), clustered(40, seed=1)
    X[1500:1700] = X[1500]  # with equal estimates
    Q[:5] = X[1500]
    index = PartitionedIndex(n_bits=32, n_lists=30, random_state=0).fit(X).add(X).tune(X)
    state, every = index._state, index._state.allowed(None)
    probes, (near, among) = Probes(20), (10, 3000)
    all_found = state.look(Q, probes, Kept(among, among), every, None)
    kept = state.look(Q, probes, Kept(most, near, margin), every, None)
    for q, (distances, rows) in enumerate(zip(*all_found)):
        asked, _ = ask(state.lists, state.geometry, Q[q : q + 1], probes)
        sums = np.rint((distances.astype(np.float64) - asked.bases[0]) / asked.units[0])
        reach = min(margin * asked.reaches[0] / asked.units[0], 2.0**26 - 1)
        wanted = rows[(rows >= 0) & (sums <= sums[near - 1] + int(reach) + 0.5)][:most]
        got = kept.ids[q][kept.ids[q] >= 0]
        off = abs(len(got) - len(wanted))  # single precision tells sums apart to within some units
        assert off <= 0.02 * len(wanted)
        np.testing.assert_array_equal(got[: min(len(got), len(wanted))], wanted[: min(len(got), len(wanted))])
        alone = state.look(Q[q : q + 1], probes, Kept(most, near, margin), every, None)
        np.testing.assert_array_equal(alone.ids[0], kept.ids[q])


def test_the_candidates_of_a_plan_with_a_margin_are_those_that_a_search_compares(tuned):
    index, X = tuned
    Q = clustered(80, seed=6)
    plan = index.plan(10, 0.9)._replace(margin=0.5, candidates=900)
    found = index.candidates(Q, plan)
    n_found = (found.ids >= 0).sum(axis=1)
    assert found.ids.shape[1] == n_found.max() < 900
    assert 10 <= n_found.min() < n_found.max()
    other = index.copy()
    other.plan = lambda *arguments: plan
    by_vectors = other.search(Q, 10, recall=0.9, vectors=X)
    for q in range(len(Q)):
        rows = np.sort(found.ids[q, : n_found[q]])
        np.testing.assert_array_equal(by_vectors.ids[q], nearest(index.metric, Q[q : q + 1], X, 10, rows)[0])


_KEPT = {}


def _small_index(X):
    if not _KEPT:
        _KEPT["index"] = PartitionedIndex(n_bits=32, n_lists=30, random_state=0).fit(X).add(X)
    return _KEPT["index"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"recall": 0}, "recall must be above 0 and at most 1"),
        ({"recall": 1.5}, "recall must be above 0 and at most 1"),
        ({"recall": float("nan")}, "recall"),
        ({"recall": 0.9, "probes": 3}, "probes and recall cannot both be given"),
        ({"recall": 0.9, "vectors": None}, "vectors must be an array"),
        ({"recall": 0.9, "vectors": np.zeros((3, 24), np.float32)}, "vectors must be an array"),
        ({"recall": None}, "vectors need a recall"),
    ],
)
def test_bad_requests(tuned, arguments, message):
    index, X = tuned
    with pytest.raises((ValueError, TypeError), match=message):
        index.search(X[:2], **{"vectors": X, **arguments})


def test_an_index_that_was_not_tuned_says_so():
    X = clustered(500)
    index = PartitionedIndex(n_bits=16, n_lists=5, random_state=0).fit(X).add(X)
    with pytest.raises(ValueError, match="call tune"):
        index.search(X[:2], recall=0.9, vectors=X)
    with pytest.raises(ValueError, match="a vector for each of 500 rows"):
        index.tune(X[:100])


@pytest.mark.parametrize("kind", ["equal", "one list", "few rows"])
def test_rows_of_bad_shape_are_found_all_the_same(kind):
    X = clustered(600)
    if kind == "equal":
        X[:] = 1
    if kind == "one list":
        X[:-10] = X[0] + 1e-3 * X[:-10]
    if kind == "few rows":
        X = X[:12]
    n_lists = min(20, len(X) // 2)
    index = PartitionedIndex(n_bits=16, n_lists=n_lists, random_state=0).fit(X).add(X).tune(X)
    found = index.search(X[:5], 3, recall=0.99, vectors=X)
    np.testing.assert_allclose(found.distances[:, 0], 0, atol=1e-3)
    assert (found.ids >= 0).all()
