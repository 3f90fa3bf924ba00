"""The reproduction of the JPSH paper: its experiments as TOML files, the runner, tables and figures."""

from hashlearn.paper.experiment import EXPERIMENTS, Experiment, experiment_named
from hashlearn.paper.published import Entry, published
from hashlearn.paper.runner import Outcome, run_experiment
from hashlearn.paper.store import Store

__all__ = ["EXPERIMENTS", "Entry", "Experiment", "Outcome", "Store", "experiment_named", "published", "run_experiment"]
