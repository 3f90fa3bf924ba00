"""Which method to take: measured on a sample, for two jobs."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn.recommend import Trial, recommend
from hashlearn.recommend.plot import recommendation_svg
from hashlearn.recommend.trials import shortest_above, shortest_of_best


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def found(digits):
    return recommend(*digits, n_bytes=4, sample=1000)


def test_codes_by_meaning_and_by_neighborhood_are_different_methods(found):
    assert found.by_meaning.method in ("jpsh", "sah")
    assert found.by_meaning.measures["mAP"] > found.floats["mAP"]
    assert found.by_neighborhood.real_queries
    assert (found.n_rows, found.n_queries, found.n_features) == (900, 100, 64)


def test_the_cosine_of_float_vectors_does_not_depend_on_their_lengths(digits, found):
    lengths = np.random.default_rng(0).uniform(0.1, 10, (len(digits[0]), 1))
    stretched = recommend(digits[0] * lengths, digits[1], n_bytes=1, sample=1000)
    assert stretched.floats_by_cosine["mAP"] == pytest.approx(found.floats_by_cosine["mAP"], abs=1e-5)
    assert stretched.floats["mAP"] < stretched.floats_by_cosine["mAP"] - 0.05
    assert [line.split("  ")[0] for line in found.table().splitlines()[1:3]] == [
        "float vectors",
        "float vectors, cosine",
    ]


def test_no_code_takes_more_bytes_than_asked(found):
    assert {trial.n_bytes for trial in found.trials} == {2, 4}


def test_one_byte_is_too_short_for_bits_and_a_correction(digits):
    found = recommend(*digits, n_bytes=1, sample=300)
    assert {trial.n_bytes for trial in found.trials} == {1}
    assert "ABH, real queries: a code takes at least 2 bytes" in found.problems


def test_without_labels_only_neighborhoods_are_judged(digits):
    found = recommend(digits[0], n_bytes=2, sample=300)
    assert found.by_meaning is None
    assert found.above_floats is None
    assert found.by_neighborhood.measures["recall_at_10"] > 0
    assert "mAP" not in found.table()


def test_lengths_a_method_does_not_have_are_a_problem_and_no_error(digits):
    found = recommend(*digits, n_bytes=16, sample=300)
    assert any(problem.startswith("ITQ: n_bits=128") for problem in found.problems)
    assert {trial.n_bits for trial in found.trials if trial.method == "itq"} == {64}
    assert {trial.method for trial in found.trials} >= {"jpsh", "sah"}


def test_the_shortest_code_that_is_nearly_as_good_is_taken():
    def trial(title, n_bits, value):
        return Trial(title, title, False, n_bits, n_bits // 8, {"mAP": value}, 0.0)

    trials = [trial("a", 32, 0.698), trial("a", 64, 0.70), trial("b", 32, 0.699), trial("b", 64, 0.60)]
    assert shortest_of_best(trials, "mAP") == trials[0]
    assert shortest_of_best([trials[1], trial("a", 32, 0.69)], "mAP") == trials[1]


def test_a_code_is_above_the_float_vectors_by_both_measures_or_not_at_all():
    def trial(n_bits, mean, precision):
        measures = {"mAP": mean, "precision_at_100": precision}
        return Trial("a", "a", False, n_bits, n_bits // 8, measures, 0.0)

    floats = {"mAP": 0.2, "precision_at_100": 0.3}
    less_precise, little_mean, both, longer = (
        trial(32, 0.4, 0.29),
        trial(32, 0.22, 0.5),
        trial(64, 0.24, 0.3),
        trial(128, 0.5, 0.5),
    )
    every = [less_precise, little_mean, longer, both]
    assert shortest_above(every, floats) == both
    assert shortest_above([less_precise, little_mean], floats) is None
    by_cosine = {"mAP": 0.25, "precision_at_100": 0.1}
    assert shortest_above(every, floats, by_cosine) == longer  # the better order of the float vectors counts
    assert shortest_above([trial(8, 0.0, 0.0)], {"mAP": 0.0, "precision_at_100": 0.0}) is None


def test_above_the_float_vectors_is_one_of_the_trials(found):
    assert found.above_floats in found.trials
    assert found.above_floats.measures["mAP"] >= 1.15 * found.of_floats("mAP")
    assert found.of_floats("mAP") == max(found.floats["mAP"], found.floats_by_cosine["mAP"])


def test_it_can_be_written_and_drawn(found):
    assert json.loads(found.to_json())["by_meaning"]["n_bits"] == found.by_meaning.n_bits
    assert b"by neighborhood" in recommendation_svg(found) or b"<svg" in recommendation_svg(found)
    assert f"--bits {found.by_meaning.n_bits} " in found.by_meaning.commands("x.npy")[0]


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (50, {}, "vectors must have at least 100 rows, got 50"),
        (200, {"n_bytes": 0}, "n_bytes must be at least 1"),
        (200, {"labels": np.zeros(3)}, "labels must be as many as the vectors, got 3 for 200"),
    ],
)
def test_what_cannot_be_tried_is_refused(digits, rows, arguments, message):
    with pytest.raises(ValueError, match=message):
        recommend(digits[0][:rows], **arguments)
