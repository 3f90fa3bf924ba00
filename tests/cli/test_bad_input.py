"""What bad input gets: one line that says what is wrong, exit code 2, and a disk as it was."""

import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hashlearn.cli
from hashlearn import LSH, METHODS
from hashlearn.cli import fit
from hashlearn.rows import passes

SOURCES = Path(hashlearn.__file__).parents[1]
FIT = ("fit", "vectors.npy", "-m", "itq", "-b", "8", "-o", "new")


def save_with(value):
    X = np.load("vectors.npy")
    X[3, 4] = value
    np.save("bad.npy", X)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity(method, value, refused, folder):
    save_with(value)
    assert "bad.npy must not contain NaN or infinity: row 3 has" in refused(
        "fit", "bad.npy", "-m", method, "-b", 8, "-o", "new"
    )


def test_nan_in_what_is_encoded(refused, folder):
    save_with(np.nan)
    assert "bad.npy must not contain NaN or infinity: row 3 has NaN" in refused(
        "encode", "model", "bad.npy", "-o", "codes.npy"
    )


def test_one_sample(refused, folder):
    np.save("bad.npy", np.load("vectors.npy")[:1])
    assert "1 sample" in refused("fit", "bad.npy", "-m", "itq", "-b", 8, "-o", "new")


def test_more_bits_than_there_are(refused, folder):
    assert "n_bits=13" in refused("fit", "vectors.npy", "-m", "itq", "-b", 13, "-o", "new")
    assert "n_bits must be at least 1" in refused("fit", "vectors.npy", "-m", "itq", "-b", 0, "-o", "new")


def test_fewer_samples_than_anchors(refused, folder):
    line = refused("fit", "vectors.npy", "-m", "jpsh", "-b", 8, "-p", "n_anchors=151", "-o", "new")
    assert "n_anchors=151" in line
    assert "n_samples=150" in line


def test_other_features_than_the_model_s(refused, folder):
    np.save("bad.npy", np.load("vectors.npy")[:, :5])
    line = refused("encode", "model", "bad.npy", "-o", "new.npy")
    assert "bad.npy has 5 features, the model was fitted to n_features=12" in line


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), "must hold a matrix"),
        (np.zeros((5, 3, 2)), "must hold a matrix"),
        (np.array([["a", "b"], ["c", "d"]]), "must hold numbers"),
        (np.zeros((5, 3), complex), "must hold real numbers, got complex128"),
        pytest.param(
            np.zeros((5, 3), np.longdouble),
            "must hold float64 or smaller",
            marks=pytest.mark.skipif(np.longdouble().itemsize == 8, reason="it is float64 there"),
        ),
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros((5, 0)), "0 feature"),
    ],
)
def test_what_is_no_matrix_of_numbers(array, message, refused, folder):
    np.save("bad.npy", array)
    assert message in refused("fit", "bad.npy", "-m", "itq", "-b", 2, "-o", "new")


def test_python_objects_are_not_unpickled(refused, folder):
    objects = np.array([{"a": 1}], dtype=object)
    np.save("bad.npy", objects, allow_pickle=True)
    np.savez("bad.npz", x=objects)
    for name in ("bad.npy", "bad.npz:x"):
        assert "Python objects" in refused("fit", name, "-m", "itq", "-o", "new")


def test_missing_files_and_folders(refused, folder):
    (folder / "folder.npy").mkdir()
    assert "nothing.npy: no such file" in refused("fit", "nothing.npy", "-m", "itq", "-o", "new")
    assert "nothing.npz: no such file" in refused("fit", "nothing.npz:X", "-m", "itq", "-o", "new")
    assert "nowhere does not exist" in refused("encode", "nowhere", "vectors.npy", "-o", "c.npy")
    assert "folder.npy: a folder" in refused("fit", "folder.npy", "-m", "itq", "-o", "new")
    assert "nothing.npy: no such file" in refused("search", "model", "nothing.npy", "queries.npy")
    assert "nothing.npy: no such file" in refused("evaluate", "nothing.npy", "nothing.npy", "--bits", 8)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="may read everything")
