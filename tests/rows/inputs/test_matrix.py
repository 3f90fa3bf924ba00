"""Every form x every entry point: what comes out is what the plain array gives."""

from collections.abc import Callable, Iterator
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from input_forms import INTEGERS, ONE_VECTOR, PAYLOADS, PLAIN_PAYLOADS, STRINGS, VECTORS, N, X

from hashlearn import ITQ, JPSH, SimilaritySearch, evaluate, find_duplicates
from hashlearn.adapters.documents import DocumentSearch
from hashlearn.adapters.sklearn_neighbors import HashNeighborsTransformer
from hashlearn.duplicates import check_against
from hashlearn.features.pca import PCA
from hashlearn.hashers.lengths import fit_lengths
from hashlearn.metrics import evaluate_vectors, true_neighbors
from hashlearn.metrics.neighbors import score_vectors
from hashlearn.metrics.relevance import relevance_of_labels
from hashlearn.recommend import recommend
from hashlearn.rows import as_rows, as_vectors
from hashlearn.rows.inputs import as_ids, as_matrix, as_payloads, ids_are_text, payload_of
from hashlearn.stores import load_codes, open_store

LABELS = np.arange(N) % 3


@cache
def itq() -> ITQ:
    return ITQ(n_bits=8, random_state=0).fit(X)


@cache
def codes() -> np.ndarray:
    return itq().transform(X)


@cache
def search() -> SimilaritySearch:
    return SimilaritySearch(itq(), metric="cosine", keep_vectors="float32").fit(X).add(X)


def stored(tmp_path: Any, vectors: Any) -> np.ndarray:
    with open_store(f"sqlite:///{tmp_path}/a.db", 8, n_features=X.shape[1], create=True) as store:
        store.upsert(np.arange(N), codes(), vectors)
        return store.vectors(np.arange(N))


def loaded(tmp_path: Any, vectors: Any) -> np.ndarray:
    with open_store(f"duckdb://{tmp_path}/a.duckdb", 8, n_features=X.shape[1], create=True) as store:
        load_codes(store, codes(), vectors=vectors, block_rows=25)
        return store.vectors(np.arange(N))


ENTRIES: dict[str, Callable[[Any, Any], Any]] = {
    "as_vectors": lambda form, tmp_path: as_rows(as_vectors(form).rows).take(np.arange(N)),
    "as_matrix": lambda form, tmp_path: as_matrix(form).astype(np.float32),
    "as_rows": lambda form, tmp_path: as_rows(form).take(np.arange(N)),
    "ITQ.fit": lambda form, tmp_path: ITQ(n_bits=8, random_state=0).fit(form).projection_.astype(np.float32),
    "JPSH.fit": lambda form, tmp_path: JPSH(n_bits=8, n_anchors=10, random_state=0).fit(form).projection_,
    "fit_lengths": lambda form, tmp_path: fit_lengths(ITQ(random_state=0), form, (4, 8))[0].projection_,
    "transform": lambda form, tmp_path: itq().transform(form),
    "decision_function": lambda form, tmp_path: itq().decision_function(form),
    "transform_blocks": lambda form, tmp_path: np.concatenate([block for _, block in itq().transform_blocks(form)]),
    "PCA.of": lambda form, tmp_path: PCA.of(form, 4).directions,
    "true_neighbors": lambda form, tmp_path: true_neighbors(form, X[:5], 3),
    "true_neighbors, queries": lambda form, tmp_path: true_neighbors(X, form, 3),
    "evaluate": lambda form, tmp_path: (
        evaluate(codes(), codes(), n_bits=8, vectors=form, query_vectors=form, k=5).neighbor_recall
    ),
    "evaluate_vectors": lambda form, tmp_path: evaluate_vectors(form, form, labels=LABELS, query_labels=LABELS).mAP,
    "score_vectors": lambda form, tmp_path: (
        score_vectors(form, form, relevance_of_labels(LABELS, LABELS)).average_precision
    ),
    "find_duplicates": lambda form, tmp_path: find_duplicates(form, 0.6).pairs,
    "check_against": lambda form, tmp_path: check_against(form, X[:9], 0.6).distances,
    "store.upsert": lambda form, tmp_path: stored(tmp_path, form),
    "kneighbors of scikit-learn": lambda form, tmp_path: HashNeighborsTransformer().fit(form).kneighbors(form)[1],
    "DocumentSearch.put": lambda form, tmp_path: documents_of(form),
}
"""Every function that takes vectors. A result is made of a form and of a folder."""

