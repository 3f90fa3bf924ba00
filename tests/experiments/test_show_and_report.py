"""What is shown: ours, the paper's, the difference, and everything one must know to believe them."""

import io
import itertools
import json
import re
import statistics

import numpy as np
import pytest
from rich.console import Console

from hashlearn.cli import main
from hashlearn.experiments import Entry, Store, experiment_named, published, run_experiment
from hashlearn.experiments.figures import mean_curves, signs_of
from hashlearn.experiments.page import report_page
from hashlearn.experiments.show import as_markdown, shown, texts, verdict
from hashlearn.experiments.summary import Comparison, Results, Stat, agreement, blocks, remarks
from hashlearn.experiments.tasks import tasks_of
from hashlearn.experiments.worker import weight_signs


def text_of(experiment, results):
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(shown(experiment, results))
    return console.export_text()


def made_up(experiment, value, n_features=784, digest="a"):
    """A line for every task, with numbers from ``value(task)``."""
    for task in tasks_of(experiment):
        number = value(task)
        measures = dict.fromkeys(("mAP", "mAP_stable", "pre100_stable", "precision_at_100", "recall_at_10"), number)
        yield {
            "key": "",
            "config": task.config,
            "data": {"digest": digest, "n_features": n_features, "n_queries": 1000, "n_database": 69000},
            "versions": {"hashlearn": "1"},
            "measures": measures,
            "curves": {"positions": [1, 100], "precision_at": [number, number], "recall_at": [0.1, 0.2]}
            | ({} if task.bits is None else {"radius_precision": [0.0, number], "radius_recall": [0.0, 0.5]}),
            "seconds": {"anchors": 1.0, "fit": 2.0, "encode": 4.0},
        }


def above_the_paper(task):
    """A number .02 above the paper's in run 0 and .04 above in run 1."""
    known = published("table-2").get(Entry(task.dataset.title, "mAP", task.bits, task.row.against or task.row.title))
    return 0.5 if known is None else known + 0.02 * (1 + task.run)


@pytest.fixture
def table_2():
    return experiment_named("table-2").restricted(["mnist"], bits=[16, 32], runs=2)


def test_means_deviations_and_differences(table_2):
    block = blocks(table_2, Results(made_up(table_2, above_the_paper)))[0]
    rows = dict(block.rows)
    cell = rows["LSH"][0]
    assert cell.paper == 0.2094
    assert cell.ours == pytest.approx((0.2394, statistics.stdev([0, 0.02]), 2))
    assert cell.difference == pytest.approx(0.03)
    assert rows["JPSH (ours)"][1].paper == 0.6184  # held against the paper's JPSH
    assert rows["SAH"][0].paper is None
    assert block.reference == 0.5


def test_show_prints_ours_the_papers_and_the_difference(table_2):
    results = Results(made_up(table_2, above_the_paper))
    text = text_of(table_2, results)
    assert re.search(r"LSH +0\.2394±0\.014 +0\.2933±0\.014", text)
    assert re.search(r"0\.2094 \+0\.030 +0\.2633 \+0\.030", text)
    assert "MNIST, mAP (float vectors 0.5000)" in text
    assert "MNIST: the baselines' mAP is 0.030 from the paper's on average over 20 numbers." in text
    assert "not the precision among 100 results" in " ".join(text.split())


def test_markdown_has_ours_and_the_papers_in_brackets(table_2):
    text = as_markdown(table_2, Results(made_up(table_2, above_the_paper)))
    head, line, *rows = text.partition("### MNIST, mAP (float vectors 0.5000)\n\n")[2].splitlines()
    assert head.count("|") == line.count("|") == rows[0].count("|")
    assert "| LSH | 0.239 (0.209) | 0.293 (0.263) |" in text
    assert "**" in text


def test_other_features_than_the_papers_are_not_compared(table_2):
    results = Results(made_up(table_2, above_the_paper, n_features=100))
    assert all(cell.paper is None for block in blocks(table_2, results) for _, cells in block.rows for cell in cells)
    assert agreement(table_2, results) == []
    assert any("100 features a row where the paper's have 784" in remark for remark in remarks(table_2, results))


def test_of_two_versions_of_the_data_the_last_counts(table_2):
    old = made_up(table_2, lambda task: 0.1, digest="old")
    new = made_up(table_2.restricted(methods=["lsh"]), lambda task: 0.9, digest="new")
    rows = dict(blocks(table_2, Results(itertools.chain(old, new)))[0].rows)
    assert list(rows) == ["LSH"]
    assert rows["LSH"][0].ours.mean == pytest.approx(0.9)


def test_missing_runs_problems_and_warnings_are_told(table_2):
    lines = list(made_up(table_2, above_the_paper))
    lines[3] = {name: lines[3][name] for name in ("key", "config", "data", "versions")} | {"problem": "too few rows"}
    lines[4]["warnings"] = ["not converged"]
    said = "\n".join(remarks(table_2, Results(lines[:-5])))
    assert "5 of 53 runs are still to be done" in said
    assert "too few rows" in said
    assert "1 of 53 runs warned, one of them: not converged" in said


def test_seconds_are_all_that_training_takes_and_less_is_better():
    table_3 = experiment_named("table-3").restricted(runs=1)
    block = blocks(table_3, Results(made_up(table_3, lambda task: 0.5, n_features=512)))[0]
    cell = dict(block.rows)["RSSH"][0]
    assert (cell.ours.mean, cell.paper) == (7.0, 75.3624)
    assert texts(cell, is_seconds=True) == ("7.0", "75.4", "×0.09")
    assert verdict(cell, is_seconds=True) == "up"
    assert verdict(Comparison(Stat(80.0, 0, 1), 75.0), is_seconds=True) == "down"


