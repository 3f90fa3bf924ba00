"""A method for real queries is judged by the order of its estimates."""

import numpy as np
import pytest

from hashlearn import ITQ, METHODS
from hashlearn.codes import Corrections, unpack
from hashlearn.experiments import ResultFolder, read_experiment, run_experiment
from hashlearn.experiments.cache import CachedData
from hashlearn.experiments.judge import neighbor_hits, vectors_of_estimates
from hashlearn.metrics import true_neighbors

GRID = "datasets = ['digits']\nbits = [16]\nruns = 1\n"


class Asymmetric(ITQ):
    """ITQ for real queries, with a correction that spoils the ranking of some rows."""

    def query_weights(self, X):
        return -self.decision_function(X)

    def corrections(self, X, codes):
        return Corrections.of(np.where(np.arange(len(X)) % 2, 1e6, 0.0), scale=1e4, offset=0.0)


@pytest.fixture
def measures_of(tmp_path):
    def measures_of(text):
        (tmp_path / "real.toml").write_text(GRID + text)
        run_experiment(read_experiment(tmp_path / "real.toml"), tmp_path / "r", workers=1)
        return [line["measures"] for line in ResultFolder(tmp_path / "r").lines(["digits"])]

    return measures_of


def test_vectors_have_the_order_of_the_estimates():
    rng = np.random.default_rng(0)
    codes, corrections = rng.integers(0, 256, (300, 3), dtype=np.uint8), rng.normal(size=300) * 3
    weights = rng.normal(size=(20, 24))
    estimates = weights @ (2.0 * unpack(codes, 24).T - 1) + corrections
    vectors = vectors_of_estimates(weights, codes, 24, corrections)
    assert np.array_equal(true_neighbors(*vectors, 10), np.argsort(estimates, axis=1, kind="stable")[:, :10])


def test_hits_are_counted_among_the_first():
    ranked = np.arange(200).reshape(1, -1)[:, :100]
    assert neighbor_hits(ranked, np.array([[3, 9, 10, 99, 150]])).tolist() == [2, 4]


def test_real_queries_rank_better_than_codes(measures_of):
    codes, real = measures_of("methods = ['itq', 'real']\n[method.real]\nmethod = 'itq'\nranking = 'real'\n")
    assert real["recall_at_10"] > codes["recall_at_10"] + 0.05
    assert real["mAP"] > codes["mAP"]


def test_a_method_made_for_real_queries_is_ranked_by_them(measures_of, monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "asymmetric", Asymmetric)
    (spoiled,) = measures_of("methods = ['asymmetric']\n")
    data = CachedData(next(path for path in (tmp_path / "r" / "cache").iterdir() if path.is_dir()))
    even = np.mean(data.neighbors() % 2 == 0)
    assert 0 < spoiled["recall_at_100"] <= even  # rows of odd number come last
