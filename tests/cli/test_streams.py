"""Standard streams that are closed or full: the work is done, or one line says why not."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hashlearn

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
ENCODE = "encode model vectors.npy -o codes.npy"
SEARCH = "search model codes.npy queries.npy -k 3"


def shell(line):
    """The outcome of a command line, with what the shell does to its streams."""
    command = f"{shlex.quote(sys.executable)} -m hashlearn {line}"
    env = os.environ | {"PYTHONPATH": str(Path(hashlearn.__file__).parents[1])}
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=env, check=False)


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_without_stderr_or_stdin_the_work_is_done(closed, folder):
    done = shell(f"{ENCODE} {closed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "150 codes" in done.stdout
    np.testing.assert_array_equal(np.load("codes.npy"), hashlearn.load("model").transform(np.load("vectors.npy")))


def test_an_error_without_stderr_is_an_exit_code(folder):
    before = sorted(os.listdir())
    assert shell("encode nowhere vectors.npy -o codes.npy 2>&-").returncode == 2
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
def test_without_stdout_nothing_is_done(closed, folder):
    before = sorted(os.listdir())
    failed = shell(f"{ENCODE} {closed}")
    assert failed.returncode == 2
    assert failed.stderr == "hashlearn: error: standard output is closed; to discard it, write it to /dev/null\n"
    assert sorted(os.listdir()) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
@pytest.mark.parametrize("line", ["methods", SEARCH, "--help"])
def test_a_full_stdout_is_one_line(line, folder, run):
    run(*ENCODE.split())
    failed = shell(f"{line} >/dev/full")
    assert failed.returncode == 2
    assert failed.stderr == "hashlearn: error: standard output: No space left on device\n"
