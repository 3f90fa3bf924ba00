"""Every tutorial runs to its end and draws a figure."""

import runpy
import warnings
from pathlib import Path

import matplotlib
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tutorials"


@pytest.mark.parametrize("script", sorted(FOLDER.glob("plot_*.py")), ids=lambda script: script.stem)
def test_a_tutorial_runs_and_draws(script, monkeypatch):
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(script))
    assert plt.get_fignums()
    plt.close("all")
