"""An experiment's file: what it may say, and what is said to one who writes it wrong."""

import numpy as np
import pytest

from hashlearn import ITQ, JPSH, METHODS
from hashlearn.experiments import read_experiment, read_published, run_experiment
from hashlearn.experiments.define.settings import ArrayFile
from hashlearn.experiments.define.tasks import tasks_of

GRID = "datasets = ['digits']\nmethods = ['lsh']\nbits = [8]\nruns = 1\n"


@pytest.fixture
def written(tmp_path):
    def written(text, name="mine.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


def test_every_method_of_the_registry_can_be_named(written):
    experiment = read_experiment(written(GRID.replace("'lsh'", ", ".join(f"'{name}'" for name in METHODS))))
    assert [task.config["method"] for task in tasks_of(experiment)] == list(METHODS)
    assert [task.title for task in tasks_of(experiment)] == [cls.__name__ for cls in METHODS.values()]


def test_a_method_that_was_just_registered_needs_nothing_else(written, monkeypatch):
    class Mine(ITQ):
        pass

    monkeypatch.setitem(METHODS, "mine", Mine)
    (task,) = tasks_of(read_experiment(written(GRID)).restricted(methods=["mine"]))
    assert type(task.hasher()) is Mine
    assert str(task) == "Mine at 8 bits on digits"


OWN_METHOD = """
from hashlearn import ITQ

class Mine(ITQ):
    pass

class NoHasher:
    pass
"""


@pytest.mark.parametrize("methods", ["'own_method:Mine'", "'mine'"])
def test_a_method_of_your_own_is_named_by_its_module_and_class(written, methods):
    text = GRID.replace("'lsh'", methods) + "[method.mine]\nmethod = 'own_method:Mine'\nparams = { center = false }\n"
    path = written(text)
    (path.parent / "own_method.py").write_text(OWN_METHOD)
    outcome = run_experiment(read_experiment(path), path.parent / "results", workers=1)
    assert (outcome.n_new, outcome.problems) == (1, ())
    (task,) = tasks_of(read_experiment(path))
    assert task.title == "Mine"
    assert task.config["method"] == "own_method:Mine"
    assert task.config["params"]["center"] == (methods != "'mine'")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Mine", "method 'no_such_module:Mine' is not found: No module named"),
        ("hashlearn:Nothing", "method 'hashlearn:Nothing' is not found"),
        ("own_method:NoHasher", "must be a subclass of hashlearn.Hasher"),
    ],
)
def test_a_class_that_is_no_method_is_named(written, name, message):
    path = written(GRID.replace("'lsh'", f"'{name}'"))
    (path.parent / "own_method.py").write_text(OWN_METHOD)
    with pytest.raises(ValueError, match=message):
        read_experiment(path)


def test_a_name_means_the_defaults_unless_the_file_says_otherwise(written):
    experiment = read_experiment(
        written(
            GRID.replace("'lsh'", "'jpsh', 'long'")
            + "[method.long]\ntitle = 'JPSH, long'\nmethod = 'jpsh'\nparams = { max_iter = 20, init = 'itq' }\n"
        )
    )
    plain, long = tasks_of(experiment)
    assert plain.hasher().get_params() == JPSH(8, random_state=0).get_params()
    assert long.hasher().get_params() == JPSH(8, max_iter=20, init="itq", random_state=0).get_params()
    assert long.title == "JPSH, long"


def test_methods_can_share_the_bits(written):
    both = GRID.replace("'lsh'", "'both'").replace("[8]", "[9]") + "[method.both]\nunion_of = ['itq', 'lsh']\n"
    (task,) = tasks_of(read_experiment(written(both)))
    parts = task.hasher().hashers
    assert [(type(part).__name__, part.n_bits, part.random_state) for part in parts] == [("ITQ", 5, 0), ("LSH", 4, 0)]
    assert task.title == "ITQ + LSH"
    assert [part["method"] for part in task.config["params"]["union"]] == ["itq", "lsh"]
    for wrong in ("params = { center = false }", "method = 'itq'"):
        with pytest.raises(ValueError, match="must have union_of, or method with its params, not both"):
            read_experiment(written(both + wrong))


def test_settings_can_be_shared_between_files(written):
    written("[method.long]\nmethod = 'jpsh'\nparams = { max_iter = 20 }\n[dataset.digits]\nscale = 16\n", "shared.toml")
    both = "settings = 'shared.toml'\n" + GRID.replace("'lsh'", "'long'")
    (task,) = tasks_of(read_experiment(written(both)))
    assert (task.config["params"]["max_iter"], task.config["scale"]) == (20, 16)
    (task,) = tasks_of(read_experiment(written(both + "[dataset.digits]\nscale = 'unit'\n")))
    assert task.config["scale"] == "unit"


