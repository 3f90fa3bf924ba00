"""What is shown: ours, the paper's, the difference, and everything one must know to believe them."""

import io
import itertools
import json
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hashlearn.cli import main
from hashlearn.experiments import (
    PublishedPlace,
    ResultFolder,
    Results,
    paper_experiment,
    paper_table,
    read_experiment,
    run_experiment,
)
from hashlearn.experiments.define.measures import MEASURES
from hashlearn.experiments.define.tasks import tasks_of
from hashlearn.experiments.results import Comparison, agreement, measure_tables, remarks, stat
from hashlearn.experiments.run import weight_signs
from hashlearn.experiments.show.experiment_figures import figures_of, mean_curves, signs_of
from hashlearn.experiments.show.experiment_page import ReportedExperiment, report_page
from hashlearn.experiments.show.text_tables import as_markdown, cell_texts, deviation_notes, shown


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
    if task.method is None:
        return 0.5
    place = PublishedPlace(task.dataset.published_as, "mAP", task.bits, task.method.published_as)
    known = paper_table("table-2").get(place)
    return 0.5 if known is None else known + 0.02 * (1 + task.run)


@pytest.fixture
def table_2():
    return paper_experiment("table-2").restricted(["mnist"], bits=[16, 32], runs=2)


def test_means_deviations_and_differences(table_2):
    table = measure_tables(table_2, Results(made_up(table_2, above_the_paper)))[0]
    rows = {row.title: row.cells for row in table.rows}
    cell = rows["LSH"][0]
    assert cell.published == 0.2094
    assert cell.ours == pytest.approx((0.2394, statistics.stdev([0, 0.02]), 2, 0.2294, 0.2494))
    assert cell.difference == pytest.approx(0.03)
    assert rows["JPSH, our defaults"][1].published == 0.6184  # held against the paper's JPSH
    assert rows["SAH"][0].published is None
    assert table.reference == 0.5


def test_show_prints_ours_the_papers_and_the_difference(table_2):
    results = Results(made_up(table_2, above_the_paper))
    text = text_of(table_2, results)
    assert re.search(r"LSH +0\.2394±0\.014 +0\.2933±0\.014", text)
    assert re.search(r"0\.2094 \+0\.030 +0\.2633 \+0\.030", text)
    assert "MNIST, mAP (float vectors 0.5000)" in text
    assert "MNIST: with the publication's settings mAP is 0.030 from the published on average over 22 numbers." in text
    assert "not the precision among 100 results" in " ".join(text.split())


def test_markdown_has_ours_and_the_papers_in_brackets(table_2):
    text = as_markdown(table_2, Results(made_up(table_2, above_the_paper)))
    head, line, *rows = text.partition("### MNIST, mAP (float vectors 0.5000)\n\n")[2].splitlines()
    assert head.count("|") == line.count("|") == rows[0].count("|")
    assert "| LSH | 0.239 (0.209) | 0.293 (0.263) |" in text
    assert "**" in text


def test_other_features_than_the_papers_are_not_compared(table_2):
    results = Results(made_up(table_2, above_the_paper, n_features=100))
    assert not any(table.is_compared for table in measure_tables(table_2, results))
    assert agreement(table_2, results) == []
    assert any(
        "100 features a row where the published numbers were made with 784" in remark
        for remark in remarks(table_2, results)
    )


def test_of_two_versions_of_the_data_the_last_counts(table_2):
    old = made_up(table_2, lambda task: 0.1, digest="old")
    new = made_up(table_2.restricted(methods=["lsh"]), lambda task: 0.9, digest="new")
    rows = {row.title: row.cells for row in measure_tables(table_2, Results(itertools.chain(old, new)))[0].rows}
    assert list(rows) == ["LSH"]
    assert rows["LSH"][0].ours.mean == pytest.approx(0.9)


def test_missing_runs_problems_and_warnings_are_told(table_2):
    lines = list(made_up(table_2, above_the_paper))
    lines[3] = {name: lines[3][name] for name in ("key", "config", "data", "versions")} | {"problem": "too few rows"}
    lines[4]["warnings"] = ["not converged"]
    said = "\n".join(remarks(table_2, Results(lines[:-5])))
    assert "5 of 53 runs are still to be done" in said
    assert "means over" in said
    assert "too few rows" in said
    assert "1 of 53 runs warned, one of them: not converged" in said


def test_seconds_are_all_that_training_takes_and_less_is_better():
    table_3 = paper_experiment("table-3").restricted(runs=1)
    table = measure_tables(table_3, Results(made_up(table_3, lambda task: 0.5, n_features=512)))[0]
    cell = next(row.cells[0] for row in table.rows if row.title == "RSSH")
    assert (cell.ours.mean, cell.published) == (7.0, 75.3624)
    assert cell_texts(cell, table.measure) == ("7.0", "", "75.4", "×0.09", "up")
    assert cell_texts(Comparison(stat([80.0]), 75.0), table.measure).verdict == "down"


