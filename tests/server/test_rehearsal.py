"""Nobody who asks a server that is ready waits for a compiler."""

import sys
from pathlib import Path

import compilation
import pytest
from forked import run_forked

PROGRAM = Path(compilation.__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize("id", ["7", "seven/siebenä"])
def test_after_a_rehearsal_no_request_compiles_anything(make_search, digits, tmp_path, id):
    """In a process of its own, which has imported the library and called no kernel: other tests have compiled here."""
    folder = make_search(tmp_path / "search")
    command = [sys.executable, "-c", PROGRAM, str(folder), id]
    done = run_forked(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["10 requests answered", "compiled: []"]


def test_the_count_of_kernels_would_see_one():
    from hashlearn.compiled import compiled

    add_one = compiled(lambda x: x + 1)
    before = compilation.kernels()
    add_one(1)
    assert compilation.kernels() != before
