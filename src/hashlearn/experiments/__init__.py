"""The reproduction of the JPSH paper: its experiments as TOML files, the runner, tables and figures."""

from hashlearn.experiments.experiment import EXPERIMENTS, Experiment, experiment_named
from hashlearn.experiments.published import Entry, published
from hashlearn.experiments.runner import Outcome, run_experiment
from hashlearn.experiments.store import Store

__all__ = ["EXPERIMENTS", "Entry", "Experiment", "Outcome", "Store", "experiment_named", "published", "run_experiment"]
