"""Work in the background: once a key, its progress is seen, its errors are one line."""

import threading
import time

from hashlearn.progress import track
from hashlearn.server.page.jobs import FINISHED_KEPT, Jobs


def finished(job):
    deadline = time.monotonic() + 30
    while not job.done and time.monotonic() < deadline:
        time.sleep(0.005)
    assert job.done
    return job


def test_work_is_done_once_and_its_progress_is_seen():
    jobs, calls, seen, go_on = Jobs(), [], threading.Event(), threading.Event()

    def work():
        calls.append(1)
        for step in track(range(3), "steps"):
            if step == 1:
                seen.set()
                assert go_on.wait(30)
        return "answer"

    job = jobs.started("one", work)
    assert seen.wait(30)
    assert job.progress == ("steps", 1, 3)
    assert jobs.started("one", work) is job
    go_on.set()
    assert finished(job).result == "answer"
    assert calls == [1]
    jobs.stop()


def test_what_the_library_refuses_is_told_and_other_faults_are_not():
    def refuse():
        raise ValueError("n_bits must be at most 8, got 9\nand more")

    def fail():
        raise RuntimeError("/secret/path")

    jobs = Jobs()
    assert finished(jobs.started("refused", refuse)).error == "n_bits must be at most 8, got 9"
    assert "secret" not in finished(jobs.started("failed", fail)).error
    jobs.stop()


def test_only_the_latest_results_are_kept():
    jobs = Jobs()
    for number in range(3 * FINISHED_KEPT):
        finished(jobs.started(str(number), lambda: 0))
    assert jobs.find("0") is None
    assert jobs.find(str(3 * FINISHED_KEPT - 1)) is not None
    jobs.stop()
