"""Anchors: k-means as published, exact nearest anchors, and the graph of eq. 2."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_files import FOLDER, Oracle, oracle_files

from hashlearn.linalg.anchors.graph import AnchorGraph, Spacing, normalized, weight_matrix
from hashlearn.linalg.anchors.kmeans import kmeans
from hashlearn.linalg.anchors.search import AnchorSearch, nearest_anchors, squared_distances
from hashlearn.rows import RowBlocks


@pytest.mark.skipif(not (FOLDER / "KMEANS.npz").exists(), reason="the folder of oracles has no k-means run")
def test_kmeans_with_empty_clusters_equals_the_published_run():
    with np.load(FOLDER / "KMEANS.npz") as oracle:
        rows = RowBlocks(oracle["X_train"])
        rounds = json.loads(str(oracle["params"]))["max_iter"]
        clusters = kmeans(rows, rows.take(oracle["init_rows"]), rounds)
        np.testing.assert_allclose(clusters.centers, oracle["centers"], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(clusters.labels(rows), oracle["labels"])


@pytest.mark.parametrize("path", oracle_files(), ids=lambda path: path.stem)
def test_kmeans_and_graph_equal_the_published_ones(path):
    o = Oracle(path)
    if "kmeans_init_rows" not in o:
        return
    rows = RowBlocks(o.X)
    centers = kmeans(rows, rows.take(o["kmeans_init_rows"]), 10).centers
    scale = np.abs(o["anchors"]).max()
    np.testing.assert_allclose(centers, o["anchors"], atol=1e-12 * scale)
    k = o.params.get("k") or o.params["s"]
    graph = AnchorGraph(k, Spacing.of(rows, centers, k).mean[-1])
    assert graph.sigma == pytest.approx(float(o["graph_sigma"]), rel=1e-12)
    if "graph_index" in o:
        found = graph.of(next(iter(rows))[1], centers)
        np.testing.assert_array_equal(found.indices.reshape(-1, k), o["graph_index"])
        np.testing.assert_allclose(found.data.reshape(-1, k), o["graph_weight"], atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(1, 8), (5, 8), (8, 8), (17, 300), (40, 300)]), st.booleans())
def test_nearest_anchors_are_the_nearest_and_ties_go_to_the_lowest(seed, sizes, integers):
    k, m = sizes
    rng = np.random.default_rng(seed)
    draw = (
        (lambda *shape: rng.integers(0, 3, shape).astype(float))
        if integers
        else (lambda *shape: rng.normal(size=shape))
    )
    X, C = draw(40, 3), draw(m, 3)
    squared = ((X[:, None] - C) ** 2).sum(axis=2)
    wanted = np.argsort(squared, axis=1, kind="stable")[:, :k]
    nearest, distances = nearest_anchors(X, C, k)
    np.testing.assert_array_equal(nearest, wanted)
    np.testing.assert_allclose(distances, np.take_along_axis(squared, wanted, axis=1), atol=1e-9)


@pytest.mark.parametrize("away", [0.0, 3.0, 30.0, 30_000.0])
def test_a_shift_changes_neither_the_anchors_found_nor_the_projection(away):
    """In single precision, whether the block is shifted (far from the origin) or what it is compared with."""
    rng = np.random.default_rng(0)
    X, C, W = rng.normal(size=(200, 16)), rng.normal(size=(30, 16)), rng.normal(size=(16, 5))
    mean = np.full(16, away / 4)
    rows = (X + mean).astype(np.float32)
    X = rows - mean
    search = AnchorSearch.from_stored_rows(C.astype(np.float32), W.astype(np.float32), mean.astype(np.float32))
    nearest, relative, projected = search.with_projection(rows, 3)
    squared = ((X[:, None] - C) ** 2).sum(axis=2)
    found = np.take_along_axis(squared, nearest, axis=1)
    np.testing.assert_allclose(found, np.sort(squared, axis=1)[:, :3], rtol=1e-3)
    np.testing.assert_allclose(relative, found - (X**2).sum(axis=1)[:, None], atol=1e-3)
    np.testing.assert_allclose(projected, X @ W, atol=1e-3)


def test_squared_distances_are_never_negative():
    X = np.full((3, 4), 1e4, np.float32) + np.float32(0.1)
    assert (squared_distances(X, X) >= 0).all()


def test_kmeans_never_loses_a_cluster():
    X = np.repeat(np.arange(6.0), 5)[:, None]
    clusters = kmeans(RowBlocks(X), np.zeros((6, 1)), 10)
    assert sorted(np.unique(clusters.labels(RowBlocks(X)))) == list(range(6))
    assert np.isfinite(clusters.centers).all()


@pytest.mark.parametrize("away", [0.0, 3.0, 30_000.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kmeans_of_rows_seen_from_a_shift_is_that_of_the_rows_moved_there(away, dtype):
    """Sums are taken of the rows as stored; one cluster runs empty on the way."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(3000, 8)) + 8 * rng.integers(0, 3, (3000, 1)) + away).astype(dtype)
    shift = X.mean(axis=0, dtype=np.float64).astype(dtype)
    moved = (X - shift) / dtype(2.5)
    start = np.vstack([moved[:9], np.full((1, 8), 1e3)]).astype(dtype)
    found = kmeans(RowBlocks(X).shifted(shift, 2.5), start, 4).centers
    tolerance = 1e-4 if dtype == np.float32 else 1e-9
    wanted = kmeans(RowBlocks(moved), start, 4).centers
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_normalized_rows_sum_to_one_even_without_any_weight():
    weight = np.array([[0.5, 0.25], [0.0, 0.0]])
    np.testing.assert_allclose(normalized(weight), [[2 / 3, 1 / 3], [1, 0]])


def test_weight_matrix_holds_the_graph():
    nearest, weight = np.array([[1, 0], [2, 1]]), np.array([[0.9, 0.1], [0.6, 0.4]])
    np.testing.assert_allclose(weight_matrix(nearest, weight, 3).toarray(), [[0.1, 0.9, 0], [0, 0.4, 0.6]])


@pytest.mark.parametrize("k", [1, 3, 16])
@pytest.mark.parametrize("distance", [1, 1000])
def test_a_few_rows_have_the_anchors_that_they_have_among_many(k, distance):
    rng = np.random.default_rng(0)
    anchors = rng.integers(0, 3, (50, 6)).astype(np.float64)  # with many equal distances
    shift, projection = distance * rng.standard_normal(6), rng.standard_normal((6, 4))
    search = AnchorSearch.from_stored_rows(anchors, projection, shift)
    rows = rng.integers(0, 3, (200, 6)) + shift
    together = search.with_projection(rows, k)
    for start in range(0, 200, 20):
        few = search.with_projection(rows[start : start + 20], k)
        np.testing.assert_array_equal(few[0], together[0][start : start + 20])
        np.testing.assert_allclose(few[1], together[1][start : start + 20], atol=1e-9)
        np.testing.assert_allclose(few[2], together[2][start : start + 20], atol=1e-9)


def test_sorting_the_entries_of_a_graph_leaves_the_neighbors_in_their_order():
    nearest, weights = np.array([[2, 0], [1, 2]]), np.array([[0.7, 0.3], [0.6, 0.4]])
    graph = weight_matrix(nearest, weights, 3)
    graph.sort_indices()  # SciPy 1.18 does so in products
    assert nearest.tolist() == [[2, 0], [1, 2]]
    assert weights.tolist() == [[0.7, 0.3], [0.6, 0.4]]
    np.testing.assert_array_equal(graph.toarray(), [[0.3, 0, 0.7], [0, 0.6, 0.4]])
