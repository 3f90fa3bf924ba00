"""What a notebook and a terminal show of a search."""

import numpy as np
import pytest

from hashlearn import LSH, SimilaritySearch

X = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def search():
    payloads = [{"text": f"text <{row}>", "even": row % 2 == 0} for row in range(30)]
    return SimilaritySearch(LSH(32, random_state=0), keep_vectors="float32").fit(X).add(X, payloads=payloads)


def test_show_has_the_neighbors_in_their_order_without_the_row_itself(search):
    shown = search.show(3, k=4)
    expected = [key for key in search.search(X[3], 5).ids.tolist() if key != 3]
    assert [row.id for row in shown.rows] == expected
    assert [line.split()[1] for line in repr(shown).splitlines()[1:]] == [str(key) for key in expected]
    html = shown._repr_html_()
    assert f"text &lt;{expected[0]}&gt;" in html
    even = search.show(X[3], k=4, filter={"even": True})
    assert [row.id for row in even.rows] == search.search(X[3], 4, filter={"even": True}).ids.tolist()
    with pytest.raises(ValueError, match="query must be a vector or the id of a row"):
        search.show(99)


def test_fields_stand_beside_each_other_and_none_repeats_the_id():
    payloads = [{"name": f"row {row}", "even": row % 2 == 0, "size": 7} for row in range(30)]
    search = SimilaritySearch(LSH(32, random_state=0), keep_vectors="float32").fit(X)
    html = search.add(X, [f"row {row}" for row in range(30)], payloads).show("row 3", k=1)._repr_html_()
    assert "name:" not in html
    assert ": 7</div>" in html
    assert "> · " not in html


def test_the_map_is_drawn_with_a_point_for_each_row(search):
    html = search.map()._repr_html_()
    assert html.count("h0") == 30
    assert "30 rows" in html


def test_neighbors_read_well(search):
    found = search.search(X[:2], 2)
    first = search.search(X[0], 2)
    lines = repr(found).splitlines()
    assert lines[0] == "Neighbors: 2 of 2 queries, id (distance), nearest first"
    assert lines[1] == f"  0 (0), {found.ids[0, 1]} ({found.distances[0, 1]:.4g})"
    assert repr(first).splitlines()[1] == lines[1]
    distances, ids = found  # it stays a tuple
    assert distances is found.distances
    assert ids is found.ids


def test_neighbors_become_a_frame_with_the_payloads(search):
    pytest.importorskip("pandas")
    frame = search.search(X[:2], 40, include=["payload"]).to_pandas()
    assert list(frame.columns) == ["query", "rank", "id", "distance", "text", "even"]
    assert len(frame) == 60  # the ten places that nothing fills are left out
    assert frame["text"].tolist() == [f"text <{key}>" for key in frame["id"]]
    assert search.search(X[0], 3).to_pandas()["rank"].tolist() == [1, 2, 3]
