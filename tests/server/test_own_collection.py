"""Files of a person as a search: made once, opened from the cache afterwards, made anew when the files change."""

import numpy as np
import pandas as pd
import pytest

from hashlearn.server import own_collection
from hashlearn.server.own_collection import (
    HowToHash,
    KnownOfRows,
    images_collection,
    texts_collection,
    vectors_collection,
)

Image = pytest.importorskip("PIL.Image")
HOW = HowToHash("lsh", 16)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HASHLEARN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "app"


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in "abcdef":
        Image.fromarray(rng.integers(0, 256, (40, 60, 3)).astype(np.uint8)).save(folder / f"{name}.png")
    (folder / "broken.png").write_bytes(b"no image")
    return folder


@pytest.fixture
def encoded(monkeypatch):
    """How often something was encoded and hashed."""
    calls = []
    made = own_collection._indexed
    monkeypatch.setattr(own_collection, "_indexed", lambda *arguments: (calls.append(1), made(*arguments))[1])
    return calls


def test_the_second_start_opens_what_the_first_made(photos, encoded, cache):
    first, second = images_collection(photos, HOW), images_collection(photos, HOW)
    assert len(encoded) == 1
    assert second.search.ids.tolist() == ["a.png", "b.png", "c.png", "d.png", "e.png", "f.png"]
    assert second.skipped == first.skipped
    assert [name for name, _ in second.skipped] == ["broken.png"]
    assert second.encoder.name == "gist"
    assert second.pictures.thumbnail("a.png") == first.pictures.thumbnail("a.png")


def test_changed_files_and_other_settings_are_encoded_anew_and_the_old_is_removed(photos, encoded, cache):
    images_collection(photos, HOW)
    Image.new("RGB", (30, 30)).save(photos / "new.png")
    assert "new.png" in images_collection(photos, HOW).search
    images_collection(photos, HowToHash("lsh", 24))
    assert len(encoded) == 3
    assert len(list(cache.iterdir())) == 1


def test_a_damaged_cache_is_made_anew(photos, encoded, cache):
    images_collection(photos, HOW)
    for path in next(cache.iterdir()).rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    assert len(images_collection(photos, HOW).search) == 6
    assert len(encoded) == 2


def test_the_first_neighbors_are_nearly_all_found_and_more_of_them_change_nothing(tmp_path):
    X = np.random.default_rng(0).normal(size=(3000, 32)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    search = vectors_collection(tmp_path / "x.npy", HowToHash("itq", 32)).search
    truth, found, more = (search.search(X[:50], k, **how).ids for k, how in [(24, {"recall": 1.0}), (24, {}), (60, {})])
    assert np.mean([len(np.intersect1d(*rows)) / 24 for rows in zip(truth, found)]) > 0.92
    assert (found == more[:, :24]).all()


def test_vectors_have_their_labels_and_pictures(tmp_path):
    X = np.random.default_rng(0).normal(size=(9, 20)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.arange(9) % 3)
    Image.new("RGB", (30, 30)).save(tmp_path / "sprite.png")
    made = vectors_collection(tmp_path / "x.npy", HOW, tmp_path / "y.npy", tmp_path / "sprite.png")
    (record,) = made.search.get([5])
    assert record.payload == {"label": 2}
    np.testing.assert_allclose(record.vector, X[5])
    assert made.pictures.thumbnail(8) is not None
    np.save(tmp_path / "y.npy", np.arange(8))
    with pytest.raises(ValueError, match="labels must have one label for each of the 9 vectors, got 8"):
        vectors_collection(tmp_path / "x.npy", HOW, tmp_path / "y.npy")


def test_vectors_have_the_ids_and_columns_of_a_table(tmp_path):
    X = np.random.default_rng(0).normal(size=(9, 20)).astype(np.float32)
    frame = pd.DataFrame({"key": [f"k{row}" for row in range(9)], "year": range(2000, 2009), "v": list(X)})
    frame.to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "y.npy", np.arange(9) % 3)
    place = str(tmp_path / "t.parquet")
    known = KnownOfRows(
        frame["key"].to_numpy(), [{"year": year} for year in frame["year"]], (f"{place}:key", f"{place}:year")
    )
    made = vectors_collection(f"{place}:v", HOW, tmp_path / "y.npy", known=known)
    (record,) = made.search.get(["k5"])
    assert record.payload == {"year": 2005, "label": 2}
    np.testing.assert_allclose(record.vector, X[5])
    assert vectors_collection(place, HOW).search.ids.tolist() == list(range(9))
    with pytest.raises(ValueError, match="payloads must be as many as the 9 vectors, got 1"):
        vectors_collection(place, HOW, tmp_path / "y.npy", known=KnownOfRows(payloads=[{}], places=(place,)))


def test_vectors_have_texts_that_are_searched_by_their_words(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(3, 20)))
    known = KnownOfRows(payloads=[{"text": text} for text in ("red fox", "blue sky", "red dog")], has_texts=True)
    made = vectors_collection(tmp_path / "x.npy", HOW, known=known)
    assert made.search.search(text="sky", k=1).ids.tolist() == [1]


def test_texts_have_the_ids_of_a_column(tmp_path):
    (tmp_path / "t.csv").write_text("t,key\nred fox,a\n,b\nblue sky,c\n")
    made = texts_collection(tmp_path / "t.csv", "t", HowToHash(), "key")
    assert made.search.ids.tolist() == ["a", "c"]
    with pytest.raises(ValueError, match="a column with a value in every row, 'other' has none in row 0"):
        texts_collection(tmp_path / "t.csv", "t", HowToHash(), "other")


def test_texts_are_searched_by_their_words_however_few_there_are(tmp_path):
    (tmp_path / "t.csv").write_text("t\nred fox\nred dog\nblue sky\nblue sea\n")
    made = texts_collection(tmp_path / "t.csv", "t", HowToHash())
    again = texts_collection(tmp_path / "t.csv", "t", HowToHash())
    np.testing.assert_array_equal(again.encoder.encode(["blue"]), made.encoder.encode(["blue"]))
    _, ids = again.search.search(again.encoder.encode(["blue"]), 2, rerank="vectors")
    assert sorted(ids[0].tolist()) == [2, 3]
