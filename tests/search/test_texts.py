"""Searching texts: by words, by meaning, by both; like this and not like that; and what is kept of them."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hashlearn import ITQ, LSH, SimilaritySearch
from hashlearn.search.hybrid import join_ranks, unlike_each_other

TEXTS = [
    "play chess against the computer",
    "a chess database",
    "development files of libfoo-dev",
    "listen to music",
    "music player with a database",
    "coffee machine",
]
ANIMALS = {"cat": [1, 0, 0], "dog": [0.9, 0.3, 0], "car": [0, 0, 1], "bus": [0, 0.2, 1]}


def encode(texts):
    """An encoder that knows four words."""
    return np.array([np.sum([ANIMALS.get(word, [0.01, 0.02, 0]) for word in text.split()], 0) for text in texts], float)


def vectors(n=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 16)).astype(np.float32)


def searched(folder=None, texts=TEXTS, **options):
    search = SimilaritySearch(LSH(n_bits=16, random_state=0), folder=folder, **options).fit(vectors(20, 1))
    return search.add(vectors(len(texts)), texts=texts)


@pytest.fixture(params=["memory", "folder"])
def search(request, tmp_path):
    return searched(None if request.param == "memory" else tmp_path / "s")


def ids(found):
    return [id for id in np.ravel(found.ids).tolist() if id not in (-1, None)]


def test_rows_are_found_by_their_words(search):
    assert search.text_field == "text"
    found = search.search(text="chess", k=4, by="words")
    assert found.ids.shape == (4,)
    assert sorted(ids(found)) == [0, 1]
    assert found.distances[0] <= found.distances[1] < found.distances[2] == np.inf
    assert ids(search.search(text=["libfoo-dev", "coffee"], k=1)) == [2, 5]


def test_a_payload_field_can_be_the_text():
    search = SimilaritySearch(LSH(n_bits=16, random_state=0), text_field="title").fit(vectors())
    search.add(vectors(2), payloads=[{"title": "red fox"}, {"title": "blue sky", "text": "fox"}])
    assert ids(search.search(text="fox", k=2)) == [0]
    assert search.get([0])[0].payload == {"title": "red fox"}


def test_words_follow_every_change(search):
    search.upsert(vectors(1), [0], texts=["tea"])
    assert ids(search.search(text="chess", k=9)) == [1]
    search.remove([1])
    assert ids(search.search(text="chess", k=9)) == []
    search.add(vectors(1), texts=["chess again"])
    assert ids(search.search(text="chess tea", k=9)) == [0, 6]
    search.compact()
    assert sorted(ids(search.search(text="chess tea", k=9))) == [0, 6]
    search.add(vectors(1), texts=["more chess"])
    assert sorted(ids(search.search(text="chess", k=9))) == [6, 7]


def test_a_change_that_fails_leaves_no_words(search):
    with pytest.raises(ValueError, match="ids must be new"):
        search.add(vectors(2), [100, 0], texts=["zebra", "zebra"])
    with pytest.raises(ValueError, match="ids must be new"), search.transaction():
        search.add(vectors(1), [101], texts=["zebra"]).add(vectors(1), [0], texts=["zebra"])
    search.add(vectors(1), [102], texts=["horse"])
    assert ids(search.search(text="zebra", k=3)) == []
    assert ids(search.search(text="horse", k=3)) == [102]


def test_the_first_texts_and_a_failure_leave_no_field():
    search = SimilaritySearch(LSH(n_bits=16, random_state=0)).fit(vectors()).add(vectors(1))
    with pytest.raises(ValueError, match="ids must be new"):
        search.add(vectors(1), [0], texts=["a"])
    assert search.text_field is None
    assert ids(search.add(vectors(1), [7], texts=["a"]).search(text="a")) == [7]


def test_words_are_saved_and_opened(tmp_path):
    search = searched()
    search.remove([0])
    search.save(tmp_path / "a")
    search.add(vectors(1), texts=["late chess"])
    opened = SimilaritySearch.open(tmp_path / "a")
    assert sorted(ids(opened.search(text="chess", k=9))) == [1, 6]
    opened.save(tmp_path / "b")
    other = SimilaritySearch.open(tmp_path / "b")
    assert sorted(ids(other.search(text="chess", k=9))) == [1, 6]
    other.remove([6])
    assert sorted(ids(opened.search(text="chess", k=9))) == [1, 6]


def test_another_reader_sees_new_words_after_a_refresh(tmp_path):
    search = searched(tmp_path / "s")
    reader = SimilaritySearch.open(tmp_path / "s")
    assert ids(reader.search(text="zebra")) == []
    search.add(vectors(1), texts=["a zebra"])
    assert ids(reader.search(text="zebra")) == []
    reader.refresh()
    assert ids(reader.search(text="zebra")) == [6]
    search.remove([0]).compact()
    assert ids(reader.search(text="zebra")) == [6]  # asked again, of the rows as they are now


def test_a_search_with_texts_is_pickled_and_fitted_anew():
    search = searched()
    again = pickle.loads(pickle.dumps(search))
    assert sorted(ids(again.search(text="chess", k=9))) == [0, 1]
    search.fit(vectors(20, 3)).add(vectors(1), texts=["chess"])
    assert ids(search.search(text="chess", k=9)) == [0]


def test_filters_and_subsets(search):
    search.add(vectors(2), texts=["chess red", "chess blue"], payloads=[{"color": "red"}, {"color": "blue"}])
    assert ids(search.search(text="chess", k=9, filter={"color": "blue"})) == [7]
    assert sorted(ids(search.search(text="chess", k=9, subset=[0, 6]))) == [0, 6]
    found = search.search(vectors(1), text="chess", k=9, by="both", filter={"color": {"$in": ["red", "blue"]}})
    assert sorted(ids(found)) == [6, 7]


def test_both_joins_words_and_meaning():
    search = SimilaritySearch(ITQ(n_bits=3, random_state=0), encoder=encode, keep_vectors="float32")
    texts = ["cat", "dog", "car", "bus", "my cat photo", "a car and a bus"]
    search.fit(texts=texts * 3).add(texts=texts, ids=list("abcdef"))
    assert search.search(text="dog", by="words").ids[0] == "b"
    assert set(search.search(text="dog", by="meaning", k=2).ids) >= {"b"}
    found = search.search(text="dog", k=6, include=["payload"])
    assert found.ids[0] == "b"
    assert found.payloads[0] == {"text": "dog"}
    assert found.parts["words"][0] == pytest.approx(0.5)
    assert found.parts["words"][1] == 0  # only one row has the word
    total = found.parts["words"] + found.parts["meaning"]
    np.testing.assert_allclose(1 - found.distances, total, atol=1e-6)
    by_words = search.search(text="cat bus", k=6, weights={"meaning": 0})
    np.testing.assert_array_equal(by_words.parts["meaning"], 0)


def test_vectors_of_the_caller_beside_a_text():
    search = searched()
    found = search.search(vectors()[3], text="chess", k=3)
    assert 3 in found.ids.tolist()
    assert {0, 1} & set(found.ids.tolist())
    with pytest.raises(ValueError, match="X must have a vector for each of the 1 texts"):
        search.search(vectors()[:2], text="chess")


@pytest.mark.parametrize("keep", [None, "float32"])
def test_rows_like_others(keep):
    search = searched(keep_vectors=keep)
    near = vectors() + 0.01
    search.add(near, ids=[10 + i for i in range(len(near))], texts=TEXTS)
    found = search.search(like=[0], k=3)
    assert found.ids[0] == 10
    assert 0 not in found.ids.tolist()
    found = search.search(like=[0], unlike=[10], k=20)
    assert {0, 10}.isdisjoint(found.ids.tolist())
    assert search.search(like=3, k=1, by="meaning").ids[0] == 13


def test_results_that_differ_from_each_other():
    X = np.repeat(np.eye(4, 16, dtype=np.float32), 5, axis=0) + 0.001 * vectors(20)
    search = SimilaritySearch(LSH(n_bits=64, random_state=0), keep_vectors="float32").fit(X).add(X)
    query = np.array([1.0, 0.9, 0.8, 0.7, *[0] * 12], np.float32) / 1.72
    assert len({id // 5 for id in search.search(query, k=4).ids}) == 1
    assert len({id // 5 for id in search.search(query, k=4, diversity=0.7).ids}) == 4


def test_diversity_zero_keeps_the_order_and_one_the_farthest():
    rows = np.array([[1, 0], [0.8, 0.6], [-1, 0]])
    assert unlike_each_other(np.array([1, 0.9, 0.1]), rows, 3, 0.0).tolist() == [0, 1, 2]
    assert unlike_each_other(np.array([1, 0.9, 0.1]), rows, 2, 1.0).tolist() == [0, 2]


def test_a_list_alone_keeps_its_order():
    joined = join_ranks({"words": np.array([5, 2, 9])}, {"words": 1.0}, 2)
    assert joined.places.tolist() == [5, 2]
    assert joined.scores[0] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "a", "by": "meaning"}, "by='meaning' needs vectors"),
        ({"text": "a", "by": "sound"}, "by must be"),
        ({"text": 7}, "text must be a string"),
        ({"text": ["a", 7]}, "text must be a string"),
        ({"text": ["a", None]}, "got NoneType among them"),
        ({"text": {"a": 1}}, "text must be a string or a list of strings, got dict"),
        ({"text": "a", "weights": {"sound": 1}}, "weights must be a dict"),
        ({"text": "a", "weights": {"words": 0, "meaning": 0}}, "weights must not all be 0"),
        ({"text": "a", "diversity": 2}, "diversity must be"),
        ({"like": []}, "like must have at least one id"),
        ({"like": [99]}, "like must be in the search"),
        ({"like": [0], "text": "a"}, "like and unlike are a query of their own"),
        ({}, "X, text, image or like must be given"),
    ],
)
def test_bad_questions_get_a_line(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        searched().search(**options)


def test_a_search_without_texts_says_what_it_needs():
    search = SimilaritySearch(LSH(n_bits=16, random_state=0)).fit(vectors()).add(vectors())
    with pytest.raises(ValueError, match=r"by='words' needs texts: add rows with texts="):
        search.search(text="a", by="words")
    with pytest.raises(ValueError, match="text needs texts or an encoder"):
        search.search(text="a")
    with pytest.raises(ValueError, match="texts need an encoder"):
        search.add(texts=["a"])


@pytest.mark.parametrize(
    ("texts", "payloads", "message"),
    [
        (
            "abc",
            None,
            r"a list of strings, got str; pass one text as \[text\], a column of a table as table\['text'\]",
        ),
        (["a", None], None, "texts must be strings, got a missing one in place 1; pass '' there"),
        (pa.array(["a", None]), None, "got a missing one in place 1"),
        (pd.Series(["a", float("nan")]), None, "got a missing one in place 1"),
        (["a", 3], None, "texts must be strings, got int in place 1"),
        (["a", "b\0"], None, "NUL"),
        (["a", "b"], [{"text": "x"}, {}], "payloads must not have the field 'text'"),
        (["a"], None, "payloads must be as many"),
    ],
)
def test_bad_texts_get_a_line(texts, payloads, message):
    search = searched()
    with pytest.raises((ValueError, TypeError), match=message):
        search.add(vectors(2), texts=texts, payloads=payloads)
    assert len(search) == len(TEXTS)


@pytest.mark.parametrize("column", [pa.array, pl.Series, pd.Series, lambda texts: pa.chunked_array([texts])])
def test_texts_of_a_column(column):
    search = SimilaritySearch(LSH(n_bits=16, random_state=0)).fit(vectors(3))
    search.add(vectors(3), texts=column(["a chess game", "an apple", "a game"]))
    assert search.search(text=column(["chess", "apple"]), by="words", k=1).ids.tolist() == [[0], [1]]


@pytest.mark.parametrize("query", ["", "?!", "the of and", "☃", "\0", "\ud800", "a" * 1_000_000, "NEAR(a b) AND *"])
def test_odd_queries_have_an_answer(search, query):
    assert search.search(text=query, k=3).ids.shape == (3,)


def test_a_text_without_a_known_word_finds_nothing():
    search = SimilaritySearch(LSH(n_bits=32, random_state=0), encoder="tfidf", metric="cosine").fit(texts=TEXTS)
    found = search.add(texts=TEXTS).search(text=["?!", "chess"], k=2)
    assert found.ids[0].tolist() == [-1, -1]
    assert sorted(found.ids[1].tolist()) == [0, 1]


def test_an_encoder_by_name_is_kept_with_the_search(tmp_path):
    texts = TEXTS * 4
    search = SimilaritySearch(LSH(n_bits=32, random_state=0), encoder="tfidf", metric="cosine").fit(texts=texts)
    search.add(texts=TEXTS).save(tmp_path / "s")
    opened = SimilaritySearch.open(tmp_path / "s")
    expected = search.search(text="chess computer", k=3)
    np.testing.assert_array_equal(opened.search(text="chess computer", k=3).ids, expected.ids)
    assert opened.encoder.name == "tfidf"


def test_a_function_must_be_passed_again(tmp_path):
    search = SimilaritySearch(LSH(n_bits=8, random_state=0), encoder=encode, folder=tmp_path / "s")
    search.fit(texts=["cat", "dog", "car"]).add(texts=["cat", "car"])
    opened = SimilaritySearch.open(tmp_path / "s")
    assert ids(opened.search(text="cat", by="words")) == [0]
    with pytest.raises(ValueError, match="encode cannot be loaded by a name; pass the model"):
        opened.search(text="cat", by="meaning")
    again = SimilaritySearch.open(tmp_path / "s", encoder=encode)
    assert again.search(text="cat", by="meaning", k=1).ids[0] == 0


def test_a_model_that_cannot_be_loaded_gets_a_line(tmp_path):
    search = SimilaritySearch(LSH(n_bits=8, random_state=0), encoder="model2vec:no/such/model")
    with pytest.raises(ValueError, match=r"the encoder model2vec:no/such/model (needs: pip install|cannot be loaded)"):
        search.fit(texts=["a", "b"])


@pytest.mark.parametrize("bad", [7, object(), [1]])
def test_what_is_no_encoder(bad):
    with pytest.raises(TypeError, match="encoder must be a name"):
        SimilaritySearch(LSH(n_bits=8), encoder=bad)


class TestImages:
    """An encoder of images: fit, add and search take pictures as paths, images of Pillow or arrays."""

    COLORS = (("red", (250, 5, 5)), ("green", (5, 250, 5)), ("blue", (5, 5, 250)), ("gray", (99, 99, 99)))

    @pytest.fixture(scope="class")
    @classmethod
    def files(cls, tmp_path_factory):
        image = pytest.importorskip("PIL.Image")
        folder = tmp_path_factory.mktemp("pictures")
        for name, color in cls.COLORS:
            image.new("RGB", (40, 30), color).save(folder / f"{name}.png")
        return [folder / f"{name}.png" for name, _ in cls.COLORS]

    @pytest.fixture(scope="class")
    @classmethod
    def search(cls, files):
        def mean_colors(pictures):
            return [np.asarray(picture).mean(axis=(0, 1)) for picture in pictures]

        search = SimilaritySearch(LSH(8, random_state=0), keep_vectors="float32", encoder=mean_colors)
        names = [name for name, _ in cls.COLORS]
        return search.fit(images=files).add(images=files, ids=names, texts=[f"a {name} wall" for name in names])

    def test_pictures_in_every_form(self, search, files):
        reddish = np.full((20, 20, 3), (200, 40, 30), np.uint8)
        image = pytest.importorskip("PIL.Image")
        for form in (reddish, image.fromarray(reddish), files[0], str(files[0]), files[0].read_bytes()):
            assert search.search(image=form, k=1).ids.tolist() == ["red"]
        assert search.search(image=[files[2], reddish], k=1).ids.tolist() == [["blue"], ["red"]]
        assert search.search(text="wall", image=files[1], k=1).ids.tolist() == ["green"]
        search.upsert(images=[reddish], ids=["brick"], texts=["bricks"])
        assert search.search(image=reddish, k=1).ids.tolist() == ["brick"]
        search.remove(["brick"])

    def test_an_encoder_of_images_is_saved_by_its_name(self, files, tmp_path):
        search = SimilaritySearch(LSH(8, random_state=0), keep_vectors="float32", encoder="gist")
        search.fit(images=files).add(images=files).save(tmp_path / "saved")
        again = SimilaritySearch.open(tmp_path / "saved")
        assert again.encoder.kind == "image"
        np.testing.assert_array_equal(again.search(image=files, k=2).ids, search.search(image=files, k=2).ids)
        with pytest.raises(ValueError, match="texts need an encoder of texts to become vectors, got 'gist'"):
            again.add(texts=["a wall"])
        with pytest.raises(ValueError, match="text needs texts or an encoder"):
            again.search(text="a wall")

    @pytest.mark.parametrize(
        ("images", "message"),
        [
            ("a.png", "images must be a list of pictures or of paths, got str"),
            ([3.5], r"arrays of uint8 of shape \(height, width, 3\), got float"),
            (["missing.png"], "missing.png"),
        ],
        ids=str,
    )
    def test_what_is_no_image(self, search, images, message):
        with pytest.raises((TypeError, ValueError, OSError), match=message):
            search.add(images=images)
        assert len(search) == 4

    def test_searches_that_cannot_see(self):
        with pytest.raises(ValueError, match="images need an encoder to become vectors"):
            SimilaritySearch(LSH(8)).fit(images=[np.zeros((4, 4, 3), np.uint8)])
        with pytest.raises(ValueError, match="images need an encoder of images to become vectors, got 'tfidf'"):
            SimilaritySearch(LSH(8), encoder="tfidf").fit(images=[np.zeros((4, 4, 3), np.uint8)])
        with pytest.raises(TypeError, match="X must be None where images are given"):
            SimilaritySearch(LSH(8), encoder="gist").fit(np.eye(3), images=[np.zeros((4, 4, 3), np.uint8)])
