"""What strangers send on purpose: the server says what is wrong, goes on with others, and ends when it is told to."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress

import httpx
import numpy as np
import pytest
import uvicorn
from forked import ForkedPython
from served import Server, error_of
from uvicorn.server import ServerState

from hashlearn import LSH, SimilaritySearch
from hashlearn.deadline import check_deadline
from hashlearn.server import Settings, create_app
from hashlearn.server.arrays import has_more_values
from hashlearn.server.front import Hosts, RequestLimits
from hashlearn.server.run import BoundedProtocol
from hashlearn.server.workers import Turns, Workers

POINT = {"id": 70_000, "vector": [0.0] * 64}


@pytest.fixture(scope="module")
def open_server(make_search, tmp_path_factory):
    """A server that anybody may write to, and that goes by one more name."""
    with Server(make_search(tmp_path_factory.mktemp("open") / "search"), "--host-name", "search.example") as server:
        yield server.ready()


# -- hosts and origins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "8.8.8.8", "localhost@evil.example", "", "[::"]
)
def test_a_request_for_another_host_is_421(open_server, host):
    response = open_server.client.put("/v1/points", json={"points": [POINT]}, headers={"Host": host})
    assert response.status_code == 421
    assert error_of(response) == (
        "Host",
        "this server does not go by that name; start it with --host-name NAME to allow it",
    )
    assert open_server.client.get("/v1/points/70000").status_code == 404
    assert open_server.client.get("/", headers={"Host": host}).status_code == 421
    assert open_server.client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:80", "[::1]:8000", "search.example"])
def test_a_request_for_this_host_is_answered(open_server, host):
    assert open_server.client.get("/v1/info", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "file://", "http://[", "x"])
def test_a_write_of_a_page_of_another_site_is_403(open_server, origin):
    headers = {"Host": "localhost:8000", "Origin": origin}
    for answer in (
        open_server.client.put("/v1/points", json={"points": [POINT]}, headers=headers),
        open_server.client.delete("/v1/points/1", headers=headers),
        open_server.client.post("/v1/points/delete", json={"ids": [1]}, headers=headers),
    ):
        assert answer.status_code == 403
        assert error_of(answer)[0] == "Origin"
    assert open_server.client.get("/v1/points/1").status_code == 200


def test_a_write_of_an_own_page_is_made(open_server):
    for host, origin in [
        ("localhost:8000", "http://localhost:8000"),
        ("search.example", "https://search.example"),
        ("localhost:8000", "https://search.example"),  # behind a proxy
    ]:
        headers = {"Host": host, "Origin": origin}
        response = open_server.client.put("/v1/points", json={"points": [POINT]}, headers=headers)
        assert response.status_code == 200
    assert open_server.client.delete("/v1/points/70000").status_code == 204


@pytest.mark.parametrize(
    ("listens_at", "host", "is_served"),
    [
        ("127.0.0.1", "192.168.1.5:8000", False),
        ("0.0.0.0", "192.168.1.5:8000", True),
        ("0.0.0.0", "evil.example", False),
        ("192.168.1.5", "192.168.1.5", True),
        ("server.lan", "server.lan", True),
    ],
)
def test_addresses_are_names_of_a_server_that_others_can_reach(listens_at, host, is_served):
    assert Hosts(None, Settings(host=listens_at))._is_ours(host.split(":")[0]) is is_served


# -- heads ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2
        + b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
    ids=["header", "path", "behind others"],
)  # fmt: skip
def test_a_head_of_70000_bytes_is_431(open_server, head):
    assert b"HTTP/1.1 431" in _said_to(open_server, head)


def test_what_is_no_http_is_400_in_our_shape(open_server):
    said = _said_to(open_server, b"\x16\x03\x01 hello\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 400")
    assert b'{"error":{' in said


def test_the_host_of_a_whole_url_is_what_counts(open_server):
    for url, host, status in [
        (b"http://evil.example/v1/info", b"localhost", b"421"),
        (b"http://localhost/v1/info", b"evil.example", b"200"),
        (b"http://localhost@evil.example/v1/info", b"localhost", b"421"),
        (b"/v1/info?x=http://evil.example/", b"localhost", b"200"),
    ]:
        said = _said_to(open_server, b"GET " + url + b" HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 " + status), url


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (b"Expect: 100-continue\r\nContent-Length: " + b"0" * 4400 + b"8\r\n", b'{"id":1}', b"200"),
        (b"Expect: x\r\nTransfer-Encoding: chunked\r\n", b'8\r\n{"id":1}\r\n0\r\nX-A: 1\r\nHost: x\r\n\r\n', b"200"),
        (b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nConnection: upgrade\r\n", b"", b"405"),
    ],
    ids=["zeros", "headers behind the body", "websocket"],
)
def test_heads_that_are_unusual_are_no_fault_of_ours(open_server, head, body, status):
    start = b"GET" if status == b"405" else b"POST"
    said = _said_to(
        open_server, start + b" /v1/search HTTP/1.1\r\nHost: localhost\r\n" + head + b"Connection: close\r\n\r\n" + body
    )
    assert b"HTTP/1.1 " + status in said
    assert b"HTTP/1.1 5" not in said


def test_a_body_is_read_though_the_client_asks_for_another_protocol(open_server):
    """curl and clients in Java ask for HTTP/2 with the first request that they send."""
    for asked in (b"Upgrade: h2c", b"UPGRADE: h2c", b"upgrade:\th2c"):
        head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
        said = _said_to(open_server, head + asked + b'\r\nHTTP2-Settings: AAM\r\nContent-Length: 8\r\n\r\n{"id":1}')
        assert said.startswith(b"HTTP/1.1 200"), asked


def test_head_is_get_without_the_body(open_server):
    """Whoever watches servers asks so."""
    for path in (b"/healthz", b"/readyz", b"/v1/info", b"/", b"/metrics", b"/nowhere"):
        said = [_said_to(open_server, method + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                for method in (b"HEAD ", b"GET ")]  # fmt: skip
        assert said[0].split()[1] == said[1].split()[1]
        assert said[0].endswith(b"\r\n\r\n"), path


def test_base64_that_is_far_too_long_is_not_read(open_server):
    """Four million letters would stand for what no vector and no code is: to read them holds up everybody."""
    for name, told in (("vector", "256 bytes"), ("code", "4 bytes")):
        answer = open_server.post("/v1/search", {name: "A" * 4_000_000})
        assert answer.status_code == 422
        assert f"must stand for {told}, got 4,000,000 letters" in error_of(answer)[1]


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        (GET, [200]),
        (GET + b"GET / HT", [200, 408]),
        (GET + b"nonsense\r\n\r\n", [200, 400]),
        (GET + GET + b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", [200, 200, 431]),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n", [400]),
        (b"\r\n", [408]),
    ],
    ids=["whole", "half of another", "no HTTP behind it", "too long behind others", "no body", "blank lines"],
)
def test_an_answer_comes_before_what_is_wrong_with_the_next_request(sent, statuses):
    """Answers take longer here than a head may."""

    async def app(scope, receive, send):
        await receive()
        await asyncio.sleep(0.2)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"done"})

    async def answers():
        config = uvicorn.Config(app, ws="none", log_config=None, lifespan="off", timeout_keep_alive=1)
        config.load()
        made = lambda: BoundedProtocol(config, ServerState(), {}, head_seconds=0.05)  # noqa: E731
        listening = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(sent)
        said = await reader.read()
        writer.close()
        listening.close()
        return said

    said = asyncio.run(answers())
    assert [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", said)] == statuses
    assert said.count(b"done") == statuses.count(200)


def test_no_answer_is_taken_for_another_type(open_server):
    for path in ("/docs", "/v1/info", "/nowhere", "/healthz"):
        assert open_server.client.get(path).headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in open_server.client.get("/docs").headers["Content-Security-Policy"]


def _said_to(server, sent):
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(sent)
        said = b""
        while part := connection.recv(65536):
            said += part
            if b"431" in said:
                break
        return said


def test_who_sends_many_requests_and_reads_no_answer_is_no_fault_of_ours(make_search, tmp_path):
    """The connection is closed when its time is over, with many requests of it still to be answered."""
    with Server(make_search(tmp_path / "search"), "--timeout", "1") as server:
        server.ready()
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection, suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(200):
                connection.sendall(b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        assert server.post("/v1/search", {"id": 1}).status_code == 200
        assert not [line for line in server.events() if line["level"] != "info"]


# -- deadlines --------------------------------------------------------------------------------------------------------


def _answered(library, work, **settings):
    """The answer of an application with an endpoint that works on a thread."""
    app = create_app(library, Settings(**settings))
    app.state.workers.ready = True

    async def endpoint():
        return await app.state.service.run(work)

    app.add_api_route("/other", endpoint)

    async def get():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/other")

    return asyncio.run(get())


def test_504_means_that_the_work_has_ended(library):
    log = []

    def work():
        try:
            while True:
                check_deadline()
                time.sleep(0.01)
        finally:
            time.sleep(0.2)
            log.append("ended")

    assert _answered(library, work, timeout_seconds=0.1).status_code == 504
    assert log == ["ended"]


def test_work_that_has_not_begun_is_not_begun(library):
    """One thread is busy: who waits behind it is given up without it."""
    app = create_app(library, Settings(threads=1, timeout_seconds=0.2))
    app.state.workers.ready = True
    begun, busy = [], threading.Event()

    async def endpoint():
        return await app.state.service.run(begun.append, "begun")

    app.add_api_route("/other", endpoint)

    async def get():
        app.state.workers.computing.submit(busy.wait)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/other")

    try:
        assert asyncio.run(get()).status_code == 504
    finally:
        busy.set()
    app.state.workers.computing.submit(int).result()
    assert not begun


def test_a_lack_of_memory_or_descriptors_is_503(library):
    def no_memory():
        raise MemoryError

    def no_descriptors():
        raise OSError(24, "Too many open files")

    for work in (no_memory, no_descriptors):
        response = _answered(library, work)
        assert response.status_code == 503
        assert int(response.headers["Retry-After"]) > 0


@pytest.mark.parametrize(("looks", "status"), [(True, 0), (False, 1)], ids=["looks at the deadline", "never ends"])
def test_sigterm_ends_a_server_whatever_runs(folder, looks, status):
    script = f"""
        import time
        from hashlearn import SimilaritySearch
        from hashlearn.deadline import check_deadline
        from hashlearn.server import create_app, run
        from hashlearn.server.run import run_server

        run._SECONDS_TO_ANSWER, run._SECONDS_TO_END = 1, 2
        app = create_app(SimilaritySearch.open({str(folder)!r}))
        app.state.workers.ready = True

        def work():
            print("working", flush=True)
            while True:
                time.sleep(0.1)
                if {looks}:
                    check_deadline()

        async def endpoint():
            return await app.state.service.run(work)

        app.add_api_route("/other", endpoint)
        run_server(app, port=0, on_listening=lambda url: print(url, flush=True))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with ForkedPython(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        url = process.stdout.readline().strip()
        asking = threading.Thread(target=_ask_quietly, args=(f"{url}/other",), daemon=True)
        asking.start()
        assert process.stdout.readline().strip() == "working"
        process.send_signal(signal.SIGTERM)
        assert process.wait(25) == status


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["in time", "too late"])
def test_a_request_that_waits_for_its_body_ends_with_the_server(is_cancelled):
    """It is answered 503; if there is no time left for that, its connection is closed, and the log has no fault."""
    workers, said, closed = Workers(Settings()), [], []
    workers.ready = True

    async def send(message):
        said.append(message)

    async def ask():
        scope = {
            "type": "http",
            "path": "/v1/search",
            "headers": [],
            "status": 0,
            "abort": lambda: closed.append("now"),
        }
        waiting = asyncio.create_task(RequestLimits(None, workers)(scope, asyncio.Event().wait, send))
        await asyncio.sleep(0.05)
        if is_cancelled:
            workers.is_stopping = True
            waiting.cancel()
        else:
            await asyncio.to_thread(workers.give_up)
        await asyncio.wait_for(waiting, 20)

    asyncio.run(ask())
    assert [message["status"] for message in said[:1]] == ([] if is_cancelled else [503])
    assert closed == (["now"] if is_cancelled else [])
    assert not workers.limits


