"""Images and texts as queries, where ``hashlearn serve`` has an encoder."""

import io
from base64 import b64encode

import numpy as np
import pytest
from PIL import Image
from served import Server, error_of

from hashlearn import LSH, SimilaritySearch
from hashlearn.features import encoder_named, save_encoder
from hashlearn.server.features import ENCODER_FILE, EncoderFeatures, configured_features

TEXTS = ["a red fox", "a red dog", "the blue sky", "the blue sea", "green grass and a fox"]


@pytest.fixture(scope="module")
def texts_folder(tmp_path_factory):
    """A search of texts, with the encoder of them in its folder."""
    folder = tmp_path_factory.mktemp("texts") / "search"
    encoder = encoder_named("tfidf", "text").fit(TEXTS)
    X = encoder.encode(TEXTS)
    search = SimilaritySearch(LSH(n_bits=32, random_state=0), metric="cosine", keep_vectors="float32").fit(X)
    search.add(X, payloads=[{"text": text} for text in TEXTS]).save(folder)
    save_encoder(encoder, folder / ENCODER_FILE)
    return folder


def picture(color):
    """A PNG with a disc of this gray value, as base64."""
    y, x = np.mgrid[:64, :64]
    pixels = np.where((y - 32) ** 2 + (x - 20 - color // 8) ** 2 < 300, color, 255 - color).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def images_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images") / "search"
    pictures = [Image.open(io.BytesIO(picture(color))) for color in range(0, 250, 25)]
    X = encoder_named("gist", "image").encode(pictures)
    SimilaritySearch(LSH(n_bits=32, random_state=0), keep_vectors="float32").fit(X).add(X).save(folder)
    return folder


def test_texts_are_searched_and_encoded_by_the_encoder_in_the_folder(texts_folder):
    with Server(texts_folder) as server:
        server.ready()
        found = server.post("/v1/search", {"text": "blue sky", "k": 1}).json()["results"][0]
        assert found["payloads"] == [{"text": "the blue sky"}]
        codes = server.post("/v1/codes", {"texts": TEXTS[:2], "encoding": "hex"}).json()["codes"]
        assert server.post("/v1/search", {"code": codes[1], "code_encoding": "hex", "k": 5}).status_code == 200
        assert len(server.post("/v1/embeddings", {"input": TEXTS}).json()["data"]) == len(TEXTS)
        assert server.client.get("/v1/info").json()["features"] is True
        field, message = error_of(server.post("/v1/search", {"image": "AAAA"}))
        assert field == "image"
        assert "texts" in message


def test_images_are_searched_by_an_encoder_that_is_named(images_folder):
    with Server(images_folder, "--encoder", "gist") as server:
        server.ready()
        asked = {"image": b64encode(picture(75)).decode(), "k": 1}
        assert server.post("/v1/search", asked).json()["results"][0]["ids"] == [3]
        for wrong in ("AAAA", "not base64!"):
            field, message = error_of(server.post("/v1/search", {"image": wrong}))
            assert field == "image"
            assert "0x" not in message  # no address of an object
        for size in ((1, 200_000), (200_000, 1), (5000, 4)):  # small files, large pictures
            file = io.BytesIO()
            Image.new("L", size).save(file, "PNG")
            response = server.post("/v1/search", {"image": b64encode(file.getvalue()).decode()})
            assert response.status_code == 422
            assert f"{size[0]} x {size[1]} pixels" in error_of(response)[1]
        field, message = error_of(server.post("/v1/search", {"text": "a disc"}))
        assert field == "text"
        assert "images" in message


@pytest.mark.parametrize(
    ("encoder", "model_folder", "told"),
    [
        ("gist", None, "512"),
        ("tfidf", None, "save_encoder"),
        ("no such model", None, "fastembed"),
        (None, "models", "--encoder"),
    ],
)
def test_an_encoder_that_cannot_be_meant_is_refused_at_the_start(folder, encoder, model_folder, told):
    with pytest.raises(ValueError, match=told):
        configured_features(str(folder), 64, encoder, model_folder)


def test_without_an_encoder_there_are_no_features(folder):
    assert configured_features(str(folder), 64, None, None) is None


def test_texts_are_found_by_words_by_meaning_and_by_both(tmp_path):
    search = SimilaritySearch(LSH(n_bits=32, random_state=0), encoder="tfidf", metric="cosine", keep_vectors="float32")
    search.fit(texts=TEXTS).add(texts=TEXTS, payloads=[{"odd": bool(row % 2)} for row in range(5)]).save(tmp_path / "s")
    with Server(tmp_path / "s") as server:
        server.ready()
        found = server.post("/v1/search", {"text": "fox", "k": 5, "by": "words"}).json()["results"][0]
        assert sorted(found["ids"]) == [0, 4]
        both = server.post("/v1/search", {"text": "fox", "k": 5}).json()["results"][0]
        assert set(both["ids"][:2]) == {0, 4}
        assert set(both["parts"]) == {"words", "meaning"}
        assert len(both["parts"]["words"]) == len(both["ids"])
        asked = {"text": "NOT sky AND (", "k": 5, "by": "words", "filter": {"odd": True}, "payloads": False}
        assert server.post("/v1/search", asked).json()["results"][0]["ids"] == []
        assert "parts" in server.post("/v1/search", {"text": "fox", "by": "meaning"}).json()["results"][0]
        assert error_of(server.post("/v1/search", {"vector": [0.0], "by": "words"}))[0] == "by"
        asked = {"text": "+fox -red", "k": 5, "by": "words", "operators": True}
        assert server.post("/v1/search", asked).json()["results"][0]["ids"] == [
            row for row, text in enumerate(TEXTS) if "fox" in text and "red" not in text
        ]
        asked = {"text": "fox", "k": 5, "weights": {"words": 0, "meaning": 1}}
        assert not any(server.post("/v1/search", asked).json()["results"][0]["parts"]["words"])


def test_rows_to_be_like_and_results_that_differ(tmp_path):
    X = np.repeat(np.eye(4, 16, dtype=np.float32), 5, axis=0) + np.linspace(0, 0.01, 320, dtype=np.float32).reshape(
        20, 16
    )
    SimilaritySearch(LSH(n_bits=64, random_state=0), metric="cosine", keep_vectors="float32").fit(X).add(X).save(
        tmp_path / "s"
    )
    with Server(tmp_path / "s") as server:
        server.ready()

        def ids(**body):
            answer = server.post("/v1/search", body)
            assert answer.status_code == 200, answer.text
            return [result["ids"] for result in answer.json()["results"]]

        assert {id // 5 for id in ids(like=[0, 1], k=3)[0]} == {0}
        assert not {0, 1} & set(ids(like=[0, 1], k=20)[0])
        (listed,) = ids(like=[0, 5], unlike=[6], k=8)
        assert {id // 5 for id in listed[:4]} == {0}
        query = [1.0, 0.9, 0.8, 0.7, *[0.0] * 12]
        assert len({id // 5 for id in ids(vector=query, k=4)[0]}) == 1
        found = ids(vectors=[query, query], k=4, diversity=0.7)
        assert [len({id // 5 for id in row}) for row in found] == [4, 4]
        assert len({id // 5 for id in ids(id=0, k=4, diversity=0.9)[0]}) > 1
        for body, field in (
            ({"like": ["a"]}, "like"),
            ({"like": [77]}, "like"),
            ({"like": []}, "like"),
            ({"vector": query, "unlike": [1]}, "unlike"),
            ({"vector": query, "like": [1]}, "vector"),
            ({"vector": query, "operators": True}, "operators"),
            ({"vector": query, "weights": {"words": 1}}, "weights"),
            ({"vector": query, "diversity": 1.5}, "diversity"),
            ({"code": [0] * 8, "diversity": 0.5}, "diversity"),
        ):
            assert error_of(server.post("/v1/search", body))[0] == field, body


def test_a_search_without_texts_says_so(texts_folder):
    with Server(texts_folder) as server:
        server.ready()
        field, message = error_of(server.post("/v1/search", {"text": "fox", "by": "words"}))
        assert field == "by"
        assert "needs texts" in message


def test_the_pictures_of_a_request_are_not_all_in_memory_at_once():
    """A thousand of them, small as files, would take 6 GB."""
    gist, sizes = encoder_named("gist", "image"), []

    class Noting:
        kind = "image"

        def encode(self, pictures):
            sizes.append(sum(len(picture.tobytes()) for picture in pictures))
            return gist.encode(pictures)

    file = io.BytesIO()
    Image.new("L", (4088, 511)).save(file, "PNG")
    assert EncoderFeatures(Noting()).encode_images([file.getvalue()] * 20).shape == (20, 512)
    assert max(sizes) < 60_000_000
