"""Several searches in one server: each under its name, open while it is asked for."""

import asyncio
import shutil
import threading
import time

import numpy as np
import pytest
from served import Server, error_of

from hashlearn import LSH, Client, SimilaritySearch
from hashlearn.server import searches
from hashlearn.server.searches import Searches
from hashlearn.server.settings import Settings
from hashlearn.server.workers import Workers

N_SEARCHES = 5


def rows(n, seed):
    return np.random.default_rng(seed).standard_normal((n, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def above(tmp_path_factory):
    """A folder of five searches, and of something else."""
    above = tmp_path_factory.mktemp("several")
    for number in range(N_SEARCHES):
        search = SimilaritySearch(LSH(n_bits=16, random_state=0), keep_vectors="float32").fit(rows(50, number))
        search.add(rows(100, number), payloads=[{"of": number}] * 100).save(above / f"s{number}")
        search.close()
    (above / "notes").mkdir()
    return above


@pytest.fixture(scope="module")
def server(above):
    with Server(above, "--max-open", 2, "--idle", 2) as server:
        yield server.ready()


def test_each_is_served_under_its_name(server, above):
    for number in range(N_SEARCHES):
        answer = server.post(f"/v1/s{number}/search", {"vector": rows(1, 9)[0].tolist(), "k": 3}).json()["results"][0]
        expected = SimilaritySearch.open(above / f"s{number}").search(rows(1, 9), 3)
        assert answer["ids"] == expected.ids[0].tolist()
        assert answer["payloads"] == [{"of": number}] * 3
    names = [each["name"] for each in server.client.get("/v1/searches").json()["searches"]]
    assert names == [f"s{number}" for number in range(N_SEARCHES)]
    assert [each["id"] for each in server.client.get("/v1/models").json()["data"]] == names
    assert server.client.get("/v1/s1/info").json()["rows"] == 100


def test_few_are_open_at_a_time_and_none_that_nobody_asks_for(server):
    for number in range(N_SEARCHES):
        server.post(f"/v1/s{number}/search", {"id": 1})
        n_open = sum(each["open"] for each in server.client.get("/v1/searches").json()["searches"])
        assert n_open <= 2
    deadline = time.monotonic() + 60
    while any(each["open"] for each in server.client.get("/v1/searches").json()["searches"]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert server.post("/v1/s0/search", {"id": 1}).status_code == 200


def test_writes_stay_where_they_were_made(server):
    with Client(server.url, name="s3") as client:
        client.upsert(rows(2, 1), [1000, 1001])
        assert 1000 in client
        assert server.client.get("/v1/s2/points/1000").status_code == 404
        for number in range(N_SEARCHES):  # it is closed meanwhile
            server.post(f"/v1/s{number}/search", {"id": 1})
        assert len(client) == 102
        client.remove([1000, 1001])
        assert server.client.delete("/v1/s3/points/1000").status_code == 404


@pytest.mark.parametrize("name", ["nobody", "notes", "..", "%2e%2e", ".", "s0%2f..%2fs1", "%00", "x" * 5000])
def test_a_name_that_is_none_is_404(server, name):
    response = server.client.post(f"/v1/{name}/search", json={"id": 1})
    assert response.status_code in (404, 405)
    assert error_of(response)[1]


def test_without_a_name_it_is_said_where_they_are(server):
    assert server.post("/v1/search", {"id": 1}).status_code in (404, 405)


def test_a_search_that_appears_is_found(server, above):
    shutil.copytree(above / "s1", above / "later")
    assert server.post("/v1/later/search", {"id": 1}).status_code == 200


def test_a_search_that_cannot_be_read_does_not_stop_the_others(above, tmp_path):
    """It is the first that the server would try, and compile the loops with."""
    shutil.copytree(above / "s1", tmp_path / "bad")
    shutil.copytree(above / "s1", tmp_path / "good")
    next((tmp_path / "bad").glob("hasher*/model.safetensors")).write_bytes(b"damaged")
    with Server(tmp_path) as server:
        server.ready()
        assert server.post("/v1/good/search", {"id": 1}).status_code == 200
        assert error_of(server.post("/v1/bad/search", {"id": 1}))[1].startswith("the search 'bad' cannot be opened")


def test_a_search_that_is_gone_is_404(above, tmp_path):
    shutil.copytree(above / "s1", tmp_path / "all" / "first")
    shutil.copytree(above / "s1", tmp_path / "all" / "second")
    with Server(tmp_path / "all", "--idle", 0.2) as server:
        server.ready()
        while any(each["open"] for each in server.client.get("/v1/searches").json()["searches"]):
            time.sleep(0.1)
        shutil.rmtree(tmp_path / "all" / "first")
        assert server.post("/v1/first/search", {"id": 1}).status_code == 404
        assert [each["name"] for each in server.client.get("/v1/searches").json()["searches"]] == ["second"]
        shutil.rmtree(tmp_path / "all")
        assert server.client.get("/v1/searches").json() == {"searches": []}
        assert server.post("/v1/second/search", {"id": 1}).status_code == 404


def test_names_are_different_and_no_parts_of_the_api(above, tmp_path):
    workers = Workers(Settings())
    for name in ("s1", "points"):
        shutil.copytree(above / "s1", tmp_path / name)
        with pytest.raises(ValueError, match="different names"):
            Searches(workers, [above / "s1", tmp_path / name])
    with pytest.raises(ValueError, match="folder of a search"):
        Searches(workers, [tmp_path / "nothing"])


def test_a_single_search_has_its_name_too(make_search, tmp_path):
    with Server(make_search(tmp_path / "digits")) as server:
        server.ready()
        assert server.post("/v1/digits/search", {"id": 1}).json() == server.post("/v1/search", {"id": 1}).json()


def test_no_search_is_closed_while_the_changes_of_others_are_read(above, monkeypatch):
    reading, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(searches, "take_over", lambda search: (reading.set(), go_on.wait(60)))
    several = Searches(Workers(Settings(refresh_seconds=0.01, max_open=1)), [above])

    async def ask():
        async with several.using("s0"):
            pass
        following = asyncio.create_task(several.follow())
        await asyncio.to_thread(reading.wait, 60)
        async with several.using("s1"):
            pass
        opened = [service.name for service in several.open_services()]
        go_on.set()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return opened

    assert asyncio.run(ask()) == ["s0", "s1"]
    for service in several.open_services():
        service.close()
