"""A folder with vectors, labels and a model, and a way to run a command in it."""

from dataclasses import dataclass

import numpy as np
import pytest

from hashlearn import ITQ
from hashlearn.cli import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys):
    """Run a command line in this process."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Outcome(ended.value.code, printed.out, printed.err)

    return run


@pytest.fixture
def refused(run, folder):
    """Run a command that must fail: exit code 2, one line on stderr, and no file is made or changed."""

    def refused(*arguments):
        before = snapshot(folder)
        outcome = run(*arguments)
        assert outcome.code == 2, outcome
        assert outcome.out == ""
        assert outcome.err.startswith("hashlearn: error: ")
        assert outcome.err.count("\n") == 1, outcome.err
        assert snapshot(folder) == before
        return outcome.err

    return refused


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two clouds of vectors, their labels, queries, and a model of 12 bits, in the working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    y, yq = rng.randint(0, 2, 150), rng.randint(0, 2, 30)
    X, Xq = rng.randn(150, 12) + 3 * y[:, None], rng.randn(30, 12) + 3 * yq[:, None]
    for name, array in {"vectors": X, "queries": Xq, "y": y, "yq": yq}.items():
        np.save(f"{name}.npy", array)
    ITQ(n_bits=12, random_state=0).fit(X).save("model")
    return tmp_path


def snapshot(folder):
    """Every file and its content; without what SQLite has beside a catalog while it is open."""
    paths = (path for path in sorted(folder.rglob("*")) if not path.name.startswith("catalog.db-"))
    return {path: path.read_bytes() if path.is_file() else None for path in paths}
