"""A small experiment on scikit-learn's digits, run once."""

import pytest

from hashlearn.experiments import read_experiment, run_experiment

SMALL = """
title = "Small"
caption = "A caption."
remarks = ["A remark."]
datasets = ["digits"]
methods = ["lsh", "itq", "sah", "jpsh"]
bits = [8, 16]
runs = 2
measures = ["mAP", "mAP_stable", "pre100_stable", "precision_at_100", "recall_at_10", "recall_at_100"]
reference = true

[dataset.digits]
scale = 16
"""


@pytest.fixture(scope="session", autouse=True)
def data_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HASHLEARN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """The TOML file."""
    path = tmp_path_factory.mktemp("experiment") / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def done(small, tmp_path_factory):
    """The folder of its results; not to be changed."""
    folder = tmp_path_factory.mktemp("results")
    run_experiment(read_experiment(small), folder, workers=1)
    return folder
