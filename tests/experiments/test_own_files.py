"""An experiment on files of your own says what the library says of the same arrays."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import LSH, evaluate
from hashlearn.experiments import ResultFolder, read_experiment, run_experiment
from hashlearn.experiments.cache import source_data
from hashlearn.metrics import true_neighbors

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)


@pytest.fixture
def write(tmp_path):
    np.save(tmp_path / "x.npy", X[200:])
    np.save(tmp_path / "q.npy", X[:200])
    np.savez(tmp_path / "y.npz", kinds=Y[200:], asked=Y[:200])
    np.save(tmp_path / "names.npy", np.array([f"digit {label}" for label in Y]))

    def write(dataset):
        path = tmp_path / "own.toml"
        path.write_text(
            "datasets = ['own']\nmethods = ['lsh']\nbits = [32]\nruns = 1\nreference = true\n[dataset.own]\n" + dataset
        )
        return read_experiment(path)

    return write


def lines_of(experiment, folder):
    run_experiment(experiment, folder, workers=1)
    return {line["config"]["method"]: line for line in ResultFolder(folder).lines(["own"])}


FOUR_FILES = """
features = "x.npy"
labels = { file = "y.npz", array = "kinds" }
queries = "q.npy"
query_labels = { file = "y.npz", array = "asked" }
"""


def test_vectors_labels_and_queries_from_files(write, tmp_path):
    lines = lines_of(write(FOUR_FILES), tmp_path / "r")
    lsh = LSH(32, random_state=0).fit(X[200:])
    codes, query_codes = lsh.transform(X[200:]), lsh.transform(X[:200])
    judged = evaluate(
        codes,
        query_codes,
        32,
        query_labels=Y[:200],
        labels=Y[200:],
        neighbors=true_neighbors(X[200:], X[:200], 10),
    )
    measures = lines["lsh"]["measures"]
    assert measures["mAP"] == pytest.approx(judged.mAP, abs=1e-6)
    assert measures["precision_at_1"] == pytest.approx(judged.precision_at[0], abs=1e-6)
    assert measures["recall_at_10"] == pytest.approx(judged.neighbor_recall, abs=1e-6)
    assert measures["recall_at_10"] < measures["recall_at_100"] <= 1
    assert lines["float"]["measures"]["recall_at_100"] == 1
    assert lines["lsh"]["data"] == lines["float"]["data"]
    assert (lines["lsh"]["data"]["n_database"], lines["lsh"]["data"]["n_queries"]) == (1597, 200)


def test_without_labels_neighbors_are_judged(write, tmp_path):
    lines = lines_of(write("features = 'x.npy'\nqueries = 'q.npy'\n"), tmp_path / "r")
    assert set(lines["lsh"]["measures"]) == {"recall_at_10", "recall_at_100"}
    assert "curves" not in lines["lsh"]


def test_queries_are_drawn_where_no_file_has_them(write, tmp_path):
    np.save(tmp_path / "x.npy", X)
    source = source_data(write("features = 'x.npy'\nlabels = 'names.npy'\nn_queries = 50\n").datasets[0])
    assert len(source.queries.rows) == 50
    assert sorted([*source.queries.rows, *source.database.rows]) == list(range(len(X)))
    assert [str(name) for name in source.queries.labels] == [f"digit {Y[row]}" for row in source.queries.rows]


def test_labels_may_be_words(write, tmp_path):
    np.save(tmp_path / "x.npy", X)
    lines = lines_of(write("features = 'x.npy'\nlabels = 'names.npy'\n"), tmp_path / "r")
    assert lines["float"]["measures"]["mAP"] > 0.5


def test_other_labels_are_other_data(write, tmp_path):
    before = source_data(write(FOUR_FILES).datasets[0]).digest
    np.savez(tmp_path / "y.npz", kinds=Y[200:][::-1], asked=Y[:200])
    assert source_data(write(FOUR_FILES).datasets[0]).digest != before
    assert source_data(write(FOUR_FILES + "scale = 16").datasets[0]).digest != before


def test_a_file_that_is_a_dataset_by_itself(write, tmp_path):
    np.savez(tmp_path / "whole.npz", X=X, y=Y, query=np.arange(100))
    source = source_data(write("source = 'whole.npz'\n").datasets[0])
    assert (len(source.database.rows), source.queries.rows.tolist()) == (1697, list(range(100)))


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ("features = 'gone.npy'", "gone.npy: no such file"),
        ("features = 'x.npy'\nlabels = 'names.npy'", r"dataset own: labels must have 1597 rows, got shape \(1797,\)"),
        (
            "features = 'x.npy'\nqueries = 'narrow.npy'",
            "dataset own: queries must have the 64 columns of features, got 3",
        ),
        ("features = 'x.npy'\nn_queries = 1597", "dataset own: n_queries must be below its 1597 rows, got 1597"),
        ("features = { file = 'y.npz', array = 'nope' }", "no array named 'nope'"),
    ],
)
def test_files_that_do_not_fit_are_named(entries, complaint, write, tmp_path):
    np.save(tmp_path / "narrow.npy", np.zeros((5, 3)))
    with pytest.raises((ValueError, FileNotFoundError), match=complaint):
        run_experiment(write(entries), tmp_path / "r", workers=1)
    assert not (tmp_path / "r").exists()


def test_a_line_says_what_it_was_made_with(write, tmp_path):
    line = lines_of(write(FOUR_FILES), tmp_path / "r")["lsh"]
    assert set(line["versions"]) >= {"hashlearn", "python", "numpy"}
    assert line["processor"]
    assert line["cores"] >= 1
    assert line["commit"] is None or line["commit"].removesuffix("-dirty").isalnum()
    json.dumps(line, allow_nan=False)
