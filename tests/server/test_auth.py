"""Who may read, who may write."""

import asyncio
import itertools

import httpx
import pytest
from served import Server, error_of
from starlette.responses import PlainTextResponse

from hashlearn.server import Settings
from hashlearn.server.front import Auth

POINT = {"points": [{"id": 9000, "vector": [0.0] * 64}]}
SEARCH = {"id": 1, "k": 1}


@pytest.fixture(scope="module")
def own_folder(make_search, tmp_path_factory):
    return make_search(tmp_path_factory.mktemp("guarded") / "search")


@pytest.fixture(scope="module")
def guarded(own_folder):
    with Server(own_folder, "--api-key", "to-read", "--write-key", "to-write") as server:
        yield server.ready()


def status(server, method, path, key=None, **options):
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return server.client.request(method, path, headers=headers, **options).status_code


def test_reading_wants_a_key(guarded):
    for key, wanted in (
        (None, 401),
        ("to-rea", 401),
        ("to-readx", 401),
        ("to-read", 200),
        ("to-write", 200),
    ):
        assert status(guarded, "POST", "/v1/search", key, json=SEARCH) == wanted, key


def test_writing_wants_the_other_key(guarded):
    for key, wanted in ((None, 401), ("wrong", 401), ("to-read", 403), ("to-write", 200)):
        assert status(guarded, "PUT", "/v1/points", key, json=POINT) == wanted, key
    for key, wanted in ((None, 401), ("to-read", 403), ("to-write", 204)):
        assert status(guarded, "DELETE", "/v1/points/9000", key) == wanted, key


def test_only_health_is_open(guarded):
    assert status(guarded, "GET", "/healthz") == status(guarded, "GET", "/readyz") == 200
    closed = ("/metrics", "/openapi.json", "/docs", "/v1/info", "/v1/points/1", "/", "/nowhere")
    for path in closed:
        assert status(guarded, "GET", path) == 401, path


def test_a_browser_may_send_the_key_as_a_password(guarded):
    response = guarded.client.get("/docs")
    assert response.headers["WWW-Authenticate"].startswith("Basic")
    assert guarded.client.get("/docs", auth=("anybody", "to-read")).status_code == 200
    assert guarded.client.get("/docs", auth=("anybody", "wrong")).status_code == 401


def test_the_refusal_does_not_say_which_keys_there_are(guarded):
    response = guarded.post("/v1/search", SEARCH)
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert error_of(response)[0] == "Authorization"
    assert "to-" not in response.text


def test_keys_are_not_in_the_log(guarded):
    status(guarded, "POST", "/v1/search", "to-read", json=SEARCH)
    status(guarded, "POST", "/v1/search", "some-guess", json=SEARCH)
    guarded.wait_for("request")
    log = "".join(guarded.lines)
    assert not any(key in log for key in ("to-read", "to-write", "some-guess"))


@pytest.mark.parametrize(
    ("settings", "key", "reads", "writes"),
    [
        (Settings(), None, 200, 200),
        (Settings(api_key="r"), None, 401, 401),
        (Settings(api_key="r"), "r", 200, 403),
        (Settings(write_key="w"), None, 200, 401),
        (Settings(write_key="w"), "w", 200, 200),
    ],
    ids=["no key", "a key to read, not sent", "a key to read", "a key to write, not sent", "a key to write"],
)
def test_one_key_or_none(settings, key, reads, writes):
    """A key to read and none to write: nobody writes. A key to write and none to read: everybody reads."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    async def ask(method):
        transport = httpx.ASGITransport(Auth(PlainTextResponse("served"), settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://local") as client:
            return (await client.request(method, "/v1/points", headers=headers)).status_code

    assert asyncio.run(ask("POST")) == reads
    assert asyncio.run(ask("PUT")) == asyncio.run(ask("DELETE")) == writes


def test_keys_may_come_from_the_environment(own_folder, monkeypatch):
    monkeypatch.setenv("HASHLEARN_API_KEY", "secret")
    with Server(own_folder) as server:
        server.ready()
        assert status(server, "POST", "/v1/search", json=SEARCH) == 401
        assert status(server, "POST", "/v1/search", "secret", json=SEARCH) == 200


def test_malformed_headers_are_no_key(guarded):
    for scheme, value in itertools.product(("Basic", "Bearer", "Digest"), ("%%%", "Og==", "a b c", "ü")):
        response = guarded.client.get("/v1/info", headers={b"Authorization": f"{scheme} {value}".encode()})
        assert response.status_code == 401
