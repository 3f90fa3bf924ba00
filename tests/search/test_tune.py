"""The number of candidates that tune() chooses is one that reaches the target when you search with it."""

from importlib import import_module

import numpy as np
import pytest

from hashlearn import ITQ, SimilaritySearch
from hashlearn.codes.results import count_found
from hashlearn.search import Calibration, Tuning, VectorFile, nearest_vectors, tune


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(3000, 24)) @ rng.normal(size=(24, 32))).astype(np.float32)


@pytest.fixture(scope="module")
def search(X):
    return SimilaritySearch(ITQ(n_bits=24, random_state=0)).fit(X[:2800]).add(X[:2800])


def test_the_chosen_number_reaches_the_target_and_a_tenth_fewer_do_not(X, search):
    truth = nearest_vectors(X[:2800], X[2800:], 10).ids

    def recall(candidates):
        found = search.search(X[2800:], 10, candidates=candidates, rerank=X).ids
        return count_found(found, truth).mean() / 10

    tuning = tune(search, X[2800:], target_recall=0.9, vectors=X[:2800], other_n_bits=[])
    assert tuning.met
    assert recall(tuning.chosen) >= 0.9 > recall(int(tuning.chosen / 1.1) - 1)
    for candidates, measured in zip(tuning.candidates, tuning.recalls):
        assert recall(candidates) == pytest.approx(measured)


def test_queries_that_are_drawn_do_not_find_themselves(X, search):
    """With codes that tell nothing apart from the queries themselves, self-matches would be all the recall there is."""
    drawn = tune(search, target_recall=0.9, vectors=X, other_n_bits=[])
    given = tune(search, X[2800:], target_recall=0.9, vectors=X, other_n_bits=[])
    assert drawn.recalls[0] == pytest.approx(given.recalls[0], abs=0.05)
    assert drawn.recalls[0] < 0.5


def test_vectors_of_removed_rows_are_no_true_neighbors(X):
    search = SimilaritySearch(ITQ(n_bits=24, random_state=0)).fit(X).add(X).remove(np.arange(0, 3000, 2))
    tuning = tune(search, k=5, target_recall=1.0, vectors=X, other_n_bits=[], n_queries=50)
    assert tuning.met


def test_int8_vectors_are_tuned_by_what_they_keep(X):
    ids = np.random.default_rng(1).permutation(3000)
    search = SimilaritySearch(ITQ(n_bits=24, random_state=0)).fit(X).add(X[ids], ids)
    file = VectorFile.create(None, 32, "int8", Calibration.of(X)).add(X)
    tuning = tune(search, target_recall=0.95, vectors=file, other_n_bits=[])
    assert tuning.met
    of_view = tune(search, target_recall=0.95, vectors=file.view, other_n_bits=[])
    assert of_view.recalls == tuning.recalls


def test_longer_codes_need_fewer_candidates_and_the_verdict_says_so(X):
    search = SimilaritySearch(ITQ(n_bits=12, random_state=0)).fit(X).add(X)
    tuning = tune(search, target_recall=0.9, vectors=X)
    assert set(tuning.by_n_bits) == {24}, "ITQ has no codes of 48 bits for 32 features"
    assert tuning.by_n_bits[24] < tuning.chosen
    assert f"With n_bits=24 about {tuning.by_n_bits[24]} candidates would do." in str(tuning)


def test_the_estimate_for_another_length_is_near_what_that_length_needs(X, search, monkeypatch):
    monkeypatch.setattr(import_module("hashlearn.search.tune"), "_SAMPLE", 1000)
    about = tune(search, target_recall=0.9, vectors=X, other_n_bits=[32]).by_n_bits[32]
    longer = SimilaritySearch(ITQ(n_bits=32, random_state=0)).fit(X).add(X)
    assert about == pytest.approx(tune(longer, target_recall=0.9, vectors=X, other_n_bits=[]).chosen, rel=0.4)


def test_a_target_that_cannot_be_met_is_said_to_be(X, search):
    other = np.random.default_rng(5).normal(size=X.shape).astype(np.float32)
    tuning = tune(search, X[:50], k=1, target_recall=1.0, vectors=other, other_n_bits=[])
    assert not tuning.met
    assert "The target of 1 cannot be met with up to 1000 candidates" in str(tuning)


def test_a_tuning_survives_json():
    tuning = Tuning(10, 0.9, (10, 20), (0.5, 0.95), (0.1, 0.2), {64: 11})
    assert Tuning.from_dict(tuning.to_dict()) == tuning
    with pytest.raises(ValueError, match="a tuning must be as"):
        Tuning.from_dict({"k": 10})


def test_the_plot_is_a_picture_of_the_kind_that_its_name_says(tmp_path):
    tuning = Tuning(10, 0.9, (10, 20), (0.5, 0.95), (0.1, 0.2))
    tuning.plot(tmp_path / "curve.png")
    tuning.plot(tmp_path / "curve.svg")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "curve.svg").read_bytes()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("target_recall must be at most 1, got 1.5", {"target_recall": 1.5}),
        ("target_recall must be at least 0, got -0.1", {"target_recall": -0.1}),
        ("target_recall must be above 0 and at most 1, got 0", {"target_recall": 0}),
        ("k must be at least 1, got 0", {"k": 0}),
        ("k must be at most 2799, got 2800", {"k": 2800}),
        ("n_queries must be at least 1, got 0", {"n_queries": 0}),
        ("vectors must have a row for every id, got 5 rows for id 2799", {"vectors": np.ones((5, 32))}),
    ],
)
def test_bad_input_is_named(X, search, words, options):
    with pytest.raises(ValueError, match=words):
        tune(search, **{"vectors": X[:2800], **options})


def test_a_search_without_vectors_cannot_be_tuned(X):
    with pytest.raises(ValueError, match="search must hold at least 2 vectors to be tuned, got 0"):
        tune(SimilaritySearch(ITQ(n_bits=8).fit(X)), vectors=X)
