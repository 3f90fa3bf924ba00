"""Experiments described in TOML files: the runner, tables and figures; the JPSH paper's own; and the demo."""

from hashlearn.experiments.experiment import Experiment, read_experiment
from hashlearn.experiments.paper import PAPER_EXPERIMENTS, paper_experiment, paper_table
from hashlearn.experiments.published import Published, PublishedPlace, read_published
from hashlearn.experiments.result_lines import ResultFolder
from hashlearn.experiments.runner import Outcome, run_experiment
from hashlearn.experiments.summary import Results

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
