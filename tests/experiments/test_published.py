"""The paper's tables are all there, and the experiments find their numbers in them."""

import itertools

import pytest

from hashlearn import JPSH
from hashlearn.experiments import EXPERIMENTS, Entry, experiment_named, published
from hashlearn.experiments.experiment import dataset_settings, row_named
from hashlearn.experiments.tasks import tasks_of

DATASETS = ("MNIST", "CIFAR-10", "NUS-WIDE", "FLICKR25K")
METHODS = ("LSH", "SH", "PCA-ITQ", "SP", "SGH", "OEH", "OCH", "JSH", "CH", "RSSH", "JPSH")
BITS = (8, 16, 32, 64, 96, 128)


def test_table_2_is_complete():
    places = {Entry(*place) for place in itertools.product(DATASETS, ("mAP", "Pre@100"), BITS, METHODS)}
    assert len(places) == 528
    assert set(published("table-2")) == places
    assert all(0.1 <= value < 1 for value in published("table-2").values())


def test_values_as_printed():
    assert published("table-2")[Entry("MNIST", "mAP", 16, "JPSH")] == 0.5561
    assert published("table-2")[Entry("FLICKR25K", "mAP", 8, "PCA-ITQ")] == 0.6949
    assert published("table-1")[Entry("CIFAR-10", "mAP", 16, "PSH")] == 0.1133
    assert published("table-3")[Entry("CIFAR-10", "seconds", 96, "JPSH")] == 62.6788
    assert (len(published("table-1")), len(published("table-3"))) == (12, 9)


def test_the_published_jpsh_improves_on_jsh_as_the_paper_says_in_its_text():
    """23.76 % on MNIST, which is the mean over the lengths."""
    table = published("table-2")
    gains = [table["MNIST", "mAP", n, "JPSH"] / table["MNIST", "mAP", n, "JSH"] - 1 for n in BITS]
    assert sum(gains) / len(gains) == pytest.approx(0.2376, abs=5e-5)


def test_unknown_table():
    with pytest.raises(ValueError, match="table must be one of 'table-1', 'table-2', 'table-3', got 'table-4'"):
        published("table-4")


@pytest.mark.parametrize("table", ["table-1", "table-2", "table-3"])
def test_every_number_of_a_table_has_a_row_in_its_experiment(table):
    part = experiment_named(table).parts[0]
    datasets = {dataset_settings(name).title for name in part.datasets}
    methods = {row_named(name).title for name in part.methods}
    for place in published(table):
        assert place.dataset in datasets
        assert place.method in methods
        assert place.bits in part.bits


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_names_methods_and_parameters_that_exist(name):
    experiment = experiment_named(name).restricted(runs=1)
    configs = [task.config for task in tasks_of(experiment)]
    assert all(config["seed"] == 0 for config in configs)
    assert {config["dataset"] for config in configs} == set(experiment.datasets)


def test_settings_are_those_of_the_published_programs():
    def params(method, dataset):
        hasher = row_named(method).hasher(dataset_settings(dataset), 16, 0, {})
        return hasher.get_params()

    assert params("jpsh", "flickr25k") == JPSH.paper("flickr25k", 16, random_state=0).get_params()
    assert params("jpsh-ours", "mnist") == JPSH(16, random_state=0).get_params()
    assert params("jpsh0", "mnist") == JPSH.paper("mnist", 16, anchors="random", random_state=0).get_params()
    assert params("oeh", "mnist")["as_released"]
    assert params("och", "mnist")["as_released"]
    for dataset, k, rounds in (("mnist", 5, 10), ("cifar-10", 5, 5), ("nus-wide", 10, 10), ("flickr25k", 10, 10)):
        jsh = params("jsh", dataset)
        assert (jsh["n_anchors"], jsh["alpha"], jsh["n_neighbors"], jsh["max_iter"]) == (500, 10, k, rounds)
        psh, jpsh = params("psh", dataset), params("jpsh", dataset)
        shared = ("n_anchors", "n_anchor_neighbors", "lambda1", "lambda2", "max_iter", "rescale", "bias")
        assert {name: psh[name] for name in shared} == {name: jpsh[name] for name in shared}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("datasets = ['digits']\nmethods = ['lsh']\nbits = [8]", "must say its runs"),
        ("datasets = ['digits']\nmethods = ['nope']\nbits = [8]\nruns = 1", "method must be one of .* got 'nope'"),
        ("datasets = ['digits']\nmethods = ['lsh']\nbits = [0]\nruns = 1", "bits must be at least 1, got 0"),
        ("datasets = ['digits']\nmethods = ['lsh']\nbits = [8]\nruns = 1\nbots = 1", "unknown entry: bots"),
        ("datasets = ['digits'", "is no TOML file"),
    ],
)
def test_an_experiment_of_ones_own_is_checked(text, complaint, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint):
        experiment_named(str(path))
