"""Progress is shown to those who ask for it, where somebody can see it."""

import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import hashlearn
from hashlearn import ITQ, SimilaritySearch, progress
from hashlearn.progress import track
from hashlearn.search import tune

WORK = """
import time
import numpy as np
from hashlearn import set_progress
from hashlearn.progress import track
set_progress({how!r})
for number in track(range(3), "outer"):
    for _ in track(range(4), "inner"):
        time.sleep(0.05)
    if {fails} and number == 1:
        raise SystemExit("the work has failed")
print("done")
"""


@pytest.fixture(autouse=True)
def silent_afterwards():
    yield
    hashlearn.set_progress(None)


@pytest.fixture
def seen():
    reports = []
    hashlearn.set_progress(lambda *report: reports.append(report))
    return reports


class Clock:
    """One that a test moves on."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def in_terminal(code):
    """What a program writes to a terminal of 80 columns as stderr, and to stdout."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment
    ) as program:
        os.close(theirs)
        written = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            written += piece
        out = program.stdout.read()
    os.close(ours)
    return written.decode(), out


def shown(written):
    """What a terminal shows in the end: a carriage return goes to the start of the line."""
    lines = []
    for line in written.replace("\r\n", "\n").split("\n"):
        cells = []
        for part in line.split("\r"):
            cells[: len(part)] = part
        lines.append("".join(cells).rstrip())
    return "\n".join(lines).strip()


def test_a_terminal_gets_a_bar_that_is_gone_in_the_end():
    written, out = in_terminal(WORK.format(how="auto", fails=False))
    assert "outer 1/3 > inner 2/4" in written
    assert "[######" in written
    assert max(map(len, written.split("\r"))) < 80
    assert shown(written) == ""
    assert out == "done\n"


def test_a_bar_goes_when_the_work_fails():
    written, _ = in_terminal(WORK.format(how="auto", fails=True))
    assert "outer 1/3 > inner" in written
    assert shown(written) == "the work has failed"


@pytest.mark.parametrize("how", ["auto", None])
def test_a_script_without_a_terminal_writes_nothing(how):
    code = WORK.format(how=how, fails=False)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_notebook_gets_the_bar(monkeypatch, capsys):
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    clock = Clock()
    monkeypatch.setattr(progress, "_chosen", progress._Bar(clock))
    for _ in track(range(2), "work"):
        clock.now += 1
    written = capsys.readouterr().err
    assert "[##########..........] work 1/2 0:01" in written
    assert shown(written) == ""


def test_lines_come_every_ten_seconds_also_without_a_terminal(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr(progress, "_chosen", progress._Written(clock))
    for _ in track(range(30), "fit"):
        clock.now += 4
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["hashlearn: fit 3/30, 0:12", "hashlearn: fit 6/30, 0:24"]
    assert len(lines) == 10


def test_tasks_of_other_threads_do_not_write_into_the_line(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr(progress, "_chosen", progress._Written(clock))

    def other():
        for _ in track(range(3), "other"):
            clock.now += 20

    for _ in track(range(2), "mine"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    written = capsys.readouterr().err
    assert "mine" in written
    assert "other" not in written


def test_fit_add_and_tune_report(seen):
    X = np.random.default_rng(0).standard_normal((200, 8))
    search = SimilaritySearch(ITQ(n_bits=8, max_iter=2, random_state=0)).fit(X)
    assert ("ITQ rounds", 2, 2) in seen
    seen.clear()
    search.add(np.tile(X, (50, 1)))
    (total,) = {total for task, _, total in seen if task == "ITQ encode"}
    assert total > 1, "a single block is done before anybody could look"
    assert ("ITQ encode", total, total) in seen
    search.remove(np.arange(len(X), len(search)))
    seen.clear()
    tune(search, vectors=X, other_n_bits=[4], n_queries=20)
    assert {"nearest vectors", "tune other lengths"} <= {task for task, _, _ in seen}


def test_a_block_that_reports_elsewhere_comes_first(seen):
    inside = []
    with progress.reporting(lambda *report: inside.append(report)):
        assert list(track("ab", "letters")) == ["a", "b"]
    assert (len(inside), seen) == (3, [])


@pytest.mark.parametrize(("how", "error"), [("bars", ValueError), (True, TypeError), (1, TypeError)])
def test_another_choice_is_refused_and_changes_nothing(how, error, seen):
    with pytest.raises(error, match='"auto", "lines", a callable or None, got'):
        hashlearn.set_progress(how)
    list(track("a", "letters"))
    assert seen