def _ask_quietly(url):
    with suppress(httpx.HTTPError):
        httpx.get(url, timeout=60)


# -- answers that nobody reads ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large_answers(tmp_path_factory):
    """A server whose answers may be long: each row has a payload of 200 characters."""
    folder = tmp_path_factory.mktemp("large") / "search"
    X = np.random.default_rng(0).standard_normal((2000, 16)).astype(np.float32)
    search = SimilaritySearch(LSH(n_bits=32, random_state=0)).fit(X)
    search.add(X, payloads=[{"text": f"{row}" * 50} for row in range(len(X))]).save(folder)
    with Server(folder, "--timeout", 60) as server:
        yield server.ready()


def memory_megabytes(process):
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


def test_clients_that_do_not_read_take_little_memory_and_do_not_starve_others(large_answers):
    server = large_answers
    plain = {"vector": [0.5] * 16, "k": 10}
    assert server.post("/v1/search", plain).status_code == 200
    before = memory_megabytes(server.process)
    body = b'{"k": 500, "vectors": [' + b",".join([b"[" + b",".join([b"0.25"] * 16) + b"]"] * 400) + b"]}"
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    host, port = server.url.removeprefix("http://").split(":")
    connections = []
    try:
        for _ in range(20):
            connection = socket.create_connection((host, int(port)), timeout=30)
            connection.sendall(head + body)
            connections.append(connection)
        most = before
        for _ in range(60):
            assert server.post("/v1/search", plain).status_code == 200
            most = max(most, memory_megabytes(server.process))
            time.sleep(0.1)
        assert most - before < 500, (before, most)
    finally:
        for connection in connections:
            connection.close()


