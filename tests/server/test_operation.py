"""What an operator relies on: health, metrics, logs, a clean end, and errors without secrets."""

import asyncio
import errno
import re
import signal
import socket
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from served import Server, error_of

from hashlearn import ITQ, Client, SimilaritySearch
from hashlearn.server import Settings, create_app, run
from hashlearn.server.routes import snapshots
from hashlearn.server.telemetry import Metrics

SERVING = Path(__file__).parents[2] / "docs" / "howto" / "serving.md"


def test_health_info_and_schema(server):
    assert server.client.get("/healthz").json() == {"status": "alive"}
    assert server.client.get("/readyz").json() == {"status": "ready"}
    info = server.client.get("/v1/info").json()
    assert (info["rows"], info["n_bits"], info["n_features"], info["method"]) == (1000, 32, 64, "ITQ")
    paths = server.client.get("/openapi.json").json()["paths"]
    assert {"/v1/search", "/v1/codes", "/v1/embeddings", "/v1/points", "/v1/points/{id}", "/v1/info"} <= set(paths)


def test_whoever_is_told_the_url_may_ask_at_once(library, monkeypatch):
    monkeypatch.setattr(run, "log_to_stderr", lambda level: None)  # for good otherwise

    def ask(url):
        socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=5).close()
        raise EOFError

    with pytest.raises(EOFError):  # and no ConnectionRefusedError
        run.run_server(create_app(library), port=0, on_listening=ask)


def test_the_page_of_the_api_asks_no_other_host(server):
    page = server.client.get("/docs").text
    assert "/v1/search" in page
    assert "http://" not in page
    assert "https://" not in page


def test_metrics_count_requests_by_route_and_not_by_path(server):
    def count():
        text = server.client.get("/metrics").text
        name = 'hashlearn_requests_total{method="GET",route="/v1/points/{id}",status="404"}'
        lines = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(line.split()[-1]) for line in lines), text

    before, _ = count()
    for id in ("nobody-1", "nobody-2"):
        server.client.get(f"/v1/points/{id}")
    after, text = count()
    assert after - before == 2
    assert "nobody" not in text
    assert "hashlearn_rows 1000.0" in text


def test_every_metric_is_explained_and_no_other():
    told = set(re.findall(r"^\| `(hashlearn_\w+)`", SERVING.read_text(encoding="utf-8"), re.MULTILINE))
    assert told == {
        family.name + ("_total" if family.type == "counter" else "") for family in Metrics().registry.collect()
    }


def test_a_request_is_a_line_of_the_log_with_the_number_of_its_answer(server):
    response = server.post("/v1/search", {"id": 1, "k": 3})
    number = response.headers["X-Request-ID"]
    server.post("/v1/search", {"id": 1, "k": 3})  # lines are written in order
    lines = [line for line in server.events() if line.get("request") == number]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [("POST", "/v1/search", 200)]


def test_the_number_that_a_proxy_gives_a_request_is_kept(server):
    for sent, kept in [("trace-42.a", True), ("two words", False), ("x" * 65, False)]:
        response = server.client.get("/v1/info", headers={"X-Request-ID": sent})
        assert (response.headers["X-Request-ID"] == sent) is kept


def test_snapshots_are_made_by_who_may_write(make_search, tmp_path):
    folder = make_search(tmp_path / "digits")
    with Server(folder, "--snapshots", tmp_path / "copies", "--write-key", "secret") as server:
        server.ready()
        key = {"Authorization": "Bearer secret"}
        assert server.post("/v1/snapshots", {"name": "monday"}).status_code == 401
        made = server.post("/v1/snapshots", {"name": "monday"}, headers=key)
        assert (made.status_code, made.json()) == (201, {"name": "monday", "rows": 1000})
        for name in ("monday", "../other", ".hidden", "a/b", ""):
            assert server.post("/v1/snapshots", {"name": name}, headers=key).status_code == 422
        assert server.client.get("/v1/snapshots").json() == {"snapshots": ["monday"]}
    assert len(SimilaritySearch.open(tmp_path / "copies" / "digits" / "monday")) == 1000