@pytest.mark.parametrize(("ours", "word"), [(0.52, "up"), (0.48, "down"), (0.502, "")])
def test_verdict(ours, word):
    assert cell_texts(Comparison(stat([ours]), 0.5), MEASURES["mAP"]).verdict == word


def test_the_first_measure_is_the_one_that_is_logged(run, small):
    code, _, err = run("experiment", "run", small, "--methods", "lsh", "--bits", "8", "--runs", "1", "--workers", "1")
    assert code == 0
    logged = re.search(r"LSH at 8 bits on digits, run 0: mAP (0\.\d{4})", err)[1]
    _, out, _ = run("experiment", "show", small, "--methods", "lsh", "--bits", "8", "--runs", "1")
    assert re.search(r"digits, mAP.*?LSH +(0\.\d{4})", out, re.DOTALL)[1] == logged


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
        "figure-4": paper_experiment("figure-4").restricted(["digits"], ["lsh", "jpsh"], [16], 1),
        "figures-5-6": paper_experiment("figures-5-6").restricted(["digits"], ["itq", "sah"], [8, 16], 1),
    }
    tiny = tmp_path / "tiny.toml"
    tiny.write_text(
        "title = 'Tiny'\ndatasets = ['digits']\nmethods = ['jpsh']\nbits = [8]\nruns = 1\n"
        "params = { n_anchors = 40, max_iter = 2, init = 'random' }\n"
        "[[parts]]\nfigure = 'weights'\n"
        "params = { n_anchors = 40, bias = false, solver = { keep_weights = true }, max_iter = 2, init = 'random' }\n"
        "[[parts]]\nfigure = 'sweeps'\nvary = { lambda3 = [1, 1e5] }\n"
        "[[parts]]\nfigure = 'convergence'\n"
    )
    results = tmp_path / "results"
    results.mkdir()
    (results / "digits.jsonl").write_bytes((done / "digits.jsonl").read_bytes())
    for experiment in [*figures.values(), read_experiment(tiny)]:
        run_experiment(experiment, results, workers=1)
    stored = Results(ResultFolder(results).lines(["digits"]))
    reported = [read_experiment(small), *figures.values(), read_experiment(tiny)]
    page = report_page([ReportedExperiment(experiment, stored) for experiment in reported])
    assert page.count("<section>") == 4
    assert "A remark." in page
    assert page.count("<svg viewBox") >= 3 + 2 + 1 + 1
    assert page.count('class="signs"') == 1
    assert "of 64 features have no weight" in page
    for title in (
        "digits, 16 bits: precision and recall",
        "digits: Pre@100",
        "mAP against λ3",
        "8 bits: the objective",
    ):
        assert title in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "<script src" not in page


def test_the_page_colours_differences(table_2):
    page = report_page([ReportedExperiment(table_2, Results(made_up(table_2, above_the_paper)))])
    assert '<span class="published">0.2094</span> <span class="up">+0.030</span>' in page
    lower = Results(made_up(table_2, lambda task: above_the_paper(task) - 0.1))
    assert re.search(r'class="subtitle">The best mAP in \d+ of \d+ columns is that of [^<]+\. ', page)
    assert page.index("<figure") < page.index("<table")  # an experiment of tables begins with a picture of them
    assert page.index("<details>") < page.index("<table")  # 16 methods: the table opens
    below = report_page([ReportedExperiment(table_2, lower)])
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


def test_curves_of_several_lengths_are_several_rows():
    experiment = paper_experiment("figure-4").restricted(["mnist"], ["lsh", "jpsh-paper"], [16, 64], 2)
    (group,) = figures_of(experiment, Results(made_up(experiment, above_the_paper)))
    assert [row.heading for row in group.rows] == ["MNIST, 16 bits", "MNIST, 64 bits"]
    assert all(len(row.drawings) == 3 for row in group.rows)


def test_published_numbers_are_dotted_lines_of_the_method(table_2):
    experiment = paper_experiment("figures-5-6").restricted(["mnist"], runs=1)
    (group,) = figures_of(experiment, Results(made_up(experiment, above_the_paper)))
    titles = ["JPSH0", "JPSH, paper's settings"]
    assert set(group.legend) == {*titles, "JPSH, paper's settings (published)"}
    ours, theirs = (group.legend[f"JPSH, paper's settings{what}"] for what in ("", " (published)"))
    assert ours.color == theirs.color
    assert ours.dashes != theirs.dashes


def test_a_part_that_is_drawn_shares_its_runs_with_one_in_a_table(tmp_path):
    grid = "datasets = ['digits']\nmethods = ['lsh']\nbits = [8, 16]\n"
    drawn = f"[[parts]]\nfigure = 'by-bits'\ndraws = ['mAP', 'recall_at_10', 'precision_at_100']\n{grid}"
    (tmp_path / "both.toml").write_text(f"runs = 2\n[[parts]]\n{grid}{drawn}")
    experiment = read_experiment(tmp_path / "both.toml")
    results = Results(made_up(experiment, lambda task: 0.5))
    assert {
        cell.ours.n for table in measure_tables(experiment, results) for row in table.rows for cell in row.cells
    } == {2}
    (group,) = figures_of(experiment, results)
    assert [len(row.drawings) for row in group.rows] == [3]