def test_an_answer_that_is_too_long_is_422(large_answers):
    response = large_answers.post("/v1/search", {"k": 1000, "vectors": [[0.5] * 16] * 1000})
    assert response.status_code == 422
    assert error_of(response)[0] == "k"


def test_a_long_answer_that_is_read_is_whole(large_answers):
    response = large_answers.post("/v1/search", {"k": 500, "vectors": [[0.5] * 16] * 200})
    results = response.json()["results"]
    assert [len(result["payloads"]) for result in results] == [500] * 200
    assert all(result == results[0] for result in results)
    one = large_answers.post("/v1/search", {"k": 500, "vector": [0.5] * 16}).json()["results"][0]
    assert one == results[0]


def test_a_file_that_is_cut_is_503_and_not_the_end(make_search, tmp_path):
    """A mapped file that is read beyond its end would end the process (SIGBUS)."""
    folder = make_search(tmp_path / "search")
    with Server(folder) as server:
        server.ready()
        assert server.post("/v1/search", {"vector": [1.0] * 64}).status_code == 200
        sizes = {
            file: file.stat().st_size for file in folder.iterdir() if file.is_file() and "catalog" not in file.name
        }
        assert sizes
        for file, size in sizes.items():
            os.truncate(file, size // 8)
        response = server.post("/v1/search", {"vector": [2.0] * 64})
        assert response.status_code == 503
        assert "cut" in error_of(response)[1]
        assert server.client.get("/healthz").status_code == 200


def test_a_filter_of_more_values_than_any_may_have_is_refused_before_it_is_read(open_server):
    body = b'{"id": 1, "filter": {"label": {"$in": [' + b"1," * 1_500_000 + b"1]}}}"
    response = open_server.client.post("/v1/search", content=body)
    assert response.status_code == 422
    assert "at most 322,000 values" in error_of(response)[1]


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/points", b'{"points":[' + b"{}," * 100_000 + b"{}]}", "points.0.id is missing"),
        ("/v1/points", b'{"points":[{"id":1,"payload":{"a":[' + b"[[[]]]," * 150_000 + b"0]}}]}", "322,000 values"),
        ("/v1/codes", b'{"vectors":[[' + b"0," * 400_000 + b"0]]}", "322,000 values"),
        ("/v1/codes", b'{"vectors":["' + b",[{" * 200_000 + b'"]}', "vectors.0 must stand for 256 bytes"),
        ("/v1/codes", b'{"vectors":["\\\\\\"' + b",[{" * 200_000 + b'"]}', "vectors.0 must stand for 256 bytes"),
        ("/v1/embeddings", b'{"input":[' + b"0," * 200_000 + b"0]}", "input must have 64 numbers"),
        ("/v1/search", b"{%s}" % b",".join(b'"f%d":1' % i for i in range(140_000)), "140,000 mistakes"),
    ],
    ids=["points", "payload", "vector", "in a string", "behind escapes", "input", "fields"],
)
def test_a_body_of_many_values_does_not_take_long_to_refuse(open_server, path, body, told):
    """With an error for each entry, five million of them held up everybody for half a minute."""
    answer = open_server.client.request("PUT" if path == "/v1/points" else "POST", path, content=body)
    assert answer.status_code == 422
    assert told in error_of(answer)[1]


