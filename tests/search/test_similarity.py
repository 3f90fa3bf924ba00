"""SimilaritySearch: hasher and index as one, in memory and on disk."""

import errno
import json
import os
import shutil

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from hashlearn import ITQ, LSH
from hashlearn.durable import generations
from hashlearn.index import HammingIndex
from hashlearn.search import SimilaritySearch, search_folder


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
    found = search.search(X[:20], 5, rerank=X, candidates=300)
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
    assert len(list((tmp_path / "photos").iterdir())) == 2


@pytest.mark.parametrize("step", ["hasher", "codes", "manifest"])
def test_a_save_that_fails_leaves_the_folder_as_it_was(X, search, tmp_path, step, monkeypatch):
    folder = tmp_path / "photos"
    search.save(folder)
    before = contents(folder)

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = {
        "hasher": (search_folder, "save_hasher"),
        "codes": (HammingIndex, "save"),
        "manifest": (generations, "write_text"),
    }[step]
    monkeypatch.setattr(*place, fail)
    with pytest.raises(OSError, match="No space"):
        search.fit(X).add(X).save(folder)
    assert contents(folder) == before


def test_a_folder_with_other_things_is_not_touched(search, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="folder must be new, empty or a saved hashlearn similarity search"):
        search.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"it has no search\.json"):
        SimilaritySearch.open(tmp_path)
    assert contents(tmp_path).keys() == {(tmp_path / "notes.txt").relative_to(tmp_path)}


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "hashlearn similarity search", "format_version": 9}'])
def test_a_manifest_that_is_not_ours_is_refused(search, tmp_path, text):
    search.save(tmp_path / "photos")
    (tmp_path / "photos" / "search.json").write_text(text)
    with pytest.raises(ValueError, match=r"search\.json"):
        SimilaritySearch.open(tmp_path / "photos")


def test_a_manifest_cannot_point_outside_its_folder(search, tmp_path):
    search.save(tmp_path / "photos")
    manifest = {"format": "hashlearn similarity search", "format_version": 1, "hasher": "../hasher-01234567"}
    (tmp_path / "photos" / "search.json").write_text(json.dumps(manifest | {"codes": "codes-01234567.hli"}))
    with pytest.raises(ValueError, match="names no hasher and codes of its folder"):
        SimilaritySearch.open(tmp_path / "photos")


def test_a_folder_of_the_first_version_is_opened_and_saved_to(X, search, tmp_path):
    search.hasher.save(tmp_path / "hasher-0a1b2c3d")
    search.index.save(tmp_path / "codes-0a1b2c3d.hli")
    manifest = {"format": "hashlearn similarity search", "format_version": 1, "hasher": "hasher-0a1b2c3d"}
    (tmp_path / "search.json").write_text(json.dumps(manifest | {"codes": "codes-0a1b2c3d.hli"}))
    (tmp_path / "hasher-backup").mkdir()
    (tmp_path / "codes-2024.hli").write_text("mine")
    opened = SimilaritySearch.open(tmp_path)
    np.testing.assert_array_equal(opened.search(X[:5]).ids, search.search(X[:5]).ids)
    opened.save(tmp_path)
    assert len(SimilaritySearch.open(tmp_path)) == 300
    left = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("generation-"))
    assert left == ["codes-2024.hli", "hasher-backup", "search.json"]


def test_parts_of_another_search_are_refused(X, search, tmp_path):
    """Another hasher of equal length, or other codes of the same one: not what was saved together."""
    other = SimilaritySearch(ITQ(n_bits=12, random_state=1)).fit(X).add(X)
    fewer = SimilaritySearch(search.hasher).add(X[:100])
    for name, each in {"photos": search, "other": other, "fewer": fewer}.items():
        each.save(tmp_path / name)
    place = {path.parent.name: path for path in tmp_path.glob("*/generation-*")}
    shutil.copytree(place["photos"], tmp_path / "kept")
    for source, part in [("other", "hasher"), ("other", "codes.hli"), ("fewer", "codes.hli")]:
        copy = shutil.copytree if part == "hasher" else shutil.copy
        copy(place[source] / part, place["photos"] / part, **({"dirs_exist_ok": True} if part == "hasher" else {}))
        with pytest.raises(ValueError, match="than was saved there"):
            SimilaritySearch.open(tmp_path / "photos")
        shutil.copytree(tmp_path / "kept", place["photos"], dirs_exist_ok=True)
    assert len(SimilaritySearch.open(tmp_path / "photos")) == 300


def test_a_pipeline_is_saved_and_opened_with_its_codes(X, tmp_path):
    pipeline = make_pipeline(Normalizer(), PCA(n_components=12, random_state=0), ITQ(n_bits=12, random_state=0))
    search = SimilaritySearch(pipeline).fit(X).add(X)
    search.save(tmp_path / "photos")
    opened = SimilaritySearch.open(tmp_path / "photos")
    for rerank in (None, "asymmetric", X):
        np.testing.assert_array_equal(opened.search(X[:5], rerank=rerank).ids, search.search(X[:5], rerank=rerank).ids)


def test_a_fit_that_is_interrupted_changes_nothing(X, search, monkeypatch):
    """Neither the hasher nor the codes."""
    found = search.search(X[:5]).ids

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ITQ, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X[::-1] * 2)
    np.testing.assert_array_equal(search.search(X[:5]).ids, found)


def test_bad_input_is_named(X, search):
    with pytest.raises(TypeError, match="hasher must be a hasher such as"):
        SimilaritySearch("ITQ")
    with pytest.raises(ValueError, match="or an array, got 'exact'"):
        search.search(X[:1], rerank="exact")
    with pytest.raises(ValueError, match="candidates must be at least 1"):
        search.search(X[:1], candidates=0, rerank="asymmetric")
    with pytest.raises(NotFittedError):
        SimilaritySearch(LSH(n_bits=8)).add(X)


def test_payloads_are_in_the_order_of_the_ids():
    X = np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32)
    search = SimilaritySearch(ITQ(n_bits=8, random_state=0)).fit(X).add(X)
    assert search.payloads([3, 99]) == [{}, None]
    search.upsert(X[:2], [3, 5], [{"a": 1}, {"b": 2}])
    assert search.payloads([5, 99, 3, 4]) == [{"b": 2}, None, {"a": 1}, {}]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_encode_gives_the_codes_that_are_kept(metric):
    X = 3 + np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    search = SimilaritySearch(ITQ(n_bits=8, random_state=0), metric=metric).fit(X).add(X)
    np.testing.assert_array_equal(search.encode(X), [record.code for record in search.get(range(50))])