def test_snapshots_are_made_one_at_a_time_and_a_full_disk_is_503(library, tmp_path, monkeypatch):
    app = create_app(library, Settings(snapshots=str(tmp_path), threads=1))
    app.state.workers.ready = True
    begun, go_on = threading.Event(), threading.Event()

    def slow_copy(search, target):
        begun.set()
        go_on.wait(60)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(snapshots, "take_snapshot", slow_copy)

    async def ask():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = asyncio.create_task(client.post("/v1/snapshots", json={"name": "a"}))
            await asyncio.to_thread(begun.wait, 60)
            second = await client.post("/v1/snapshots", json={"name": "b"})
            beside = await client.post("/v1/points/count", json={"filter": {"label": 1}})
            go_on.set()
            return await first, second, beside

    full, second, beside = asyncio.run(ask())
    assert (full.status_code, second.status_code, beside.status_code) == (503, 503, 200)
    assert "log" in error_of(full)[1]
    assert "another snapshot" in error_of(second)[1]


def test_a_server_makes_way_for_the_next_one(make_search, tmp_path):
    """Both listen at one port; a client that asks all the time sees no error."""
    folder = make_search(tmp_path / "digits")
    with Server(folder, "--reuse-port") as first:
        first.ready()
        port = first.url.rpartition(":")[2]
        with Client(first.url) as client:
            second = Server.__new__(Server)
            second.begin([sys.executable, "-m", "hashlearn", "serve", folder, "--reuse-port"], port)
            with second:
                second.ready()
                answers = [client.count()]
                ending = threading.Thread(target=first.end, args=(signal.SIGTERM,))
                ending.start()
                while ending.is_alive():
                    answers.append(client.count())
                answers.append(client.count())
                assert set(answers) == {1000}


def test_the_server_does_not_say_what_it_runs_on(server):
    for response in (server.client.get("/v1/info"), server.client.get("/nowhere")):
        assert "server" not in response.headers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
def test_a_request_that_runs_is_answered_before_the_end(folder, number):
    with Server(folder) as server:
        server.ready()
        answers = []
        body = {"vectors": [[float(number % 17)] * 64 for number in range(200)], "k": 100}
        asking = threading.Thread(target=lambda: answers.append(server.post("/v1/search", body)))
        asking.start()
        while "hashlearn_requests_running 2.0" not in server.client.get("/metrics").text and asking.is_alive():
            pass
        status = server.end(number)
        asking.join()
        assert status == 0
        assert len(answers[0].json()["results"]) == 200


def test_a_server_that_is_told_to_end_by_many_signals_at_once_ends(folder):
    """A supervisor and a terminal may both send one; the second arrives while the first is handled."""
    for _ in range(3):
        with Server(folder) as server:
            server.ready()
            for number in 10 * [signal.SIGTERM, signal.SIGHUP, signal.SIGTERM]:
                server.process.send_signal(number)
            assert server.process.wait(60) == 0
            assert not [line for line in server.events() if line["level"] == "error"]


def test_rows_that_another_process_saves_are_taken_over(make_search, tmp_path):
    folder = make_search(tmp_path / "search")
    with Server(folder, "--refresh", 0.1) as server:
        server.ready()
        other = SimilaritySearch.open(folder)
        other.upsert(np.ones((1, 64), np.float32), [4242], [{"by": "another"}])
        other.save()
        server.wait_for("refreshed")
        assert server.client.get("/v1/points/4242").json()["payload"] == {"by": "another"}
        assert server.put({"id": 4243, "vector": [0.0] * 64}).status_code == 200
        other.refresh()
        assert 4243 in other


def test_rows_that_another_process_writes_to_a_store_are_taken_over(digits, tmp_path):
    X, _ = digits
    uri = f"sqlite:///{tmp_path / 'rows.db'}"
    hasher = ITQ(n_bits=32, random_state=0).fit(X)
    hasher.save(tmp_path / "model")
    other = SimilaritySearch(hasher, store=uri).add(X[:100])
    with Server(uri, "--model", tmp_path / "model", "--refresh", 0.2) as server:
        server.ready()
        other.upsert(X[100:101], [4242], [{"by": "another"}])
        server.wait_for("refreshed")
        assert server.post("/v1/search", {"vector": X[100].tolist(), "k": 1}).json()["results"][0]["ids"] == [4242]
        assert server.client.get("/v1/points/4242").json()["payload"] == {"by": "another"}


def test_a_fault_of_ours_is_a_500_without_its_cause(make_search, tmp_path):
    """The folder is taken away: a write cannot be saved, and who wrote is told so, but not where it was."""
    folder = make_search(tmp_path / "search")
    with Server(folder) as server:
        server.ready()
        folder.rename(tmp_path / "elsewhere")
        response = server.put({"id": 1, "vector": [0.0] * 64})
        assert response.status_code == 503
        assert "could not be saved" in error_of(response)[1]
        assert server.post("/v1/search", {"id": 2}).status_code == 200
