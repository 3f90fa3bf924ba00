"""The demo, on a few methods: it measures what the library measures, and shows what it measured."""

import numpy as np
import pytest

from hashlearn import ITQ, METHODS, Corrections
from hashlearn.cli import main
from hashlearn.experiments.demo import digits_split, run_demo
from hashlearn.experiments.show.demo_page import cells, demo_page, is_best, problems
from hashlearn.metrics import evaluate, true_neighbors


@pytest.fixture(scope="module")
def demo():
    return run_demo(["lsh", "itq"], bits=(16, 70))


def test_the_split_is_seeded_and_parts_the_digits():
    split = digits_split(seed=3)
    assert (len(split.vectors), len(split.query_vectors)) == (1597, 200)
    assert set(split.query_labels) == set(split.labels) == set(range(10))
    np.testing.assert_array_equal(split.vectors, digits_split(seed=3).vectors)
    assert (split.vectors[0] != digits_split(seed=4).vectors[0]).any()


def test_a_run_is_what_the_library_gives(demo):
    split = demo.split
    run = next(run for run in demo.runs if (run.method, run.n_bits) == ("ITQ", 16))
    hasher = ITQ(n_bits=16, random_state=0).fit(split.vectors)
    np.testing.assert_array_equal(run.codes.database, hasher.transform(split.vectors))
    direct = evaluate(
        hasher.transform(split.vectors),
        hasher.transform(split.query_vectors),
        16,
        query_labels=split.query_labels,
        labels=split.labels,
        neighbors=true_neighbors(split.vectors, split.query_vectors, 10),
    )
    assert run.evaluation.to_dict() == direct.to_dict()
    assert run.fit_seconds > 0
    assert run.search_seconds > 0


def test_the_reference_is_the_float_vectors(demo):
    assert demo.reference.measure("neighbor_recall") == 1.0
    assert demo.reference.measure("mAP") > demo.best(16, "neighbor_recall")


def test_a_length_that_a_method_cannot_give_is_a_result(demo):
    run = next(run for run in demo.runs if (run.method, run.n_bits) == ("ITQ", 70))
    assert cells(run) == ["ITQ", "-", "-", "-", "-", "-", "-"]
    assert problems(demo) == [f"ITQ at 70 bits: {run.problem}"]
    assert "n_features=64" in run.problem


def test_a_method_for_real_queries_is_ranked_by_them(monkeypatch):
    class Real(ITQ):
        def query_weights(self, X):
            return -self.decision_function(X)

        def corrections(self, X, codes):
            return Corrections.of(np.zeros(len(X)), scale=1.0, offset=0.0)

    monkeypatch.setitem(METHODS, "real", Real)
    codes, real = run_demo(["itq", "real"], bits=(16,)).runs
    assert real.measure("neighbor_recall") > codes.measure("neighbor_recall") + 0.05


def test_the_best_is_marked_by_what_is_shown(demo):
    marked = [(run.method, run.n_bits) for run in demo.runs if is_best(demo, run, "mAP")]
    assert marked == [("ITQ", 16), ("LSH", 70)]


def test_the_page_shows_it_all(demo):
    text = demo_page(demo)
    for run in demo.runs:
        for cell in cells(run):
            assert f">{cell}</t" in text
    assert demo.runs[-1].problem in text
    assert text.count('role="img" aria-label="16 bits"') == 2
    assert "What LSH finds with 70 bits" in text
    assert text.count('class="query"') == 10
    assert text.count('class="hit"') + text.count('class="miss"') == 100


def test_all_methods_of_the_registry_are_run_by_default(monkeypatch):
    monkeypatch.setattr("hashlearn.experiments.demo._run", lambda hasher, *rest: (type(hasher), hasher.n_bits))
    monkeypatch.setattr("hashlearn.experiments.demo._warm_up", lambda cls, split: None)
    runs = run_demo().runs
    assert runs == tuple((cls, n_bits) for n_bits in (16, 32, 64) for cls in METHODS.values())


def test_the_command(tmp_path, capsys):
    out = tmp_path / "report.html"
    with pytest.raises(SystemExit) as ended:
        main(["demo", "-m", "lsh", "-b", "16", "-b", "8", "--out", str(out)])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    demo = run_demo(["lsh"], bits=(8, 16))
    for run in demo.runs:
        assert f"{run.measure('mAP'):.3f}" in printed
    assert out.as_uri() in printed
    assert "hashlearn fit" in printed
    assert "What LSH finds with 16 bits" in out.read_text(encoding="utf-8")
