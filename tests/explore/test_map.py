"""The map: near rows get near points, it is kept with the search, and new rows find their places on it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from hashlearn import ABH, ITQ, LSH, SimilaritySearch
from hashlearn.explore import MAP_FILE, SIDE, CollectionMap, kept_map, layout, map_of
from hashlearn.explore import map as map_module

X, Y = load_digits(return_X_y=True)
X, Y = X[:600].astype(np.float32), Y[:600]


def a_search(hasher, keep="float32", **options):
    ids = [f"digit {row}" for row in range(len(X))]
    payloads = [{"label": int(label)} for label in Y]
    return SimilaritySearch(hasher, keep_vectors=keep, **options).fit(X).add(X, ids, payloads)


def labels_of(search):
    return [payload["label"] for payload in search.payloads(search.ids)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps") / "search"
    search = a_search(ITQ(n_bits=32, random_state=0), folder=folder)
    return search, map_of(search)


def test_rows_that_are_alike_are_near_each_other(kept):
    search, made = kept
    points, labels = made.points.astype(float), np.array(labels_of(search))
    judge = KNeighborsClassifier(5).fit(points[::2], labels[::2])
    assert judge.score(points[1::2], labels[1::2]) > 0.9
    assert made.points.max() <= SIDE
    assert sum(cluster.size for cluster in made.clusters) == len(X)
    assert any(cluster.name.startswith("label ") for cluster in made.clusters)


def test_the_examples_of_a_cluster_are_its_typical_rows(kept):
    search, made = kept
    rows = {id: X[place] for place, id in enumerate(f"digit {row}" for row in range(len(X)))}
    ids = search.ids.tolist()
    for number, cluster in enumerate(made.clusters):
        inside = np.array([rows[ids[place]] for place in np.flatnonzero(made.labels == number)])
        away = np.linalg.norm(inside - inside.mean(axis=0), axis=1)
        examples = np.linalg.norm([rows[id] - inside.mean(axis=0) for id in cluster.examples], axis=1)
        assert examples.max() <= np.quantile(away, 0.5) or len(inside) < 20


@pytest.mark.parametrize(("hasher", "keep"), [(ABH(n_bits=64, random_state=0), None), (LSH(32, random_state=0), None)])
def test_codes_are_enough_for_a_map_and_rows_beside_the_landmarks_are_placed(monkeypatch, hasher, keep):
    monkeypatch.setattr(map_module, "N_LANDMARKS", 300)
    search = a_search(hasher, keep)
    made = map_of(search)
    points, labels = made.points.astype(float), np.array(labels_of(search))
    judge = KNeighborsClassifier(5).fit(points[::2], labels[::2])
    assert judge.score(points[1::2], labels[1::2]) > 0.5  # one of ten labels is right by chance 0.1 of the time


def test_without_the_package_the_points_are_principal_components(monkeypatch):
    monkeypatch.setattr(layout, "find_spec", lambda name: None)
    points = layout.landmark_points(X)
    centered = X - X.mean(axis=0)
    directions = np.linalg.svd(centered, full_matrices=False)[2][:2]
    np.testing.assert_allclose(np.abs(points), np.abs(centered @ directions.T), atol=0.05)


def test_the_map_is_kept_in_the_folder_and_opened_again(kept):
    search, made = kept
    again = kept_map(SimilaritySearch.open(search.folder))
    assert np.array_equal(again.points, made.points)
    assert np.array_equal(again.labels, made.labels)
    assert again.clusters == made.clusters
    assert (again.alone, again.groups) == (made.alone, made.groups)


def test_new_rows_get_places_and_the_others_keep_theirs(tmp_path):
    search = a_search(ITQ(n_bits=32, random_state=0), folder=tmp_path / "search")
    before = map_of(search)
    place = dict(zip(search.ids.tolist(), before.points.tolist()))
    search.remove(["digit 5"]).add(X[:3] + 0.01, ["a copy of 0", "b copy of 1", "c copy of 2"])
    assert kept_map(search) is None
    after = map_of(search)
    now = dict(zip(search.ids.tolist(), after.points.tolist()))
    assert "digit 5" not in now
    assert all(now[key] == place[key] for key in place if key != "digit 5")
    away = np.linalg.norm(np.subtract(now["a copy of 0"], place["digit 0"]))
    assert away < SIDE / 10
    assert len(kept_map(search)) == len(search)


@pytest.mark.parametrize("content", [b"", b"no map", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_damaged_file_is_made_anew(tmp_path, content):
    search = SimilaritySearch(LSH(16, random_state=0), folder=tmp_path / "s").fit(X).add(X[:50])
    (search.folder / MAP_FILE).write_bytes(content)
    assert kept_map(search) is None
    assert len(map_of(search)) == 50
    assert len(kept_map(search)) == 50


def test_few_rows_and_none():
    search = SimilaritySearch(LSH(8, random_state=0)).fit(X)
    with pytest.raises(ValueError, match="no rows"):
        map_of(search)
    for n in (1, 2, 5):
        made = map_of(SimilaritySearch(LSH(8, random_state=0)).fit(X).add(X[:n]))
        assert made.points.shape == (n, 2)
        assert sum(cluster.size for cluster in made.clusters) == n


corners = st.lists(st.tuples(st.integers(0, SIDE), st.integers(0, SIDE)), min_size=3, max_size=3, unique=True)


@given(corners, st.lists(st.tuples(st.integers(0, SIDE), st.integers(0, SIDE)), min_size=1, max_size=20))
def test_inside_a_triangle_is_on_one_side_of_all_its_edges(triangle, places):
    made = CollectionMap(np.array(places, np.uint16), np.zeros(len(places), np.uint8), [], None, 0, [], [])
    found = made.inside(triangle)
    for place, is_inside in zip(places, found):
        sides = [
            (bx - ax) * (place[1] - ay) - (by - ay) * (place[0] - ax)
            for (ax, ay), (bx, by) in zip(triangle, [*triangle[1:], triangle[0]])
        ]
        if min(map(abs, sides)) > SIDE:  # on an edge, either is right
            assert is_inside == (min(sides) > 0 or max(sides) < 0)


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=30), st.floats(1e3, 1e6, width=32))
def test_rows_far_from_all_others_do_not_squeeze_these_together(values, far):
    places = np.array([*np.linspace(0, 1, 300), *values, far], np.float32)
    filled = map_module._without_gaps(places)[1]
    assert (np.diff(filled) >= 0).all()
    assert filled.min() >= 0
    assert filled.max() <= SIDE
    alone = map_module._without_gaps(np.array([*np.linspace(0, 1, 300), far], np.float32))[1]
    assert alone[299] - alone[0] > 0.9 * SIDE


def test_a_few_copies_far_from_all_others_do_not_squeeze_these_together():
    places = np.array([*np.linspace(0, 1, 250), *np.linspace(20, 21, 9)], np.float32)
    filled = map_module._without_gaps(places)[1]
    assert filled[249] - filled[0] > 0.45 * SIDE
    assert filled[250] - filled[249] < 0.1 * SIDE


def test_rows_in_one_place_are_in_the_middle_of_the_map():
    assert map_module._without_gaps(np.full(3, 7.0, np.float32))[1].tolist() == [SIDE / 2]