def test_long_bodies_leave_time_for_others():
    """Of the time in which others ask, reading long bodies takes less than a tenth."""
    turns, others = Turns(), []

    async def ask():
        start = time.perf_counter()
        reading = [asyncio.create_task(turns.take(time.sleep, 0.01)) for _ in range(3)]
        while not all(task.done() for task in reading):
            await asyncio.sleep(0)
            turns.n_others += 1
            others.append(None)
        return time.perf_counter() - start

    assert asyncio.run(ask()) > 0.2
    assert len(others) > 3


def test_values_in_strings_are_not_counted():
    for text, n in (
        (rb'{"a": [1, 2, 3], "b,[{": "\\\" , [ {", "c": {}}', 7),
        (rb'{"a": "\\", "b": [0, 0]}', 4),
        (b'["' + b"\\\\" * 70_001 + b'", 1]', 2),
        (b'["' + b'\\"' * 70_000 + b',", ' + b"1," * 70_000 + b"1]", 70_002),
        (b'["' + b",[{" * 70_000 + b'"]', 1),
    ):
        assert has_more_values(text, n - 1, has_texts=True)
        assert not has_more_values(text, n, has_texts=True)
    assert has_more_values(b'["' + b",[{" * 70_000 + b'"]', 1, has_texts=False)


