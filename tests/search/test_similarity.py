"""SimilaritySearch: hasher and index as one, in memory and on disk."""

import errno
import os
import shutil

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from hashlearn import ABH, ITQ, LSH, load
from hashlearn.index import HammingIndex
from hashlearn.search import SimilaritySearch, VectorFile, folder, vectors
from hashlearn.search.catalog import Catalog


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
    opened.add(X[:3], [1000, 1001, 1002])
    assert len(SimilaritySearch.open(tmp_path / "photos")) == 303
    for each in (opened, search):
        each.close()
    names = sorted(path.name.partition("-")[0] for path in (tmp_path / "photos").iterdir())
    assert names == ["acknowledged", "catalog.db", "codes", "hasher"]


def test_a_search_can_be_made_in_a_folder(X, tmp_path):
    search = SimilaritySearch(ITQ(n_bits=12, random_state=0), folder=tmp_path / "photos", keep_vectors="int8")
    assert search.folder is None
    search.fit(X).add(X[:7])
    assert search.folder == tmp_path / "photos"
    assert len(SimilaritySearch.open(tmp_path / "photos")) == 7
    with pytest.raises(ValueError, match=r"folder must be new or empty, got .*SimilaritySearch\.open"):
        SimilaritySearch(ITQ(), folder=tmp_path / "photos")
    fitted = SimilaritySearch(search.hasher, folder=tmp_path / "other").add(X[:3])
    assert (len(SimilaritySearch.open(tmp_path / "other")), fitted.folder) == (3, tmp_path / "other")


def test_a_folder_that_was_deleted_is_made_anew(X, search, tmp_path):
    search.save(tmp_path / "photos")
    other = SimilaritySearch.open(tmp_path / "photos")
    shutil.rmtree(tmp_path / "photos")
    other.save(tmp_path / "copy")
    assert len(SimilaritySearch.open(tmp_path / "copy")) == 300


def test_a_copy_is_another_search(X, search, tmp_path):
    """Whoever changes one of the two changes nothing in the other, and a search stays where it is."""
    search.save(tmp_path / "one")
    search.save(tmp_path / "other")
    assert search.folder == tmp_path / "one"
    search.remove([0])
    SimilaritySearch.open(tmp_path / "other").remove([1, 2])
    assert [len(SimilaritySearch.open(tmp_path / name)) for name in ("one", "other")] == [299, 298]


@pytest.mark.parametrize("keep_vectors", [None, "int8"])
@pytest.mark.parametrize("step", ["hasher", "codes", "vectors", "catalog"])
def test_a_change_that_fails_leaves_everything_as_it_was(X, tmp_path, step, keep_vectors, monkeypatch):
    search = SimilaritySearch(ITQ(n_bits=12, random_state=0), keep_vectors=keep_vectors).fit(X).add(X)
    search.save(tmp_path / "photos")
    found = search.search(X[:5], 3)

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = {
        "hasher": (folder, "save_new_hasher"),
        "codes": (folder, "write_table"),
        "vectors": (vectors, "write_at"),
        "catalog": (type(search._rows._catalog), "commit"),
    }[step]
    with monkeypatch.context() as patched:
        patched.setattr(*place, fail)
        changes = {
            "hasher": lambda: search.fit(X[::-1]),
            "codes": lambda: search.remove([7]).compact(),
            "vectors": lambda: search.upsert(X[:2] + 1, [3, 400]),
            "catalog": lambda: search.upsert(X[:2] + 1, [3, 400]),
        }
        if step != "vectors" or keep_vectors:
            with pytest.raises(OSError, match="No space"):
                changes[step]()
    gone = step == "codes"
    for each in (search, SimilaritySearch.open(tmp_path / "photos")):
        assert len(each) == 300 - gone
        if not gone:
            np.testing.assert_array_equal(each.search(X[:5], 3).ids, found.ids)
    search.add(X[:2])
    assert len(SimilaritySearch.open(tmp_path / "photos")) == 302 - gone


def test_a_folder_with_other_things_is_not_touched(search, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="folder must be new, empty or a saved similarity search"):
        search.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"it has no catalog\.db"):
        SimilaritySearch.open(tmp_path)
    assert contents(tmp_path).keys() == {(tmp_path / "notes.txt").relative_to(tmp_path)}