RARE_ENTRIES: dict[str, Callable[[Any, Any], Any]] = {
    "load_codes": lambda form, tmp_path: loaded(tmp_path, form),
}
"""Tried with the forms of SLICED only, which give a part of themselves for a slice."""
SLICED = [
    "list of lists",
    "pandas wide",
    "pandas Series of arrays",
    "polars Array",
    "pyarrow in pieces",
    "datasets.Dataset",
]

ONE_VECTOR_ENTRIES: dict[str, Callable[[Any], Any]] = {
    "as_vectors": lambda form: as_vectors(form).rows,
    "as_matrix": as_matrix,
}
"""Functions that take one vector, and their result of the matrix of one row is the same."""

ID_ENTRIES: dict[str, Callable[[Any, Any], Any]] = {
    "as_ids": lambda ids, tmp_path: as_ids(ids),
    "find_duplicates": lambda ids, tmp_path: find_duplicates(X[[0, 0, 1]], 0.01, ids=ids).groups[0].members,
}
"""Functions that take three ids."""

PAYLOAD_ENTRIES: dict[str, Callable[[Any, Any], Any]] = {
    "as_payloads": lambda payloads, tmp_path: [payload_of(text) for text in as_payloads(payloads, 2)],
    "store.upsert": lambda payloads, tmp_path: put(tmp_path, payloads),
}
"""Functions that take two payloads."""


SEARCH_TAKES = ("vectors", "one vector", "ids", "payloads")
"""What SimilaritySearch takes in every form: of "vectors", "one vector", "ids", "payloads"."""

if "vectors" in SEARCH_TAKES:
    ENTRIES |= {
        "search.fit": lambda form, tmp_path: SimilaritySearch(ITQ(8, random_state=0)).fit(form).encode(X),
        "search.add": lambda form, tmp_path: SimilaritySearch(itq(), metric="cosine").add(form).search(X, 3).ids,
        "search.upsert": lambda form, tmp_path: SimilaritySearch(itq()).upsert(form, np.arange(N)).search(X, 3).ids,
        "search.search": lambda form, tmp_path: search().search(form, 3).ids,
        "search.within": lambda form, tmp_path: search().within(form, 0.5).ids,
        "search.encode": lambda form, tmp_path: search().encode(form),
        "search.kneighbors": lambda form, tmp_path: search().kneighbors(form, 3)[1],
        "search.tune": lambda form, tmp_path: search().tune(form, 3, keep=False).recalls,
    }
if "one vector" in SEARCH_TAKES:
    ONE_VECTOR_ENTRIES |= {
        "search.search": lambda form: np.ravel(search().search(form, 3).ids),
        "search.within": lambda form: np.ravel(search().within(form, 0.5).ids),
        "search.encode": lambda form: np.ravel(search().encode(form)),
        "search.kneighbors": lambda form: search().kneighbors(form, 3)[1],
        "DocumentSearch.nearest": lambda form: [each.id for each in DocumentSearch(search()).nearest(form, 3)],
    }
if "ids" in SEARCH_TAKES:
    ID_ENTRIES |= {
        "search.add": lambda ids, tmp_path: SimilaritySearch(itq()).add(X[:3], ids).search(X[:3], 1).ids,
        "search.upsert": lambda ids, tmp_path: SimilaritySearch(itq()).upsert(X[:3], ids).search(X[:3], 1).ids,
        "search.get": lambda ids, tmp_path: [record.id for record in of_both_kinds(ids, "get")],
        "search.payloads": lambda ids, tmp_path: of_both_kinds(ids, "payloads"),
        "search.remove": lambda ids, tmp_path: len(of_both_kinds(ids, "remove")),
    }
