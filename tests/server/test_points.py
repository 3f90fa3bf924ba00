"""Rows by id: written whole, found at once, and there after a restart."""

import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from served import Server, error_of

from hashlearn import LSH, SimilaritySearch
from hashlearn.server.batching import write_together
from hashlearn.server.models import DeleteRequest
from hashlearn.server.routes.points import _remove_all


@pytest.fixture(scope="module")
def own_folder(make_search, tmp_path_factory):
    return make_search(tmp_path_factory.mktemp("written") / "search")


@pytest.fixture(scope="module")
def writable(own_folder):
    with Server(own_folder) as server:
        yield server.ready()


def test_a_row_is_what_was_written(writable, digits):
    vector = digits[0][1500]
    assert writable.put({"id": 5000, "vector": vector.tolist(), "payload": {"a": [1, "ü"]}}).json() == {"written": 1}
    row = writable.client.get("/v1/points/5000").json()
    assert (row["id"], row["payload"]) == (5000, {"a": [1, "ü"]})
    assert row["vector"] == vector.tolist()
    (found,) = writable.post("/v1/search", {"vector": vector.tolist(), "k": 1}).json()["results"]
    assert found == {"ids": [5000], "distances": [0.0], "payloads": [{"a": [1, "ü"]}]}


def test_writing_again_replaces_the_whole_row(writable, digits):
    first, second = digits[0][1501:1503].tolist()
    writable.put({"id": 5001, "vector": first, "payload": {"a": 1, "b": 2}})
    writable.put({"id": 5001, "vector": second, "payload": {"a": 3}})
    row = writable.client.get("/v1/points/5001").json()
    assert (row["vector"], row["payload"]) == (second, {"a": 3})


def test_rows_that_are_near_others_are_skipped_flagged_or_refused(writable, digits):
    known, new = digits[0][3].tolist(), (digits[0][1700] + 40).tolist()
    points = [{"id": 5100, "vector": known}, {"id": 5101, "vector": new}]
    guard = {"points": points, "max_distance": 0.5}
    refused = writable.client.put("/v1/points", json={**guard, "duplicates": "error"})
    assert refused.status_code == 422
    assert "nothing was added" in refused.json()["error"]["message"]
    assert writable.client.get("/v1/points/5101").status_code == 404
    skipped = writable.client.put("/v1/points", json={**guard, "duplicates": "skip"}).json()
    assert skipped == {"written": 1, "near": [{"id": 5100, "of": 3, "distance": 0.0}]}
    assert writable.client.get("/v1/points/5100").status_code == 404
    flagged = writable.client.put("/v1/points", json={**guard, "duplicates": "flag"}).json()
    assert (flagged["written"], [near["of"] for near in flagged["near"]]) == (2, [3])
    assert writable.client.get("/v1/points/5100").json()["payload"] == {"duplicate_of": 3}
    assert writable.client.put("/v1/points", json=guard).status_code == 422
    for id in (5100, 5101):
        writable.client.delete(f"/v1/points/{id}")


def test_a_removed_row_is_gone(writable, digits):
    vector = digits[0][1503].tolist()
    writable.put({"id": 5002, "vector": vector})
    assert writable.client.delete("/v1/points/5002").status_code == 204
    assert writable.client.get("/v1/points/5002").status_code == 404
    assert writable.client.delete("/v1/points/5002").status_code == 404
    (found,) = writable.post("/v1/search", {"vector": vector, "k": 5}).json()["results"]
    assert 5002 not in found["ids"]


@pytest.mark.parametrize("must_exist", [False, True])
def test_two_removals_of_a_row_at_once_are_as_one_after_the_other(must_exist):
    """Changes that wait together are one transaction, in which neither sees what the other does."""
    X = np.eye(6, dtype=np.float32)
    search = SimilaritySearch(LSH(n_bits=8, random_state=0)).fit(X).add(X)
    service = SimpleNamespace(search=search)
    asked = [DeleteRequest(ids=ids, must_exist=must_exist) for ids in ([1, 2], [2, 3, 9] if not must_exist else [2, 3])]
    first, second = write_together(search, None, [partial(_remove_all, service, body) for body in asked])
    assert first == {"removed": 2}
    if must_exist:
        assert (second.status_code, second.field) == (422, "ids")
        assert search.ids.tolist() == [0, 3, 4, 5]
    else:
        assert second == {"removed": 1}
        assert search.ids.tolist() == [0, 4, 5]