@pytest.mark.parametrize(("length", "n_joined_on_a_thread"), [(10_000, 0), (60_000, 1)])
def test_parts_of_a_long_body_are_joined_on_a_thread(length, n_joined_on_a_thread):
    """To copy megabytes takes milliseconds, in which no other request would be answered."""
    workers, work, seen = Workers(Settings()), [], []
    workers.ready = True
    submit = workers.writing.submit
    workers.writing.submit = lambda *arguments: work.append(arguments) or submit(*arguments)
    parts = [b"a" * length, b"b" * length, b"c"]
    messages = [{"type": "http.request", "body": part, "more_body": part != b"c"} for part in parts]

    async def app(scope, receive, send):
        seen.append((await receive())["body"])

    async def ask():
        scope = {"type": "http", "path": "/v1/search", "headers": [], "status": 0}
        receive = iter(messages).__next__

        async def received():
            return receive()

        await RequestLimits(app, workers)(scope, received, None)

    asyncio.run(ask())
    assert seen == [b"".join(parts)]
    assert len(work) == n_joined_on_a_thread


@pytest.mark.parametrize("options", [{"recall": 1}, {"k": 1, "candidates": 10_000}], ids=str)
def test_a_long_search_takes_no_thread_of_the_short_ones(library, options):
    """All threads of short searches are busy: a long one is answered all the same."""
    app = create_app(library, Settings(threads=1))
    app.state.workers.ready = True
    busy = threading.Event()

    async def ask():
        app.state.workers.searching.submit(busy.wait)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            vectors = [[0.0] * library.hasher.n_features_in_] * 11
            return await client.post("/v1/search", json={"vectors": vectors, **options})

    try:
        assert asyncio.run(ask()).status_code == 200
    finally:
        busy.set()


