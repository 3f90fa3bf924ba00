"""Codes over HTTP are the codes of the library, also for OpenAI's client."""

from base64 import b64decode

import numpy as np
import openai
import pytest
from served import error_of


@pytest.fixture(scope="module")
def vectors(digits):
    return digits[0][:5]


@pytest.fixture(scope="module")
def codes(library, vectors):
    return library.hasher.transform(vectors)


@pytest.fixture(scope="module")
def embeddings(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none").embeddings


READERS = {
    "base64": lambda text: np.frombuffer(b64decode(text), np.uint8),
    "hex": lambda text: np.frombuffer(bytes.fromhex(text), np.uint8),
    "ubinary": np.array,
}


@pytest.mark.parametrize("encoding", READERS)
def test_codes_are_those_of_the_hasher(server, vectors, codes, encoding):
    answer = server.post("/v1/codes", {"vectors": vectors.tolist(), "encoding": encoding}).json()
    assert answer["n_bits"] == 32
    np.testing.assert_array_equal([READERS[encoding](code) for code in answer["codes"]], codes)


def test_the_first_bit_is_the_most_significant(server, library, vectors):
    answer = server.post("/v1/codes", {"vectors": vectors.tolist(), "encoding": "ubinary"}).json()
    first_bits = np.array(answer["codes"])[:, 0] >> 7
    np.testing.assert_array_equal(first_bits, library.hasher.decision_function(vectors)[:, 0] > 0)


@pytest.mark.parametrize("encoding_format", [openai.omit, "float"], ids=["default", "float"])
def test_openai_client_gets_codes(embeddings, vectors, codes, encoding_format):
    answer = embeddings.create(model="any", input=vectors.tolist(), encoding_format=encoding_format)
    assert [each.index for each in answer.data] == list(range(5))
    np.testing.assert_array_equal([np.array(each.embedding, np.uint8) for each in answer.data], codes)


def test_openai_client_gets_base64_of_float32(embeddings, vectors, codes):
    answer = embeddings.create(model="any", input=vectors.tolist(), encoding_format="base64")
    read = [np.frombuffer(b64decode(each.embedding), "<f4") for each in answer.data]
    np.testing.assert_array_equal(read, codes)


def test_openai_client_may_send_one_vector_and_dimensions(embeddings, vectors, codes):
    answer = embeddings.create(model="any", input=vectors[0].tolist(), dimensions=4)
    np.testing.assert_array_equal(answer.data[0].embedding, codes[0])


def test_openai_client_is_told_what_is_wrong(embeddings, vectors):
    with pytest.raises(openai.UnprocessableEntityError, match="no features"):
        embeddings.create(model="any", input="a text")
    with pytest.raises(openai.UnprocessableEntityError, match="4 bytes"):
        embeddings.create(model="any", input=vectors[0].tolist(), dimensions=1536)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/codes", {}, "vectors"),
        ("/v1/codes", {"vectors": [[0.0] * 64], "encoding": "binary"}, "encoding"),
        ("/v1/codes", {"vectors": [[0.0] * 64, [0.0] * 63]}, "vectors.1"),
        ("/v1/codes", {"texts": ["a"]}, "texts"),
        ("/v1/codes", {"images": ["AAAA"]}, "images"),
        ("/v1/codes", {"images": ["%"]}, "images.0"),
        ("/v1/embeddings", {"input": []}, "input"),
        ("/v1/embeddings", {"input": [[1.0]]}, "input.0"),
        ("/v1/embeddings", {"input": {"a": 1}}, "input"),
        ("/v1/embeddings", {"model": "any"}, "input"),
    ],
    ids=str,
)
def test_bad_input_is_named(server, path, body, field):
    response = server.post(path, body)
    assert response.status_code == 422
    assert error_of(response)[0] == field