def test_writes_are_there_after_a_clean_end(make_search, tmp_path, digits):
    folder = make_search(tmp_path / "search")
    with Server(folder) as server:
        server.ready().put({"id": 7000, "vector": digits[0][1600].tolist(), "payload": {"kept": True}})
        server.client.delete("/v1/points/3")
        assert server.end(signal.SIGINT) == 0
        assert server.wait_for("stopped")
    with Server(folder) as server:
        server.ready()
        assert server.client.get("/v1/points/7000").json()["payload"] == {"kept": True}
        assert server.client.get("/v1/points/3").status_code == 404
        assert server.client.get("/v1/info").json()["rows"] == 1000


def test_rows_may_live_in_a_store(library, digits, tmp_path):
    library.hasher.save(tmp_path / "model")
    uri = f"sqlite://{tmp_path}/codes.db"
    X = digits[0]
    SimilaritySearch(library.hasher, store=uri).add(X[:50], payloads=[{"row": row} for row in range(50)])
    with Server(uri, "--model", tmp_path / "model") as server:
        server.ready()
        assert server.put({"id": 900, "vector": X[60].tolist(), "payload": {"row": 60}}).status_code == 200
        (found,) = server.post("/v1/search", {"vector": X[60].tolist(), "k": 1}).json()["results"]
        assert (found["ids"], found["payloads"]) == ([900], [{"row": 60}])
        assert server.client.delete("/v1/points/7").status_code == 204
        server.kill()
    again = SimilaritySearch(library.hasher, store=uri)
    assert 900 in again
    assert 7 not in again


GOOD = [0.0] * 64
BAD = {
    "no points": ([], "points"),
    "a missing vector": ([{"id": 1}], "points.0.vector"),
    "a wrong length": ([{"id": 1, "vector": GOOD}, {"id": 2, "vector": [1.0]}], "points.1.vector"),
    "an id twice": ([{"id": 1, "vector": GOOD}, {"id": 1, "vector": GOOD}], "points.1.id"),
    "two kinds of ids": ([{"id": 1, "vector": GOOD}, {"id": "1", "vector": GOOD}], "points.1.id"),
    "ids of the other kind": ([{"id": "one", "vector": GOOD}], "points.id"),
    "a negative id": ([{"id": -1, "vector": GOOD}], "points.0.id"),
    "an id beyond int64": ([{"id": 2**63, "vector": GOOD}], "points.0.id"),
    "a payload that is no object": ([{"id": 1, "vector": GOOD, "payload": [1]}], "points.0.payload"),
    "a field nobody reads": ([{"id": 1, "vector": GOOD, "vectro": 1}], "points.0.vectro"),
    "too many": ([{"id": number, "vector": "AAAA"} for number in range(1001)], "points"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_point_is_named_and_nothing_is_written(writable, case):
    points, field = BAD[case]
    rows = writable.client.get("/v1/info").json()["rows"]
    before = writable.client.get("/v1/points/1").json()
    response = writable.put(*points)
    assert response.status_code == 422
    assert error_of(response)[0] == field
    assert writable.client.get("/v1/points/1").json() == before
    assert writable.client.get("/v1/info").json()["rows"] == rows


@pytest.mark.parametrize("id", ["99999", "-1", "01", "1.0", "abc", "a/b", "%00", "9" * 400, "9" * 4301, "%ff"])
def test_an_unknown_id_is_404(writable, id):
    for method in ("GET", "DELETE"):
        response = writable.client.request(method, f"/v1/points/{id}")
        assert response.status_code == 404
        assert error_of(response)[0] == "id"
