"""What /v1/search finds is what the library finds, whatever the query is written as."""

from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from served import error_of


def as_base64(array):
    return b64encode(array.tobytes()).decode()


@pytest.fixture(scope="module")
def queries(digits):
    return digits[0][-20:]


@pytest.mark.parametrize("written", ["numbers", "base64"])
@pytest.mark.parametrize(
    "options", [{}, {"rerank": "codes"}, {"rerank": "asymmetric"}, {"candidates": 50}, {"recall": 1.0}], ids=str
)
def test_vectors_find_what_the_library_finds(server, library, queries, written, options):
    vectors = [as_base64(query) if written == "base64" else query.tolist() for query in queries]
    results = server.post("/v1/search", {"vectors": vectors, "k": 7, **options}).json()["results"]
    distances, ids = library.search(queries, 7, **options)
    assert [result["ids"] for result in results] == ids.tolist()
    np.testing.assert_allclose([result["distances"] for result in results], distances, rtol=1e-5)


def test_a_result_says_the_recall_that_is_expected_of_it(server, queries):
    asked = server.post("/v1/search", {"vectors": queries[:2].tolist(), "recall": 1}).json()["results"]
    assert [(result["recall"], result["probed"]) for result in asked] == [(1.0, 0), (1.0, 0)]
    (plain,) = server.post("/v1/search", {"vector": queries[0].tolist()}).json()["results"]
    assert "recall" not in plain


def test_one_vector_is_a_batch_of_one(server, queries):
    one = server.post("/v1/search", {"vector": queries[3].tolist()}).json()
    many = server.post("/v1/search", {"vectors": queries.tolist()}).json()
    assert one["results"] == many["results"][3:4]
    assert len(one["results"][0]["ids"]) == 10


def test_payloads_belong_to_their_rows(server, digits, queries):
    (result,) = server.post("/v1/search", {"vector": queries[0].tolist()}).json()["results"]
    assert result["payloads"] == [{"label": int(digits[1][id])} for id in result["ids"]]
    (result,) = server.post("/v1/search", {"vector": queries[0].tolist(), "payloads": False}).json()["results"]
    assert set(result) == {"ids", "distances"}


def test_a_row_finds_itself_first(server):
    (result,) = server.post("/v1/search", {"id": 17, "k": 3}).json()["results"]
    assert result["ids"][0] == 17
    assert result["distances"][0] == 0


@pytest.mark.parametrize("encoding", ["base64", "hex", "ubinary"])
def test_codes_find_what_the_library_finds(server, library, queries, encoding):
    codes = library.hasher.transform(queries)
    written = {"base64": [as_base64(code) for code in codes], "hex": [code.tobytes().hex() for code in codes]}
    body = {"codes": written.get(encoding, codes.tolist()), "k": 5}
    if encoding == "hex":
        body["code_encoding"] = "hex"
    results = server.post("/v1/search", body).json()["results"]
    distances, ids = library.search_codes(codes, 5)
    assert [result["ids"] for result in results] == ids.tolist()
    assert [result["distances"] for result in results] == distances.tolist()


def test_a_filter_leaves_out_other_rows(server, digits, queries):
    body = {"vectors": queries[:3].tolist(), "k": 20, "filter": {"label": {"$in": [3, 8]}}}
    results = server.post("/v1/search", body).json()["results"]
    labels = {payload["label"] for result in results for payload in result["payloads"]}
    assert labels == {3, 8}
    assert [len(result["ids"]) for result in results] == [20, 20, 20]


def test_fewer_rows_than_k_are_all_there_are(server, digits, queries):
    n = int(np.sum(digits[1][:1000] == 4))
    body = {"vector": queries[0].tolist(), "k": 1000, "filter": {"label": 4}}
    (result,) = server.post("/v1/search", body).json()["results"]
    assert len(result["ids"]) == n


def test_a_radius_cuts_what_is_farther(server, queries):
    body = {"vector": queries[0].tolist(), "k": 100, "rerank": "codes"}
    (whole,) = server.post("/v1/search", body).json()["results"]
    (cut,) = server.post("/v1/search", {**body, "radius": 6}).json()["results"]
    n = sum(distance <= 6 for distance in whole["distances"])
    assert 0 < n < 100
    assert cut["ids"] == whole["ids"][:n]


def test_requests_that_wait_together_get_their_own_answers(server, library, queries):
    """They are searched in one go; each has its own k and queries."""

    def ask(number):
        body = {"vector": queries[number % 20].tolist(), "k": 1 + number % 3}
        return server.post("/v1/search", body).json()["results"][0]["ids"]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(120)))
    wanted = [library.search(queries, k).ids.tolist() for k in (1, 2, 3)]
    assert answers == [wanted[number % 3][number % 20] for number in range(120)]