def test_the_commands(run, small, tmp_path):
    chosen = ("--methods", "lsh", "--bits", "8,16", "--runs", "1", "--datasets", "digits")
    code, out, err = run("experiment", "run", small, *chosen, "--workers", "1")
    assert code == 0
    assert "small-results: 3 new runs of small, 0 were there" in out
    assert re.search(r"3/3, 0 min left: LSH at 16 bits on digits, run 0: mAP 0\.\d{4}", err)
    code, out, _ = run("experiment", "show", small)
    assert code == 0
    assert re.search(r"LSH +0\.\d{4} +0\.\d{4}", out)
    assert "14 of 17 runs are still to be done" in out
    code, out, _ = run("experiment", "report", small, "--bits", "16")
    assert code == 0
    page = (tmp_path / "small.html").read_text()
    assert "<h1>Small</h1>" in page
    assert "16 bits" in page
    assert "8 bits" not in page
    assert f"hashlearn experiment run {small} --bits 16 --out again" in page
    assert f"hashlearn experiment report {small} --bits 16 --results again --out small.html" in page


def test_the_papers_commands_are_the_same(run, tmp_path):
    chosen = ("table-2", "--methods", "lsh", "--bits", "8", "--runs", "1", "--datasets", "digits")
    code, out, _ = run("paper", "run", *chosen, "--workers", "1")
    assert (code, out) == (0, "results: 2 new runs of table-2, 0 were there\n")
    (tmp_path / "results" / "search.jsonl").write_text('{"kind": "run"}\n')
    code, out, _ = run("paper", "show", *chosen, "--markdown")
    assert code == 0
    assert out.startswith("### digits, mAP (float vectors 0.")
    code, out, _ = run("paper", "report", "--datasets", "digits", "--bits", "8")
    assert code == 0
    page = (tmp_path / "paper.html").read_text()
    assert "<h1>Binary Representation via Jointly Personalized Sparse Hashing, reproduced</h1>" in page
    assert "Table 2" in page
    assert "Table 1" not in page


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("paper", "run", "table-9"), "experiment must be one of 'table-1', .*, got 'table-9'"),
        (("paper", "run", "table-2", "--datasets", "mnits"), "dataset must be one of mnist, .* got 'mnits'"),
        (("paper", "run", "table-2", "--methods", "lsh,lhs"), "method must be one of .* got 'lhs'"),
        (("paper", "run", "table-2", "--bits", "8,many"), "--bits must be whole numbers"),
        (("paper", "run", "table-2", "--bits", "0"), "bits must be at least 1, got 0"),
        (("paper", "run", "table-2", "--runs", "0"), "Invalid value for '--runs'"),
        (("experiment", "run", "missing.toml"), "missing.toml: No such file or directory"),
        (("experiment", "run", "table-2"), "an experiment must be a .toml file, got 'table-2'"),
        (("paper", "show", "table-2", "--results", "nowhere"), "--results must be a folder"),
        (("paper", "show", "table-2", "--results", "."), "no results of table-2 in .: hashlearn paper run table-2"),
        (("paper", "report", "--results", "."), "no results of table-1, "),
        (("paper", "report", "--out", "no/where.html"), "--out must lie in an existing folder"),
        (("experiment", "report"), "name at least one FILE.toml"),
    ],
)
def test_bad_input_is_one_line(arguments, complaint, run, tmp_path):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert re.match(f"hashlearn: error: {complaint}", err), err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_table_says_over_how_many_runs_its_deviations_are(tmp_path):
    (tmp_path / "runs.toml").write_text(
        "datasets = ['digits']\nbits = [8]\n[[parts]]\nmethods = ['lsh', 'itq']\nruns = 3\n"
        "[[parts]]\nmethods = ['sh']\nruns = 2\n"
    )
    experiment = read_experiment(tmp_path / "runs.toml")
    tables = measure_tables(experiment, Results(made_up(experiment, lambda task: 0.1 * task.run)))
    assert deviation_notes(tables) == ["± is the standard deviation over 3 runs for LSH, ITQ; over 2 runs for SH."]
    alike = experiment.restricted(runs=3)
    tables = measure_tables(alike, Results(made_up(alike, lambda task: 0.1 * task.run)))
    assert deviation_notes(tables) == ["± is the standard deviation over 3 runs."]
    single = experiment.restricted(runs=1)
    assert deviation_notes(measure_tables(single, Results(made_up(single, lambda task: 0.5)))) == []


@pytest.mark.parametrize("other", [None, "results/notes.txt"])
def test_the_papers_results_are_shown_where_you_have_none_of_your_own(run, other):
    if other:
        Path(other).parent.mkdir()
        Path(other).write_text("no runs")
    code, out, err = run("paper", "show", "table-2", "--datasets", "mnist", "--bits", "16", "--methods", "jpsh,lsh")
    assert (code, err) == (0, "")
    assert "JPSH, our defaults" in out
    assert "± is the standard deviation over" in out