def test_a_folder_of_an_earlier_layout_is_refused_by_name(tmp_path):
    (tmp_path / "search.json").write_text("{}")
    for opened in (SimilaritySearch.open, load):
        with pytest.raises(ValueError, match="was saved by an earlier hashlearn"):
            opened(tmp_path)
    assert contents(tmp_path).keys() == {(tmp_path / "search.json").relative_to(tmp_path)}


def test_parts_of_another_search_are_refused(X, tmp_path):
    """Another hasher of equal length, other codes or vectors, or another catalog: not what was saved together."""
    for number, name in enumerate(["photos", "other"]):
        made = SimilaritySearch(ITQ(n_bits=12, random_state=number), keep_vectors="float32").fit(X).add(X)
        made.save(tmp_path / name)
        made.close()
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "photos", kept)
    parts = {path.name.partition("-")[0]: path for path in (tmp_path / "photos").iterdir()}
    for path in (tmp_path / "other").iterdir():
        part = parts[path.name.partition("-")[0]]
        if path.is_dir():
            shutil.copytree(path, part, dirs_exist_ok=True)
        else:
            shutil.copy(path, part)
        with pytest.raises(ValueError, match=str(tmp_path / "photos")) as caught:
            SimilaritySearch.open(tmp_path / "photos").get([0])
        assert "\n" not in str(caught.value)
        shutil.rmtree(tmp_path / "photos")
        shutil.copytree(kept, tmp_path / "photos")
    assert len(SimilaritySearch.open(tmp_path / "photos")) == 300


def test_a_vector_file_of_the_same_search_elsewhere_is_refused(X, tmp_path):
    made = SimilaritySearch(ITQ(n_bits=12, random_state=0), keep_vectors="float32").fit(X).add(X)
    made.save(tmp_path / "one")
    made.save(tmp_path / "copy")
    (one,), (copied,) = ((tmp_path / name).glob("vectors-*") for name in ("one", "copy"))
    assert VectorFile.open(one).layout.id != VectorFile.open(copied).layout.id


def test_a_read_only_folder_is_opened_for_reading(X, search, tmp_path):
    search.save(tmp_path / "photos")
    search.close()
    before = contents(tmp_path)
    reader = Catalog(tmp_path / "photos" / "catalog.db", read_only=True)
    assert reader.facts().n_rows == 300
    with pytest.raises(OSError, match="cannot be written"):
        reader.begin()
    reader.close()
    after = contents(tmp_path)
    assert {path: after[path] for path in before} == before


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


@pytest.mark.parametrize("hasher", [LSH(n_bits=8, random_state=0), ABH(n_bits=8, random_state=0)], ids=repr)
@pytest.mark.parametrize(
    "options", [{}, {"recall": 0.9}, {"recall": 1.0}, {"rerank": "vectors"}, {"include": "payload"}], ids=str
)
def test_a_search_without_rows_answers_as_one_whose_rows_were_removed(X, hasher, options):
    search = SimilaritySearch(hasher, keep_vectors="float16").fit(X)
    emptied = SimilaritySearch(hasher, keep_vectors="float16").fit(X).add(X[:3]).remove([0, 1, 2])
    for queries in (X[:2], X[0]):
        found, expected = (each.search(queries, 3, **options) for each in (search, emptied))
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.distances, expected.distances)
        assert (found.ids.max(), found.distances.dtype) == (-1, np.float32)
    assert len(search.within(X[0], 100.0).ids) == len(emptied.within(X[0], 100.0).ids) == 0
    for each in (search, emptied):
        with pytest.raises(ValueError, match="search must hold at least 2 vectors to be tuned, got 0"):
            each.tune()


def test_one_query_says_how_many_lists_were_probed_as_one_number(X):
    search = SimilaritySearch(LSH(n_bits=8, random_state=0), keep_vectors="float16").fit(X).add(X)
    for include in ((), "payload", ["payload", "vector"]):
        found = search.search(X[0], 3, recall=1.0, include=include)
        assert (found.recall, np.shape(found.probed), found.ids.shape) == (1.0, (), (3,))