def test_a_file_without_permission(refused, folder):
    os.chmod("model/config.json", 0)
    assert "config.json: Permission denied" in refused("encode", "model", "vectors.npy", "-o", "new.npy")


@pytest.mark.parametrize(("number", "reason"), [(5, "Input/output error"), (13, "Permission denied")])
def test_a_file_that_cannot_be_read(number, reason, refused, folder, monkeypatch):
    def failing(*args, **kwargs):
        raise OSError(number, reason, "vectors.npy")

    monkeypatch.setattr(np.lib.format, "read_magic", failing)
    line = refused(*FIT)
    assert "vectors.npy: " in line
    assert reason in line


@pytest.mark.parametrize("keep", [0, 3, 40, 500, -8])
def test_a_truncated_npy(keep, refused, folder):
    (folder / "bad.npy").write_bytes((folder / "vectors.npy").read_bytes()[:keep])
    assert "bad.npy" in refused("fit", "bad.npy", "-m", "itq", "-b", 8, "-o", "new")


@pytest.mark.parametrize("keep", [5, 60, -40])
def test_a_truncated_npz(keep, refused, folder):
    np.savez_compressed("whole.npz", X=np.load("vectors.npy"))
    (folder / "bad.npz").write_bytes((folder / "whole.npz").read_bytes()[:keep])
    assert "bad.npz" in refused("fit", "bad.npz", "-m", "itq", "-b", 8, "-o", "new")


def test_a_damaged_npz(refused, folder):
    np.savez_compressed("bad.npz", X=np.load("vectors.npy"))
    content = bytearray((folder / "bad.npz").read_bytes())
    content[400:420] = bytes(20)
    (folder / "bad.npz").write_bytes(content)
    assert "bad.npz: not a readable npz file" in refused("fit", "bad.npz", "-m", "itq", "-b", 8, "-o", "new")


def test_other_files(refused, folder):
    (folder / "bad.npy").write_text("1,2,3\n4,5,6\n")
    assert "bad.npy: not a readable npy file" in refused("fit", "bad.npy", "-m", "itq", "-o", "new")
    with zipfile.ZipFile("bad.npz", "w") as file:
        file.writestr("readme.txt", "hello")
    assert "bad.npz: it holds no arrays" in refused("fit", "bad.npz", "-m", "itq", "-o", "new")


def test_an_array_that_is_not_there_or_not_named(refused, folder):
    np.savez("two.npz", a=np.zeros((3, 2)), b=np.zeros((3, 2)))
    assert "with --array or FILE:NAME: a, b" in refused("fit", "two.npz", "-m", "itq", "-o", "new")
    assert "no array named 'c'" in refused("fit", "two.npz:c", "-m", "itq", "-o", "new")
    assert "no array named 'c'" in refused("fit", "two.npz", "--array", "c", "-m", "itq", "-o", "new")
    assert "a single array" in refused("fit", "vectors.npy", "--array", "c", "-m", "itq", "-o", "new")


def test_outputs_that_cannot_be(refused, folder):
    assert "existing folder" in refused(*FIT[:-1], "no/where")
    assert "existing folder" in refused("encode", "model", "vectors.npy", "-o", "no/codes.npy")
    assert "existing folder" in refused("search", "model", "codes.npy", "queries.npy", "-o", "no/n.npz")
    assert "existing folder" in refused("evaluate", "codes.npy", "query_codes.npy", "--json", "no/r.json")
    assert "existing folder" in refused("demo", "-o", "no/demo.html")
    assert "got the file" in refused(*FIT[:-1], "y.npy")
    assert "got the folder" in refused("encode", "model", "vectors.npy", "-o", "model")
    assert "--out must end in .npy" in refused("encode", "model", "vectors.npy", "-o", "codes")
    assert "--out must end in .npz" in refused("search", "model", "codes.npy", "queries.npy", "-o", "found.npy")
    assert "with other files" in refused(*FIT[:-1], ".")