if "payloads" in SEARCH_TAKES:
    PAYLOAD_ENTRIES |= {
        "search.add": lambda payloads, tmp_path: of_payloads(SimilaritySearch.add, payloads),
        "search.upsert": lambda payloads, tmp_path: of_payloads(SimilaritySearch.upsert, payloads),
    }


def documents_of(form: Any) -> list[str]:
    """The rows of a search of the adapters, in the order of their nearness to the first one."""
    rows = DocumentSearch()
    rows.put([f"row {row}" for row in range(N)], form, [{}] * N)
    return [found.id for found in rows.nearest(X[0], N)]


def of_both_kinds(ids: Any, method: str) -> Any:
    """What a method gives for these ids, of a search that has ids of their kind."""
    if isinstance(ids, Iterator):
        ids = list(ids)
    known = ["a c", "b", "é"] if ids_are_text(as_ids(ids)) else [3, 7, 900]
    return getattr(SimilaritySearch(itq()).add(X[:3], known), method)(ids)


def of_payloads(change: Callable[..., SimilaritySearch], payloads: Any) -> Any:
    return change(SimilaritySearch(itq()), X[:2], [5, 6], payloads).payloads([5, 6])


def put(tmp_path: Any, payloads: Any) -> list[dict[str, Any]]:
    with open_store(f"sqlite:///{tmp_path}/a.db", 8, create=True) as store:
        store.upsert([0, 1], codes()[:2], payloads=payloads)
        return [record.payload for record in store.get([0, 1])]


@cache
def expected(entry: str) -> Any:
    with TemporaryDirectory() as folder:
        return (ENTRIES | RARE_ENTRIES)[entry](X, folder)


def agrees(found: Any, wanted: Any) -> None:
    """Whole numbers are equal; real ones but for the rounding of float32, for some forms are float64."""
    if np.asarray(wanted).dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("form", VECTORS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_vectors(entry, form, tmp_path):
    agrees(ENTRIES[entry](VECTORS[form](X), tmp_path), expected(entry))


@pytest.mark.parametrize("form", SLICED)
@pytest.mark.parametrize("entry", RARE_ENTRIES)
def test_vectors_by_slices(entry, form, tmp_path):
    agrees(RARE_ENTRIES[entry](VECTORS[form](X), tmp_path), expected(entry))


@pytest.mark.parametrize("form", ONE_VECTOR)
@pytest.mark.parametrize("entry", ONE_VECTOR_ENTRIES)
def test_one_vector(entry, form):
    call = ONE_VECTOR_ENTRIES[entry]
    np.testing.assert_array_equal(call(ONE_VECTOR[form](X[0])), call(X[:1]))


@pytest.mark.parametrize(("form", "make"), [*INTEGERS.items()])
@pytest.mark.parametrize("entry", ID_ENTRIES)
def test_integers_as_ids(entry, form, make, tmp_path):
    found = ID_ENTRIES[entry](make([7, 3, 900]), tmp_path)
    np.testing.assert_array_equal(found, ID_ENTRIES[entry](np.array([7, 3, 900]), tmp_path))


@pytest.mark.parametrize(("form", "make"), [*STRINGS.items()])
@pytest.mark.parametrize("entry", ID_ENTRIES)
def test_strings_as_ids(entry, form, make, tmp_path):
    found = ID_ENTRIES[entry](make(["b", "é", "a c"]), tmp_path)
    np.testing.assert_array_equal(found, ID_ENTRIES[entry](["b", "é", "a c"], tmp_path))


@pytest.mark.parametrize("form", PAYLOADS)
@pytest.mark.parametrize("entry", PAYLOAD_ENTRIES)
def test_payloads(entry, form, tmp_path):
    assert PAYLOAD_ENTRIES[entry](PAYLOADS[form](), tmp_path) == PLAIN_PAYLOADS


@cache
def recommended(form: str) -> Any:
    rows = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    rows = VECTORS[form](rows) if form in VECTORS else rows
    return recommend(rows, n_bytes=2, sample=150).by_neighborhood.measures


@pytest.mark.parametrize("form", ["float64", "pandas Series of arrays", "pyarrow in pieces"])
def test_recommend(form):
    assert recommended(form) == recommended("the plain array")
