"""Kernels work wherever the package can be read: with a cache, without one, and with one that is damaged."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from other_processors import copy_kernels

import hashlearn

PACKAGE = Path(hashlearn.__file__).parent
USE = """
import numpy as np
from hashlearn.index.kernels.tiles import read_tiles, tiled
words = np.empty((2, 1), np.uint64)
codes = np.arange(64, dtype="<u8").view(np.uint8).reshape(64, 8)
read_tiles(tiled(codes, 64), np.array([3, 5]), words)
print(words.ravel())
"""
FIT = """
import numpy as np
from hashlearn import JPSH
X = np.random.RandomState(0).randn(80, 6)
print(JPSH(n_bits=8, random_state=0).fit_transform(X).shape)
"""


def run(code, package, **environment):
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "NUMBA_CACHE_DIR")}
    env |= {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run([sys.executable, *code], env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def package(tmp_path):
    """A copy of the package that nothing can be written to, as in a read-only container; root cannot either.

    A file is where numba would make its folder: beside the source, in the user's cache and in NUMBA_CACHE_DIR.
    """
    copy = tmp_path / "site" / "hashlearn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    return copy


@pytest.fixture
def nowhere(tmp_path):
    (tmp_path / "file").touch()
    return dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), str(tmp_path / "file" / "below"))


def test_no_kernel_has_a_way_of_its_own():
    """One that calls numba itself would die where no cache can be written."""
    users = [path for path in PACKAGE.rglob("*.py") if re.search(r"\bn?jit\b", path.read_text(encoding="utf-8"))]
    assert [path.name for path in users] == ["compiled.py"]


KERNELS = """
from hashlearn.compiled import compiled

@compiled
def plus(number, more):
    return number + more

@compiled
def seven_times(number):
    total = 0
    for _ in range(3):
        total = plus(total, plus(number, number))
    return plus(total, number) + plus(0, 0)
"""


def test_a_kernel_is_compiled_once_for_constants_and_variables(tmp_path, monkeypatch):
    (tmp_path / "kernels_of_a_test.py").write_text(KERNELS)  # a new place: no earlier run has left them compiled
    monkeypatch.syspath_prepend(tmp_path)
    kernels = importlib.import_module("kernels_of_a_test")
    assert kernels.seven_times(3) == 21
    assert len(kernels.plus.signatures) == 1


def test_a_read_only_place_without_a_home_gets_one_warning_that_says_what_to_set(package, nowhere):
    done = run(["-c", FIT + USE], package, **nowhere)
    assert (done.returncode, done.stdout) == (0, "(80, 1)\n[3 5]\n"), done.stderr
    assert done.stderr.count("RuntimeWarning") == 1
    assert "set NUMBA_CACHE_DIR to a folder that can be written" in done.stderr


def test_the_command_line_works_there_too(package, nowhere):
    done = run(["-m", "hashlearn", "methods"], package, **nowhere)
    assert done.returncode == 0, done.stderr
    assert "jpsh" in done.stdout
    assert [line[:19] for line in done.stderr.splitlines()] == ["hashlearn: warning:"]


def test_a_damaged_cache_and_one_that_is_full_cost_time_only(nowhere, tmp_path):
    package, cache = copy_kernels(tmp_path / "kernels"), tmp_path / "cache"
    place = nowhere | {"NUMBA_CACHE_DIR": str(cache)}
    assert run(["-c", USE], package, **place).stderr == ""
    files = [path for path in cache.rglob("*") if path.is_file()]
    for path in files:
        path.write_bytes(path.read_bytes()[:20])
    damaged = run(["-c", USE], package, **place)
    assert (damaged.returncode, damaged.stdout, damaged.stderr) == (0, "[3 5]\n", "")
    assert sum(path.stat().st_size > 20 for path in files if path.exists()) == len(files)  # they are kept again
    for path in files:
        path.unlink(missing_ok=True)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n" if os.name != "nt" else ""
    full = run(["-c", limit + USE], package, **place)
    assert (full.returncode, full.stdout) == (0, "[3 5]\n"), full.stderr


def test_a_change_of_a_helper_compiles_the_kernels_that_import_it_and_no_others(nowhere, tmp_path):
    package = copy_kernels(tmp_path / "kernels")
    place = nowhere | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    code = USE + "print(sum(read_tiles.stats.cache_misses.values()))"

    def misses_after_a_change_of(name):
        with (package / "index" / "kernels" / name).open("a", encoding="utf-8") as file:
            file.write("\nUNUSED = 1\n")
        done = run(["-c", code], package, **place)
        assert done.stderr == ""
        return int(done.stdout.splitlines()[1])

    assert misses_after_a_change_of("tiles.py") == 1
    assert misses_after_a_change_of("rerank.py") == 0
    assert misses_after_a_change_of("simd.py") == 1  # tiles.py imports it


def test_a_program_that_finds_its_kernels_imports_nothing_that_only_compiling_needs(nowhere, tmp_path):
    package = copy_kernels(tmp_path / "kernels")
    place = nowhere | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    code = USE + "import sys\nprint('numba.np.arrayobj' in sys.modules)"
    runs = [run(["-c", code], package, **place) for _ in range(2)]
    assert [done.stdout.splitlines() for done in runs] == [["[3 5]", "True"], ["[3 5]", "False"]]


def test_of_two_processes_of_the_tests_one_compiles_a_kernel(nowhere, tmp_path):
    package = copy_kernels(tmp_path / "kernels")
    code = (
        "from one_compiler import compile_once\ncompile_once()\n"
        + USE
        + "print(sum(read_tiles.stats.cache_misses.values()))"
    )
    path = os.pathsep.join([str(package.parent), str(Path(__file__).parent)])
    place = nowhere | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}
    with ThreadPoolExecutor() as both:
        done = list(both.map(lambda _: run(["-c", code], package, **place), range(2)))
    assert [each.stderr for each in done] == ["", ""]
    assert sorted(each.stdout.splitlines()[1] for each in done) == ["0", "1"]
