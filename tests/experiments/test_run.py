"""Every task is done once, whatever happens in between, and its line says what an independent evaluation says."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from forked import ForkedPython
from threadpoolctl import threadpool_limits

import hashlearn
from hashlearn import ITQ, JPSH, SAH, HasherUnion, evaluate
from hashlearn.datasets import load
from hashlearn.experiments import ResultFolder, paper_experiment, read_experiment, run_experiment
from hashlearn.experiments.cache import AnchorSet, CachedData, anchored_parts, anchors_of, shared_anchors
from hashlearn.experiments.define.tasks import key_of, tasks_of
from hashlearn.metrics import true_neighbors


def numbers(folder):
    """Key -> what does not depend on the clock."""
    return {
        line["key"]: {name: part for name, part in line.items() if name not in ("seconds", "warnings", "date")}
        for line in ResultFolder(folder).lines(["digits"])
    }


def paper_dataset(name):
    return paper_experiment("table-2").definitions.dataset(name)


def line_of(folder, method, bits, seed):
    for line in ResultFolder(folder).lines(["digits"]):
        config = line["config"]
        if (config["method"], config["bits"], config["seed"]) == (method, bits, seed):
            return line
    raise AssertionError(f"no line of {method}")


@pytest.fixture
def copied(done, tmp_path):
    """Results that may be changed."""
    folder = tmp_path / "copied"
    shutil.copytree(done, folder)
    return folder


def test_every_task_has_a_line_with_its_configuration_and_versions(small, done):
    tasks = tasks_of(read_experiment(small))
    lines = list(ResultFolder(done).lines(["digits"]))
    assert len(tasks) == len(lines) == 4 * 2 * 2 + 1
    assert [line["config"] for line in lines] == [task.config for task in tasks]
    for line in lines:
        assert line["versions"]["hashlearn"] == hashlearn.__version__
        assert line["versions"]["numpy"] == np.__version__
        assert line["data"]["n_queries"] == 200


def test_a_line_says_what_an_independent_evaluation_says(done):
    data = load("digits")
    X, Q = data.database / np.float32(16), data.queries / np.float32(16)
    with threadpool_limits(limits=1):
        itq = ITQ(16, random_state=1).fit(X)
    judged = {
        ties: evaluate(
            itq.transform(X),
            itq.transform(Q),
            16,
            query_labels=data.query_labels,
            labels=data.database_labels,
            neighbors=true_neighbors(X, Q, 10),
            ties=ties,
        )
        for ties in ("expected", "stable")
    }
    measures = line_of(done, "itq", 16, 1)["measures"]
    assert measures["mAP"] == pytest.approx(judged["expected"].mAP, abs=1e-6)
    assert measures["mAP_stable"] == pytest.approx(judged["stable"].mAP, abs=1e-6)
    assert measures["pre100_stable"] == pytest.approx(judged["stable"].pre100_of_the_paper, abs=1e-6)
    assert measures["precision_at_100"] == pytest.approx(judged["expected"].precision_at_100, abs=1e-6)
    assert measures["recall_at_10"] == pytest.approx(judged["expected"].neighbor_recall, abs=1e-6)


def test_the_float_vectors_are_a_line(done):
    line = line_of(done, "float", None, 0)
    assert line["measures"]["recall_at_10"] == 1
    assert "radius_recall" not in line["curves"]


def test_anchors_are_found_once_for_a_seed_and_counted_apart(done):
    cache = next((done / "cache").iterdir())
    assert len(list(cache.glob("anchors-*"))) == 2  # two seeds; two methods and two lengths share them
    seconds = [line_of(done, method, bits, 0)["seconds"] for method in ("sah", "jpsh") for bits in (8, 16)]
    assert len({of["anchors"] for of in seconds}) == 1
    assert "anchors" not in line_of(done, "itq", 8, 0)["seconds"]


def test_shared_anchors_are_those_the_method_would_find(tmp_path):
    data = CachedData.of(paper_dataset("digits"), tmp_path)
    task = next(
        task
        for task in tasks_of(paper_experiment("figures-5-6").restricted(["digits"], ["jpsh-paper"], [8], 1))
        if task.bits
    )
    assert [part.anchors for part in anchored_parts(task, 1597)] == [AnchorSet(800, 0, 10)]
    shared, seconds = shared_anchors(data, AnchorSet(60, 0, 10))
    own = JPSH(8, n_anchors=60, rescale=False, random_state=0).fit(data.database).anchors_
    np.testing.assert_allclose(shared, own, atol=1e-5)
    from_sample, _ = shared_anchors(data, AnchorSet(60, 0, 10, 300))
    own = JPSH(8, n_anchors=60, kmeans_sample=300, rescale=False, random_state=0).fit(data.database).anchors_
    np.testing.assert_allclose(from_sample, own, atol=1e-5)
    again, same_seconds = shared_anchors(data, AnchorSet(60, 0, 10))
    assert np.array_equal(shared, again)
    assert seconds == same_seconds > 0


def test_anchors_of_a_sample_are_not_those_of_all_rows():
    of_all, of_some = (anchors_of(JPSH(8, n_anchors=60, kmeans_sample=sample), 0, 1597) for sample in (None, 300))
    assert (of_all.n_sampled, of_some.n_sampled) == (None, 300)
    assert of_all.name != of_some.name
    assert anchors_of(JPSH(8, n_anchors=60, kmeans_sample=5000), 0, 1597) == of_all


def test_rows_of_unit_length_are_data_of_their_own(tmp_path):
    as_is = paper_dataset("digits")
    unit = replace(paper_dataset("mnist-unit"), name="digits-unit", source="digits")
    assert (unit.like, unit.published_as, unit.scale) == ("mnist", "MNIST", "unit")
    plain, scaled = CachedData.of(as_is, tmp_path), CachedData.of(unit, tmp_path)
    assert plain.digest != scaled.digest
    for rows, others in ((plain.database, scaled.database), (plain.queries, scaled.queries)):
        np.testing.assert_allclose(others, rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-6)


def test_sums_are_made_once_for_all_lengths_and_change_nothing(small, done):
    (cache,) = (done / "cache").iterdir()
    assert len(list(cache.glob("sums-*.npz"))) == 4  # two methods and two seeds, whatever the length
    data = CachedData(cache)
    line = line_of(done, "jpsh", 8, 1)
    task = next(task for task in tasks_of(read_experiment(small)) if task.config == line["config"])
    (part,) = anchored_parts(task, len(data.database))
    centers, _ = shared_anchors(data, part.anchors)
    with threadpool_limits(limits=1):
        plain = task.hasher().set_params(anchors=centers, random_state=1).fit(data.database)
    assert plain.objective_ == pytest.approx(line["objective"], rel=1e-5)


def test_random_anchors_are_not_shared():
    experiment = paper_experiment("figures-5-6").restricted(["digits"], ["jpsh0", "itq"], [8], 1)
    assert [anchored_parts(task, 1597) for task in tasks_of(experiment)] == [[], []]


def test_a_union_shares_what_its_parts_share(tmp_path):
    path = tmp_path / "unions.toml"
    path.write_text(
        "datasets = ['digits']\nmethods = ['itq', 'both']\nbits = [8]\nruns = 1\n"
        "[method.both]\nunion_of = ['sah', 'itq']\n"
    )
    run_experiment(read_experiment(path), tmp_path / "results", workers=1)
    (cache,) = (tmp_path / "results" / "cache").iterdir()
    assert len(list(cache.glob("sums-*.npz"))) == 1
    data = CachedData(cache)
    (task,) = (task for task in tasks_of(read_experiment(path)) if task.method.union_of)
    (part,) = anchored_parts(task, len(data.database))
    centers, _ = shared_anchors(data, part.anchors)
    with threadpool_limits(limits=1):
        parts = [SAH(4, anchors=centers, random_state=0), ITQ(4, random_state=0)]
        both = HasherUnion(parts).fit(data.database)
    judged = evaluate(
        both.transform(data.database),
        both.transform(data.queries),
        8,
        query_labels=data.query_labels,
        labels=data.labels,
    )
    line = line_of(tmp_path / "results", "union", 8, 0)
    assert line["measures"]["mAP"] == pytest.approx(judged.mAP, abs=1e-3)
    assert {"anchors", "sums", "fit", "moments", "encode"} == set(line["seconds"])


def test_a_measure_that_was_not_asked_for_is_made_when_it_is(tmp_path):
    plain, more = tmp_path / "plain.toml", tmp_path / "more.toml"
    text = "datasets = ['digits']\nmethods = ['lsh']\nbits = [8]\nruns = 1\n"
    plain.write_text(text)
    more.write_text(text + "measures = ['mAP', 'mAP_stable']\n")
    results = tmp_path / "results"
    run_experiment(read_experiment(plain), results, workers=1)
    assert "mAP_stable" not in line_of(results, "lsh", 8, 0)["measures"]
    assert run_experiment(read_experiment(more), results, workers=1).n_new == 1
    assert run_experiment(read_experiment(more), results, workers=1).n_new == 0
    assert run_experiment(read_experiment(plain), results, workers=1).n_new == 0


def test_nothing_is_done_twice(small, copied):
    before = (copied / "digits.jsonl").read_bytes()
    outcome = run_experiment(read_experiment(small), copied, workers=1)
    assert (outcome.n_new, outcome.n_stored) == (0, 17)
    assert (copied / "digits.jsonl").read_bytes() == before


def test_a_torn_line_is_done_again_and_only_that(small, done, copied):
    path = copied / "digits.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    outcome = run_experiment(read_experiment(small), copied, workers=1)
    assert (outcome.n_new, outcome.n_stored) == (1, 16)
    assert numbers(copied) == numbers(done)


def test_another_parameter_or_other_data_is_another_run():
    task = tasks_of(paper_experiment("table-2").restricted(["digits"], ["jsh"], [8], 1))[-1]
    changed = {**task.config, "params": {**task.config["params"], "lambda3": 11}}
    keys = {key_of(task.config), key_of(changed), key_of(task.config, "abc"), key_of(task.config, "abd")}
    assert len(keys) == 4
    same = {**task.config, "params": {**task.config["params"], "lambda3": 10.0}}
    assert key_of(same) == key_of(task.config)


def test_data_a_method_cannot_work_on_is_a_result_too(tmp_path):
    experiment = paper_experiment("table-2").restricted(["digits"], ["itq"], [96], 1)
    outcome = run_experiment(experiment, tmp_path, workers=1)
    assert [problem for problem in outcome.problems if "ITQ at 96 bits on digits" in problem]
    assert run_experiment(experiment, tmp_path, workers=1).n_new == 0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """An experiment of 12 tasks, half of them slow enough to be interrupted, and its results without a break."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    path = folder / "many.toml"
    path.write_text("datasets = ['digits']\nmethods = ['lsh', 'oeh']\nbits = [8, 16]\nruns = 3\n")
    run_experiment(read_experiment(path), folder / "results", workers=1)
    return path, folder / "results"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_in_the_middle_it_goes_on_where_it_was(how, uninterrupted, tmp_path):
    (path, whole), killed = uninterrupted, tmp_path / "killed"
    command = [sys.executable, "-m", "hashlearn", "experiment", "run", str(path), "--out", str(killed)]
    source = str(Path(hashlearn.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source}
    with ForkedPython(command, env=environment, stderr=subprocess.PIPE) as process:
        workers = _wait_for("three lines", lambda: _n_lines(killed) >= 3 and _children(process.pid))
        process.send_signal(how)
        errors = process.communicate()[1].decode()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "Traceback" not in errors
    _wait_for("the workers' end", lambda: not any(_is_alive(worker) for worker in workers))

    experiment = read_experiment(path)
    n_stored = len(numbers(killed))
    assert 3 <= n_stored < 12
    outcome = run_experiment(experiment, killed, workers=1)
    assert (outcome.n_new, outcome.n_stored) == (12 - n_stored, n_stored)
    assert numbers(killed) == numbers(whole)
    assert _n_lines(killed) == 12


def _n_lines(folder):
    path = folder / "digits.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _wait_for(event, ready, seconds=240):
    """Long enough for a busy machine; only a hang gets to the end of it."""
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, event
        time.sleep(0.01)
    return found