# -- numbers that float32 and JSON cannot say -------------------------------------------------------------------------


@pytest.mark.parametrize("payload", ["NaN", "[-Infinity]", '{"a": Infinity}'])
def test_what_is_no_json_is_refused_in_a_payload_too(open_server, payload):
    body = b'{"points": [{"id": 70000, "vector": %s, "payload": {"NaN": %s}}]}'
    vector = str(POINT["vector"]).encode()
    answer = open_server.client.put("/v1/points", content=body % (vector, payload.encode()))
    assert answer.status_code == 422
    assert "no NaN" in error_of(answer)[1]
    assert open_server.client.put("/v1/points", content=body % (vector, b'"Infinity"')).status_code == 200
    assert open_server.client.delete("/v1/points/70000").status_code == 204


def test_distances_are_numbers_and_the_log_is_json(open_server):
    """Beyond this length a squared distance is more than float32 can hold, and null in the answer."""
    for largest in ([3.4e38] * 64, [-1.2e18] * 64):
        answer = open_server.client.put("/v1/points", json={"points": [{"id": 70_000, "vector": largest}]})
        assert answer.status_code == 422
        assert "float32" in error_of(answer)[1]
    for sign in (1, -1):
        point = {"id": 70_000, "vector": [sign * 1.1e18] * 64}
        assert open_server.put(point).status_code == 200
        found = open_server.post("/v1/search", {"vector": [1.1e18] * 64, "k": 1000}).json()["results"][0]
        assert np.isfinite(found["distances"]).all()
    assert open_server.client.delete("/v1/points/70000").status_code == 204
    assert not [line for line in open_server.events() if line["level"] == "error"]  # every line is JSON


# -- out of descriptors -----------------------------------------------------------------------------------------------


def test_a_write_without_descriptors_is_503_and_the_server_goes_on(make_search, tmp_path):
    folder = make_search(tmp_path / "search")
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
    server = Server.__new__(Server)
    server.begin([sys.executable, "-c", limited + "from hashlearn.cli import main; main()", "serve", folder])
    with server:
        server.ready()
        host, port = server.url.removeprefix("http://").split(":")
        idle = []
        try:
            while len(idle) < 200:  # more than the server can have
                idle.append(socket.create_connection((host, int(port)), timeout=10))
            answers = [_status_of_write(server) for _ in range(3)]
            assert set(answers) <= {200, 503, None}
        finally:
            for connection in idle:
                connection.close()
        deadline = time.monotonic() + 30
        while _status_of_write(server) != 200:
            assert time.monotonic() < deadline


def _status_of_write(server):
    try:
        with httpx.Client(base_url=server.url, timeout=5) as client:
            return client.put("/v1/points", json={"points": [POINT]}).status_code
    except httpx.HTTPError:
        return None