def test_methods_and_parameters_that_are_not_there(refused, folder):
    assert "method must be one of" in refused("fit", "vectors.npy", "-m", "magic", "-o", "new")
    assert "ITQ has no parameter 'rounds'; it has center" in refused(*FIT, "--param", "rounds=3")
    assert "NAME=VALUE" in refused(*FIT, "--param", "max_iter")
    assert "--bits" in refused(*FIT, "--param", "n_bits=3")
    assert "--seed" in refused(*FIT, "--param", "random_state=3")
    assert "max_iter must be an integer, got 'many'" in refused(*FIT, "--param", "max_iter=many")
    assert "init must have shape (8, 8)" in refused(*FIT, "--param", "init=@vectors.npy")


def test_wrong_use(refused, folder):
    assert "No such command 'frobnicate'" in refused("frobnicate")
    assert "No such option" in refused(*FIT, "--fast")
    assert "--bits" in refused("fit", "vectors.npy", "-m", "itq", "-b", "many", "-o", "new")
    assert "--out" in refused("fit", "vectors.npy", "-m", "itq")
    assert "-k" in refused("search", "model", "codes.npy", "queries.npy", "-k", 0)
    assert "--seed" in refused(*FIT, "--seed", -1)


def test_models_that_are_none(refused, folder):
    (folder / "model" / "model.safetensors").write_bytes(b"short")
    assert "truncated" in refused("encode", "model", "vectors.npy", "-o", "codes.npy")
    (folder / "model" / "config.json").unlink()
    assert "has no config.json" in refused("search", "model", "codes.npy", "queries.npy")


def test_memory_that_is_not_there(refused, folder, monkeypatch):
    def greedy(self, X, y=None):
        raise MemoryError("Unable to allocate 3.00 TiB for an array\nwith shape (9, 9)")

    monkeypatch.setattr(LSH, "fit", greedy)
    assert "not enough memory: Unable to allocate 3.00 TiB" in refused("fit", "vectors.npy", "-m", "lsh", "-o", "new")


def test_a_full_disk(refused, folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(passes, "write_at", full)
    assert "codes.npy: No space left on device" in refused("encode", "model", "queries.npy", "-o", "codes.npy")


def test_control_c(run, folder, monkeypatch):
    def interrupted(self, X, y=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(LSH, "fit", interrupted)
    outcome = run("fit", "vectors.npy", "-m", "lsh", "-o", "new")
    assert (outcome.code, outcome.out) == (130, "")
    assert "Traceback" not in outcome.err
    assert not (folder / "new").exists()


def test_a_fault_of_ours_is_not_hidden(folder, monkeypatch):
    def broken(self, X, y=None):
        raise ZeroDivisionError

    monkeypatch.setattr(LSH, "fit", broken)
    with pytest.raises(ZeroDivisionError):
        hashlearn.cli.main(["fit", "vectors.npy", "-m", "lsh", "-o", "new"])


def test_warnings_are_one_line(run, folder, monkeypatch):
    def warning(self, X, y=None):
        warnings.warn("fewer clusters\n  than wanted", UserWarning, stacklevel=2)
        return quiet(self, X)

    quiet = LSH.fit
    monkeypatch.setattr(LSH, "fit", warning)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        outcome = run("fit", "vectors.npy", "-m", "lsh", "-o", "new")
    assert outcome.code == 0
    assert outcome.err == "hashlearn: warning: fewer clusters than wanted\n"


def test_a_process_says_it_too(folder):
    """The same through the operating system; a reader that has had enough is no error."""
    command = [sys.executable, "-m", "hashlearn"]
    use = {"stderr": subprocess.PIPE, "text": True, "env": os.environ | {"PYTHONPATH": str(SOURCES)}}
    failed = subprocess.run([*command, "encode", "nowhere", "vectors.npy", "-o", "c.npy"], **use)
    assert failed.returncode == 2
    assert failed.stderr.splitlines() == [
        "hashlearn: error: nowhere does not exist; a model is a folder with config.json and model.safetensors"
    ]
    with subprocess.Popen([*command, "version"], stdout=subprocess.PIPE, **use) as piped:
        piped.stdout.close()
        assert piped.stderr.read() == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-3", 1e-3),
        ("true", True),
        ("False", False),
        ("None", None),
        ("null", None),
        ("itq", "itq"),
        ("[1, 2]", [1, 2]),
        ("3x", "3x"),
        ("", ""),
    ],
)
def test_parameter_values(text, value):
    assert fit.parameter_value(text) == value
