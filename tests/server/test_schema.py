"""Requests made from the OpenAPI schema, right ones and wrong ones: each gets an answer that the schema tells of.

``HASHLEARN_SCHEMA_EXAMPLES=500 pytest tests/server/test_schema.py`` makes more of them.
"""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode
from served import Server, error_of

EXAMPLES = int(os.environ.get("HASHLEARN_SCHEMA_EXAMPLES", "15"))
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def server(make_search, tmp_path_factory):
    """A server of its own, for many of the requests write."""
    with Server(make_search(tmp_path_factory.mktemp("schema") / "search")) as server:
        yield server.ready()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_is_a_fault(server, mode):
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [operation.ok() for operation in schema.get_all_operations()]
    assert len(operations) >= 9
    for operation in operations:
        if mode is GenerationMode.POSITIVE or operation.body:
            _try(operation, mode)
    assert not [line for line in server.events() if line["event"] == "fault"]


def _try(operation, mode):
    @SETTINGS
    @given(operation.as_strategy(generation_mode=mode))
    def each(case):
        response = case.call()
        assert response.status_code < 500, (operation.label, response.text)
        case.validate_response(response, checks=[schemathesis.checks.CHECKS.get_one("response_schema_conformance")])
        if response.status_code >= 400:
            error_of(response)

    each()
