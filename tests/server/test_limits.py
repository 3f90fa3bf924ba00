"""Every limit of a server has a clear answer, and the server goes on."""

import asyncio
import socket
from contextlib import suppress

import httpx
import pytest
from served import Server, error_of

from hashlearn.server import Settings, create_app

BODY_LIMIT = 1024 * 1024
PAUSE_SECONDS = 2


@pytest.fixture(scope="module")
def limited(folder):
    options = {
        "max-body": 1, "max-batch": 3, "max-k": 5, "max-candidates": 9, "max-concurrency": 2, "timeout": PAUSE_SECONDS
    }  # fmt: skip
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    with Server(folder, *arguments) as server:
        yield server.ready()


@pytest.fixture(autouse=True)
def _serves_afterwards(limited):
    yield
    assert limited.post("/v1/search", {"id": 1, "k": 1}).status_code == 200


def test_limits_are_told(limited):
    limits = {"max_body_bytes": BODY_LIMIT, "max_batch": 3, "max_k": 5, "max_candidates": 9}
    assert limited.client.get("/v1/info").json()["limits"] == limits


VECTOR = [0.0] * 64


@pytest.mark.parametrize(
    ("path", "body", "field", "told"),
    [
        ("/v1/search", {"id": 1, "k": 6}, "k", "at most 5, got 6"),
        ("/v1/search", {"id": 1, "k": 1, "candidates": 10}, "candidates", "at most 9, got 10"),
        ("/v1/search", {"vectors": [VECTOR] * 4, "k": 1}, "vectors", "at most 3 entries, got 4"),
        ("/v1/search", {"codes": [[0] * 4] * 4, "k": 1}, "codes", "at most 3"),
        ("/v1/codes", {"vectors": [VECTOR] * 4}, "vectors", "at most 3"),
        ("/v1/embeddings", {"input": [VECTOR] * 4}, "input", "at most 3"),
        ("/v1/search", {"text": "x" * 100_001}, "text", "must have at most 100000 characters"),
        ("/v1/codes", {"texts": ["", "x" * 100_001]}, "texts.1", "must have at most 100000 characters"),
    ],
)
def test_more_than_is_allowed_is_422(limited, path, body, field, told):
    response = limited.post(path, body)
    assert response.status_code == 422
    named, message = error_of(response)
    assert named == field
    assert told in message


def test_too_many_points_are_422(limited):
    response = limited.put(*({"id": number, "vector": VECTOR} for number in range(4)))
    assert response.status_code == 422
    assert error_of(response)[0] == "points"


@pytest.mark.parametrize("announced", [True, False], ids=["content-length", "chunked"])
def test_a_body_of_100_megabytes_is_413(limited, announced):
    def parts():
        for _ in range(100):
            yield b" " * 1_000_000

    content = b" " * 100_000_000 if announced else parts()
    response = limited.client.post("/v1/search", content=content)
    assert response.status_code == 413
    assert str(BODY_LIMIT) in error_of(response)[1]


def test_the_limit_of_a_body_is_exact(limited):
    whole = b'{"id": 1, "k": 1}'
    for length, status in ((BODY_LIMIT, 200), (BODY_LIMIT + 1, 413)):
        assert limited.client.post("/v1/search", content=whole.ljust(length)).status_code == status


def test_who_asks_before_sending_is_refused_at_once(limited):
    """``Expect: 100-continue``: the client need not send what is too long."""
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\nExpect: 100-continue\r\n\r\n"
    assert _raw(limited, head).startswith(b"HTTP/1.1 413")


def test_a_body_that_never_comes_and_a_head_that_never_ends_are_408(limited):
    """Nothing, half of a head, and a head without its body; all of them at the same time."""
    half = b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
    without_body = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    connections = [_connected(limited) for _ in range(3)]
    for connection, head in zip(connections, (b"", half, without_body)):
        connection.sendall(head)
    for connection in connections:
        with connection:
            assert _all_of(connection).startswith(b"HTTP/1.1 408")