BAD = {
    "no query": ({}, "vector", "one of vector"),
    "two queries": ({"vector": [0.0] * 64, "id": 3}, "vector", "vector and id"),
    "wrong length": ({"vector": [1.0, 2.0]}, "vector", "64 numbers, got 2"),
    "wrong length of one": ({"vectors": [[0.0] * 64, [0.0]]}, "vectors.1", "64 numbers, got 1"),
    "a string in a vector": ({"vector": ["1"] * 64}, "vector.0", "number"),
    "too large for float32": ({"vector": [1e300] * 64}, "vector", "finite"),
    "malformed base64": ({"vector": "a*b"}, "vector", "base64"),
    "half a float": ({"vector": "AAAAAAA="}, "vector", "float32"),
    "no vectors": ({"vectors": []}, "vectors", "empty"),
    "an unknown id": ({"id": 123456}, "id", "123456"),
    "an id of the other kind": ({"id": "seventeen"}, "id", "seventeen"),
    "a short code": ({"code": [1, 2]}, "code", "4 bytes, got 2"),
    "a byte above 255": ({"code": [256, 0, 0, 0]}, "code.0", "255"),
    "malformed hex": ({"code": "xy", "code_encoding": "hex"}, "code", "hex"),
    "k of 0": ({"id": 1, "k": 0}, "k", "1"),
    "k as a string": ({"id": 1, "k": "10"}, "k", "integer"),
    "k beyond the limit": ({"id": 1, "k": 1001}, "k", "at most 1000, got 1001"),
    "candidates beyond the limit": ({"id": 1, "candidates": 10_001}, "candidates", "at most 10000"),
    "a recall of 0": ({"id": 1, "recall": 0}, "recall", "greater than 0"),
    "a recall above 1": ({"id": 1, "recall": 1.5}, "recall", "less than or equal to 1"),
    "a recall of codes": ({"code": [1, 2, 3, 4], "recall": 0.9}, "recall", "for vectors, got codes"),
    "a recall beside candidates": ({"id": 1, "recall": 0.9, "candidates": 9}, "candidates", "cannot both be given"),
    "a recall in the order of codes": ({"id": 1, "recall": 0.9, "rerank": "codes"}, "recall", "needs vectors"),
    "an unknown way": ({"id": 1, "rerank": "magic"}, "rerank", "asymmetric"),
    "a negative radius": ({"id": 1, "radius": -1}, "radius", "0"),
    "a filter that is none": ({"id": 1, "filter": {"label": {"$near": 3}}}, "filter", "$near"),
    "a filter value of 400 digits": ({"id": 1, "filter": {"label": 10**400}}, "filter", "an integer of 1329 bits"),
    "too many values": ({"id": 1, "filter": {"label": {"$in": [1] * 100_001}}}, "filter", "at most 100,000 values"),
    "too many tests": ({"id": 1, "filter": {"$or": [{"label": 1}] * 501}}, "filter", "at most 500 tests"),
    "a subset of two kinds": ({"id": 1, "subset": [1, "2"]}, "subset", "all of one kind"),
    "a subset of the other kind": ({"id": 1, "subset": ["1"]}, "subset", "as those of this search"),
    "a field nobody reads": ({"id": 1, "top_k": 5}, "top_k", "not a field"),
    "a field that is no word": ({"id": 1, "top-k": 5}, "top-k", "top-k is not a field"),
    "a text without features": ({"text": "seven"}, "text", "no features"),
    "an image without features": ({"image": "AAAA"}, "image", "no features"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(server, case):
    body, field, told = BAD[case]
    response = server.post("/v1/search", body)
    assert response.status_code == 422
    named, message = error_of(response)
    assert named == field
    assert told in message


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"vector": [NaN]}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_request_is_refused(server, content):
    response = server.client.post("/v1/search", content=content)
    assert response.status_code == 422
    error_of(response)


@pytest.mark.parametrize("depth", [33, 3000])
def test_a_filter_nested_too_deep_is_refused(server, depth):
    filter = '{"$and":[' * depth + '{"label":1}' + "]}" * depth
    response = server.client.post("/v1/search", content=f'{{"id":1,"filter":{filter}}}'.encode())
    assert response.status_code == 422
    error_of(response)


def test_unknown_pages_and_methods_have_the_same_shape(server):
    for method, path, status in (("GET", "/nowhere", 404), ("GET", "/v1/search", 405), ("GET", "/../etc/passwd", 404)):
        response = server.client.request(method, path)
        assert response.status_code == status
        error_of(response)
