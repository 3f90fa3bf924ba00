"""SimilaritySearch: hasher and index as one, in memory and on disk."""

import errno
import os

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from hashlearn import ITQ, LSH
from hashlearn.search import HammingIndex, SimilaritySearch, similarity


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(300, 16))


@pytest.fixture
def search(X):
    return SimilaritySearch(ITQ(n_bits=12, random_state=0)).fit(X).add(X)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_finds_what_hasher_and_index_find(X, search):
    codes = search.hasher.transform(X)
    wanted = HammingIndex(12).add(codes).search(codes[:5], 9)
    found = search.search(X[:5], 9)
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_array_equal(found.distances, wanted.distances)
    assert search.search(X[:5], 9, subset=[7, 8], n_jobs=2).ids[:, 2:].max() == -1
    assert len(search.remove([0, 1])) == 298


def test_exact_reranking_of_all_is_brute_force(X, search):
    found = search.search(X[:20], 5, rerank=X, candidates=100)
    distances = np.linalg.norm(X[:20, None] - X, axis=2)
    np.testing.assert_array_equal(found.ids, np.argsort(distances, axis=1)[:, :5])


def test_a_new_fit_drops_the_codes_of_the_old(X, search):
    assert len(search.fit(X[:100])) == 0


def test_what_is_saved_is_opened(X, search, tmp_path):
    search.save(tmp_path / "photos")
    opened = SimilaritySearch.open(tmp_path / "photos")
    for one, other in zip(opened.search(X[:5], rerank="asymmetric"), search.search(X[:5], rerank="asymmetric")):
        np.testing.assert_array_equal(one, other)
    opened.add(X[:3], [1000, 1001, 1002]).save(tmp_path / "photos")
    assert len(SimilaritySearch.open(tmp_path / "photos")) == 303
    assert len(list((tmp_path / "photos").iterdir())) == 3


@pytest.mark.parametrize("step", ["hasher", "codes", "manifest"])
def test_a_save_that_fails_leaves_the_folder_as_it_was(X, search, tmp_path, step, monkeypatch):
    folder = tmp_path / "photos"
    search.save(folder)
    before = contents(folder)

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = {"hasher": (ITQ, "save"), "codes": (HammingIndex, "save"), "manifest": (similarity, "write_text")}[step]
    monkeypatch.setattr(*place, fail)
    with pytest.raises(OSError, match="No space"):
        search.add(X).save(folder)
    assert contents(folder) == before


def test_a_folder_with_other_things_is_not_touched(search, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="folder must be new, empty or a saved search"):
        search.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"it has no search\.json"):
        SimilaritySearch.open(tmp_path)
    assert contents(tmp_path).keys() == {(tmp_path / "notes.txt").relative_to(tmp_path)}


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "hashlearn similarity search", "format_version": 7}'])
def test_a_manifest_that_is_not_ours_is_refused(search, tmp_path, text):
    search.save(tmp_path / "photos")
    (tmp_path / "photos" / "search.json").write_text(text)
    with pytest.raises(ValueError, match=r"search\.json"):
        SimilaritySearch.open(tmp_path / "photos")


def test_a_manifest_cannot_point_outside_its_folder(search, tmp_path):
    search.save(tmp_path / "photos")
    manifest = tmp_path / "photos" / "search.json"
    manifest.write_text(manifest.read_text().replace('"hasher-', '"../hasher-'))
    with pytest.raises(ValueError, match="names no hasher of its folder"):
        SimilaritySearch.open(tmp_path / "photos")


def test_bad_input_is_named(X, search):
    with pytest.raises(TypeError, match="hasher must be a Hasher"):
        SimilaritySearch("ITQ")
    with pytest.raises(ValueError, match="rerank must be None, 'asymmetric' or the vectors"):
        search.search(X[:1], rerank="exact")
    with pytest.raises(ValueError, match="candidates must be at least 1"):
        search.search(X[:1], candidates=0, rerank="asymmetric")
    with pytest.raises(NotFittedError):
        SimilaritySearch(LSH(n_bits=8)).add(X)