def test_who_was_answered_and_goes_on_sending_the_body_keeps_no_connection_open(limited):
    """A refusal comes before the body; a letter now and then would hold the connection for ever."""
    head = b"POST /v1/search HTTP/1.1\r\nHost: stranger.example\r\nContent-Length: 100000\r\n\r\n"
    with _connected(limited) as connection:
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 421")
        connection.settimeout(0.1)
        for _ in range(10 * 10 * PAUSE_SECONDS):
            with suppress(TimeoutError):
                if not connection.recv(65536):
                    break
            connection.sendall(b" ")
        else:
            pytest.fail("the connection is open")


def test_the_rest_of_a_body_that_was_refused_is_no_request(limited):
    head = b"POST /v1/search HTTP/1.1\r\nHost: stranger.example\r\nContent-Length: 40\r\n\r\n"
    asked = b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n"
    with _connected(limited) as connection:
        connection.sendall(head)
        said = connection.recv(65536)
        connection.sendall(asked[:40])
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        said += _all_of(connection)
    assert said.count(b"HTTP/1.1") == 2
    assert said.endswith(b'{"status":"alive"}')


@pytest.mark.parametrize("headers", [b"X-Long: " + b"x" * 400_000, b"X-Many: 1\r\n" * 40_000], ids=["long", "many"])
def test_a_head_that_is_too_long_is_431(limited, headers):
    assert _raw(limited, b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n" + headers).startswith(b"HTTP/1.1 431")


def test_the_requests_of_one_connection_have_a_head_each(limited):
    for _ in range(3):
        assert limited.client.get("/healthz", headers={"X-Long": "x" * 40_000}).status_code == 200


def test_more_requests_than_are_allowed_are_503(library):
    """Two that wait take both places; health is answered all the same."""
    app = create_app(library, Settings(max_concurrency=2))
    app.state.workers.ready = True

    async def ask():
        go_on = asyncio.Event()
        app.add_api_route("/other", go_on.wait)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            waiting = [asyncio.create_task(client.get("/other")) for _ in range(2)]
            while "hashlearn_requests_running 3.0" not in (await client.get("/metrics")).text:
                await asyncio.sleep(0)
            refused, health = await client.get("/other"), await client.get("/readyz")
            go_on.set()
            return refused, health, [(await each).status_code for each in waiting]

    refused, health, answered = asyncio.run(ask())
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert "2 requests" in error_of(refused)[1]
    assert health.status_code == 200
    assert answered == [200, 200]


def test_bodies_that_do_not_come_take_the_place_of_no_other_request(limited):
    """Small ones cost next to nothing, and long ones have room for two together."""
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{"
    slow = [_connected(limited) for _ in range(8)]
    for connection in slow[:5]:
        connection.sendall(head)
    for connection in slow[5:]:
        connection.sendall(head + b" " * 900_000)
    _wait_for_running(limited, 8)  # seven, and this one
    assert limited.post("/v1/search", {"id": 1, "k": 1}).status_code == 200
    told = sorted(connection.recv(65536).split(b"\r\n")[0] for connection in slow)
    assert told == [b"HTTP/1.1 408 Request Timeout"] * 7 + [b"HTTP/1.1 503 Service Unavailable"]
    for connection in slow:
        connection.close()
    _wait_for_running(limited, 1)


def _wait_for_running(server, n):
    for _ in range(2000):
        if f"hashlearn_requests_running {n}.0" in server.client.get("/metrics").text:
            return
    raise AssertionError(f"there were never {n} requests running")


def _connected(server):
    address = server.url.removeprefix("http://").split(":")
    return socket.create_connection((address[0], int(address[1])), timeout=60)


def _all_of(connection):
    """What a server says until it closes the connection, in whatever way."""
    said = b""
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            said += part
    return said


def _raw(server, sent):
    """What a server says to these bytes."""
    with _connected(server) as connection:
        connection.sendall(sent)
        return connection.recv(65536)
