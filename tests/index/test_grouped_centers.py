"""Centers in groups, as an index of ten million rows and more has them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.index import grouped_centers, partition
from hashlearn.index.grouped_centers import GroupedCenters, grouped_kmeans
from hashlearn.index.partitioned import PartitionedIndex


def rows(n, d=16, seed=0):
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(3).standard_normal((40, d))
    return (centers[rng.integers(0, 40, n)] + 0.5 * rng.standard_normal((n, d))).astype(np.float32)


@settings(deadline=None, max_examples=25)
@given(n_groups=st.integers(1, 9), seed=st.integers(0, 99), n_looked_at=st.sampled_from([1, 4, 100]))
def test_a_row_gets_the_nearest_center_of_its_nearest_groups(n_groups, seed, n_looked_at):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_groups)
    centers, X = rows(sizes.sum(), seed=seed), rows(50, seed=seed + 1)
    means = np.array([part.mean(axis=0) for part in np.split(centers, np.cumsum(sizes)[:-1])])
    group_of = np.repeat(np.arange(n_groups), sizes)
    before, grouped_centers.N_LOOKED_AT = grouped_centers.N_LOOKED_AT, n_looked_at
    try:
        found = GroupedCenters(centers, sizes)(X)
    finally:
        grouped_centers.N_LOOKED_AT = before
    for x, center in zip(X, found):
        near = np.argsort(((means - x) ** 2).sum(axis=1))[:n_looked_at]
        distances = np.where(np.isin(group_of, near), ((centers - x) ** 2).sum(axis=1), np.inf)
        assert np.isclose(distances[center], distances.min(), rtol=1e-4)


def test_most_rows_get_their_nearest_center():
    X = rows(6000)
    centers, sizes = grouped_kmeans(X, 200, 5, 64)
    assert len(centers) == 200 == sizes.sum()
    found = GroupedCenters(centers, sizes)(X)
    nearest = np.array([((centers - x) ** 2).sum(axis=1).argmin() for x in X])
    assert (found == nearest).mean() > 0.9
    assert len(np.unique(found)) > 150


def test_an_index_with_groups_finds_neighbors_and_is_kept_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "GROUPED_FROM", 50)
    X = rows(5000)
    index = PartitionedIndex(n_bits=32, n_lists=100, random_state=0).fit(X).add(X[:4000]).tune(X[:4000])
    index.save(tmp_path / "index.hll")
    opened = PartitionedIndex.open(tmp_path / "index.hll").add(X[4000:])
    index.add(X[4000:])
    found, again = (here.search(X[:200], 10, recall=0.95, vectors=X) for here in (index, opened))
    np.testing.assert_array_equal(found.ids, again.ids)
    truth = np.array([np.argsort(((X - x) ** 2).sum(axis=1))[:10] for x in X[:200]])
    assert np.mean([np.isin(t, f).mean() for t, f in zip(truth, found.ids)]) > 0.92
