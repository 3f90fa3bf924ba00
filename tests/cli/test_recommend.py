"""``hashlearn recommend``: the command it names works, and the line it prints reaches the recall it prints."""

import re

import numpy as np
from sklearn.datasets import load_digits

import hashlearn
from hashlearn.metrics import recall_of_ids, true_neighbors
from hashlearn.recommend.trials import TrialData


def test_it_names_a_command_that_works(run, folder):
    outcome = run(
        "recommend", "vectors.npy", "--labels", "y.npy", "--bytes", 1, "--plot", "plot.svg", "--json", "r.json"
    )
    assert outcome.code == 0, outcome.err
    assert (folder / "plot.svg").read_bytes().startswith(b"<?xml")
    lines = [line.strip() for line in outcome.out.splitlines()]
    command = next(line for line in lines if line.startswith("hashlearn fit"))
    assert run(*command.split()[1:]).code == 0


def test_it_says_whether_codes_are_worth_more_than_the_float_vectors(run, folder):
    """Handwritten digits by their digit, and by labels of chance, which no code can find."""
    X, digit = load_digits(return_X_y=True)
    np.save("digits.npy", X)
    np.save("digit.npy", digit)
    np.save("chance.npy", np.random.default_rng(0).integers(0, 2, len(X)))
    above = run("recommend", "digits.npy", "--labels", "digit.npy", "--bytes", 4, "--sample", 1000).out
    assert re.search(r"the float vectors from \d+ bits of \w+ on: mAP 1\.\d\d times theirs, precision@100 \+0", above)
    below = run("recommend", "digits.npy", "--labels", "chance.npy", "--bytes", 1, "--sample", 300).out
    assert "no code of up to 1 bytes has 1.15 times the mAP of the float vectors" in below


def test_without_labels_it_says_what_is_missing(run, folder):
    assert "By meaning: not judged, because that needs --labels" in run("recommend", "vectors.npy", "--bytes", 1).out


def test_a_plot_over_an_input_is_refused(refused, folder):
    assert "--plot" in refused("recommend", "vectors.npy", "--plot", "vectors.npy")


def test_the_printed_line_reaches_the_printed_recall(run, folder):
    """The line of Python, run on the rows that were measured, finds as many of the true neighbors as it says."""
    rows = np.random.default_rng(0).normal(size=(400, 12)).astype(np.float32) * np.arange(1, 13, dtype=np.float32)
    rows *= np.random.default_rng(1).uniform(0.2, 5, (400, 1)).astype(np.float32)
    np.save("rows.npy", rows)
    for metric in ("euclidean", "cosine", "dot"):
        outcome = run("recommend", "rows.npy", "--bytes", 2, "--metric", metric, "--seed", 3)
        assert outcome.code == 0, outcome.err
        said = re.search(r"nearest ([0-9.]+) by codes, ([0-9.]+) after reranking 40 candidates", outcome.out)
        assert said
        line = outcome.out.rsplit("in Python: ", 1)[1].strip()
        assert f'metric="{metric}"' in line
        assert 'keep_vectors="float16"' in line
        data = TrialData(rows, None, 10_000, 3, metric)
        search = eval(line, vars(hashlearn).copy() | {name: getattr(hashlearn, name) for name in hashlearn.__all__})
        search.fit(data.database).add(data.database)
        for rerank, number in ((False, said[1]), (None, said[2])):
            found = search.search(data.queries, 10, rerank=rerank).ids
            wanted = true_neighbors(data.database, data.queries, 10, metric)
            assert f"{recall_of_ids(found, wanted, 10, [10])[0]:.3f}" == number
        assert float(said[2]) > float(said[1])


def test_the_metric_decides_what_is_near(run, folder):
    """Long vectors are near by the inner product, and their length is nothing to the cosine."""
    rows = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
    rows[:30] *= 20
    plain, cosine, dot = (TrialData(rows, None, 300, 0, metric) for metric in ("euclidean", "cosine", "dot"))
    assert not np.array_equal(plain.neighbors(), cosine.neighbors())
    lengths = np.linalg.norm(dot.database, axis=1)
    assert lengths[dot.neighbors()].min() > np.median(lengths)
    for data in (cosine, dot):
        same = data.as_distances()
        np.testing.assert_array_equal(true_neighbors(same.database, same.queries, 10), data.neighbors())
