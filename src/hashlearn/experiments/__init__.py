"""Experiments described in TOML files: the runner, tables and figures; the JPSH paper's own; and the demo."""

from hashlearn.experiments.define.experiment import Experiment, read_experiment
from hashlearn.experiments.define.measures import Published, PublishedPlace, read_published
from hashlearn.experiments.paper import PAPER_EXPERIMENTS, paper_experiment, paper_table
from hashlearn.experiments.results import ResultFolder, Results
from hashlearn.experiments.run import Outcome, run_experiment

__all__ = [
    "PAPER_EXPERIMENTS",
    "Experiment",
    "Outcome",
    "Published",
    "PublishedPlace",
    "ResultFolder",
    "Results",
    "paper_experiment",
    "paper_table",
    "read_experiment",
    "read_published",
    "run_experiment",
]