@pytest.mark.parametrize(("ours", "word"), [(0.52, "up"), (0.48, "down"), (0.502, "")])
def test_verdict(ours, word):
    assert verdict(Comparison(Stat(ours, 0, 1), 0.5), is_seconds=False) == word


def test_curves_are_means_point_by_point(table_2):
    lines = [line for line in made_up(table_2, above_the_paper) if line["config"]["method"] == "lsh"][:2]
    lines[0]["curves"]["recall_at"], lines[1]["curves"]["recall_at"] = [0.1, 0.2], [0.3, 0.6]
    assert mean_curves(lines).recall_at.tolist() == pytest.approx([0.2, 0.4])


def test_signs_of_weights_come_back_from_a_line():
    weights = np.random.RandomState(0).randn(13, 5)
    weights[[2, 7]] *= 1e-6
    line = {"weights": json.loads(json.dumps(weight_signs(weights)))}
    wanted = np.sign(weights.T)
    wanted[:, [2, 7]] = 0
    assert np.array_equal(signs_of(line), wanted)


def test_the_page_has_every_table_and_figure_and_needs_nothing_else(small, done, tmp_path):
    figures = {
        "figure-4": experiment_named("figure-4").restricted(["digits"], ["lsh", "jpsh-ours"], [16], 1),
        "figures-5-6": experiment_named("figures-5-6").restricted(["digits"], ["itq", "sah"], [8, 16], 1),
    }
    tiny = tmp_path / "tiny.toml"
    tiny.write_text(
        "title = 'Tiny'\ndatasets = ['digits']\nmethods = ['jpsh']\nbits = [8]\nruns = 1\n"
        "params = { n_anchors = 40, max_iter = 2 }\n"
        "[[parts]]\nfigure = 'weights'\nparams = { n_anchors = 40, bias = false, keep_weights = true, max_iter = 2 }\n"
        "[[parts]]\nfigure = 'sweeps'\nvary = { lambda3 = [1, 1e5] }\n"
        "[[parts]]\nfigure = 'convergence'\n"
    )
    results = tmp_path / "results"
    results.mkdir()
    (results / "digits.jsonl").write_bytes((done / "digits.jsonl").read_bytes())
    for experiment in [*figures.values(), experiment_named(str(tiny))]:
        run_experiment(experiment, results, workers=1)
    page = report_page(
        [experiment_named(str(small)), *figures.values(), experiment_named(str(tiny))], Results(Store(results).lines())
    )
    assert page.count("<section>") == 4
    assert "A remark." in page
    assert page.count("<svg viewBox") >= 3 + 2 + 1 + 1
    assert page.count('class="signs"') == 1
    assert "of 64 features have no weight" in page
    for title in ("digits: precision and recall", "digits: Pre@100", "mAP against λ3", "8 bits: the objective"):
        assert title in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "<script" not in page


def test_the_page_colours_differences(table_2):
    page = report_page([table_2], Results(made_up(table_2, above_the_paper)))
    assert '<span class="paper">0.2094 </span><span class="up">+0.030</span>' in page
    below = report_page([table_2], Results(made_up(table_2, lambda task: above_the_paper(task) - 0.1)))
    assert '<span class="down">-0.070</span>' in below


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


def test_the_commands(run, small, tmp_path):
    chosen = ("--methods", "lsh", "--bits", "8,16", "--runs", "1", "--datasets", "digits")
    code, out, err = run("paper", "run", small, *chosen, "--out", "r", "--workers", "1")
    assert code == 0
    assert "3 new runs of small, 0 were there" in out
    assert re.search(r"3/3, 0 min left: digits LSH 16 bits, run 0: mAP 0\.\d{4}", err)
    code, out, _ = run("paper", "show", small, "--results", "r")
    assert code == 0
    assert re.search(r"LSH +0\.\d{4} +0\.\d{4}", out)
    assert "14 of 17 runs are still to be done" in out
    code, out, _ = run("paper", "report", small, "--results", "r", "--out", "page.html")
    assert code == 0
    assert "Small" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("run", "table-9"), "experiment must be one of table-1, .*, or a .toml file, got 'table-9'"),
        (("run", "table-2", "--datasets", "mnits"), "dataset must be one of mnist, .* got 'mnits'"),
        (("run", "table-2", "--methods", "lsh,lhs"), "method must be one of lsh, .* got 'lhs'"),
        (("run", "table-2", "--bits", "8,many"), "--bits must be whole numbers"),
        (("run", "table-2", "--bits", "0"), "bits must be at least 1, got 0"),
        (("run", "table-2", "--runs", "0"), "Invalid value for '--runs'"),
        (("run", "missing.toml"), "missing.toml: No such file or directory"),
        (("show", "table-2"), "--results must be a folder"),
        (("show", "table-2", "--results", "."), "no results of table-2 in ."),
        (("report", "--results", "."), "no results of table-1, "),
        (("report", "--out", "no/where.html"), "--out must lie in an existing folder"),
    ],
)
def test_bad_input_is_one_line(arguments, complaint, run, tmp_path):
    code, out, err = run("paper", *arguments)
    assert code == 2
    assert out == ""
    assert re.match(f"hashlearn: error: {complaint}", err), err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
