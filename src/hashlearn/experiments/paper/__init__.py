"""The experiments of the JPSH paper (Wang et al., ACM TOMM 2022): TOML files, and the numbers it prints."""

from pathlib import Path

from hashlearn.checks import check_choice
from hashlearn.experiments.define.experiment import Experiment, read_experiment
from hashlearn.experiments.define.measures import Published, read_published

PAPER_EXPERIMENTS = ("table-1", "table-2", "table-3", "figure-4", "figures-5-6", "figure-7", "figure-8")
PAPER_TABLES = ("table-1", "table-2", "table-3")
_FOLDER = Path(__file__).parent


def paper_experiment(name: str) -> Experiment:
    """An experiment of the paper by its name.

    >>> paper_experiment("table-1").title
    'Table 1: JSH, PSH and JPSH'
    """
    return read_experiment(_FOLDER / f"{check_choice('experiment', name, PAPER_EXPERIMENTS)}.toml")


def stored_results() -> Path:
    """The folder of the runs that come with the package; in a checkout that is ``results`` at its top."""
    installed = _FOLDER / "results"
    return installed if installed.is_dir() else _FOLDER.parents[3] / "results"


def paper_table(name: str) -> Published:
    """All numbers of "table-1", "table-2" or "table-3", as printed.

    >>> paper_table("table-2")["MNIST", "mAP", 16, "JPSH"]
    0.5561
    """
    return read_published(_FOLDER / "tables" / f"{check_choice('table', name, PAPER_TABLES)}.csv")
