"""What the middleware promises, of routes that do what ours do not: fail, or never end."""

import asyncio

import httpx
import pytest

from hashlearn.server import Settings, create_app


@pytest.fixture
def ask(library):
    """The answer of an application that also has this endpoint."""

    def ask(endpoint, **settings):
        app = create_app(library, Settings(**settings))
        app.state.workers.ready = True
        app.add_api_route("/other", endpoint)

        async def get():
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                return await client.get("/other")

        return asyncio.run(get())

    return ask


def test_a_fault_is_a_500_in_our_shape_and_a_traceback_in_the_log(ask, caplog):
    async def fail():
        raise RuntimeError("a secret")

    response = ask(fail)
    assert response.status_code == 500
    assert response.json()["error"] == {"field": None, "message": "internal error; the log of the server has more"}
    assert response.headers["X-Request-ID"]
    faults = [record for record in caplog.records if record.message == "fault"]
    assert "a secret" in str(faults[0].exc_info[1])
    assert len(faults) == 1


def test_a_request_that_never_ends_is_a_504(ask):
    async def wait():
        await asyncio.Event().wait()

    response = ask(wait, timeout_seconds=0.05)
    assert response.status_code == 504
    assert response.json()["error"]["message"] == "the request took longer than 0.05 seconds"