def test_files_are_relative_to_the_experiment(written, tmp_path):
    path = written(
        GRID.replace("'digits'", "'shop'")
        + "[dataset.shop]\nfeatures = 'a/x.npy'\nlabels = { file = 'y.npz', array = 'kinds' }\n"
    )
    (dataset,) = read_experiment(path).datasets
    assert dataset.features == ArrayFile(str(tmp_path / "a" / "x.npy"))
    assert dataset.labels == ArrayFile(str(tmp_path / "y.npz"), "kinds")
    assert dataset.title == "shop"


def test_published_numbers_of_anybody(written, tmp_path):
    written("dataset,metric,bits,method,value\nShop,mAP,8,LSH,0.5\n", "theirs.csv")
    experiment = read_experiment(written("published = 'theirs.csv'\n" + GRID))
    assert experiment.published == {("Shop", "mAP", 8, "LSH"): 0.5}
    with pytest.raises(ValueError, match=r"bad\.csv line 2 must have a number of bits and a value"):
        read_published(written("dataset,metric,bits,method,value\nShop,mAP,eight,LSH,0.5\n", "bad.csv"))
    with pytest.raises(ValueError, match=r"bad\.csv must have the columns dataset, .* got a, b"):
        read_published(written("a,b\n", "bad.csv"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("datasets = ['digits']\nmethods = ['lsh']\nbits = [8]", "mine.toml must say its runs"),
        (GRID.replace("lsh", "nope"), "method must be one of lsh, .* got 'nope'"),
        (GRID.replace("digits", "nope"), "dataset must be one of mnist, .* got 'nope'"),
        (GRID.replace("8", "0"), "bits must be at least 1, got 0"),
        (GRID.replace("[8]", "8"), "mine.toml: bits must be a list, got 8"),
        (GRID.replace("['lsh']", "[]"), "mine.toml: methods must not be empty"),
        (GRID + "bots = 1", "mine.toml has an unknown entry: bots"),
        ("datasets = ['digits'", "is no TOML file"),
        (".".join("a" * 20_000) + " = 1", "mine.toml is no TOML file: nested too deeply"),
        (GRID + "title = 3", "mine.toml: title must be a text, got 3"),
        (GRID + "measures = ['map']", "mine.toml: measures must be one of 'mAP', .* got 'map'"),
        (GRID + "figure = 'pie'", "figure must be one of 'curves', .* got 'pie'"),
        (GRID + "figure = 'sweeps'", "must say what to vary"),
        (GRID + "draws = ['map']", "mine.toml: draws must be one of 'mAP', .* got 'map'"),
        (GRID + "params = { m = 3 }", "mine.toml: LSH has no parameter 'm'"),
        (GRID + "vary = { m = [3] }", "mine.toml: LSH has no parameter 'm'"),
        (
            GRID + "[method.x]\nmethod = 'itq'\nparams = { iters = 3 }",
            "mine.toml, method.x: ITQ has no parameter 'iters'",
        ),
        (GRID + "[method.x]\nmethod = 'itq'\nas_published = true", "method.x: itq has no published settings"),
        (GRID + "[method.x]\nmethod = 'itq'\nranking = 'best'", "ranking must be one of 'codes', 'real', got 'best'"),
        (GRID + "[dataset.'../x']\nscale = 1", "the name of a dataset must be letters, digits, - and _, got '../x'"),
        (GRID + "[method.x]\nmethod = 'nope'", "method must be one of lsh, .* got 'nope'"),
        (GRID + "[method.x]\nmethod = 'itq'\ncolor = 'red'", "mine.toml, method.x has an unknown entry: color"),
        (GRID + "[dataset.x]\nscale = 0", "mine.toml, dataset.x: scale must be above 0 or 'unit', got 0"),
        (GRID + "[dataset.x]\nlabels = 'y.npy'", "dataset.x must say its features, since it says its labels"),
        (GRID + "[dataset.x]\nfeatures = 3", "dataset.x: features must be a text or a table, got 3"),
        (
            GRID + "[dataset.x]\nfeatures = 'a.npy'\nsource = 'mnist'",
            "dataset.x must have source or features, not both",
        ),
        (
            GRID + "[dataset.x]\nfeatures = 'a.npy'\nlabels = 'y.npy'\nqueries = 'q.npy'",
            "dataset.x must have labels and query_labels, or neither",
        ),
        (GRID + "[dataset.x]\nfeatures = 'a.npy'\nn_queries = 0", "n_queries must be at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(text, complaint, written):
    with pytest.raises(ValueError, match=complaint) as raised:
        read_experiment(written(text))
    assert "\n" not in str(raised.value)
    assert "mine.toml" in str(raised.value)


def test_numbers_are_one_configuration_whatever_their_type(written):
    whole, real = (
        tasks_of(read_experiment(written(GRID.replace("lsh", "jsh") + f"params = {{ lambda3 = {weight} }}")))[0]
        for weight in ("11", "11.0")
    )
    assert whole.config == real.config
    assert np.isclose(real.config["params"]["lambda3"], 11)
