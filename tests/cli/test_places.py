"""No command writes to a file that it reads, whatever the file is called."""

import os

import numpy as np
import pytest

from hashlearn.cli.support.places import path_of

INPUTS = {
    "vectors": ("encode", "model", "vectors.npy", "-o", "vectors.npy"),
    "one of several files": ("encode", "model", "queries.npy", "vectors.npy", "-o", "vectors.npy"),
    "a link to the vectors": ("encode", "model", "vectors.npy", "-o", "link.npy"),
    "vectors by another way": ("encode", "model", "vectors.npy", "-o", "model/../vectors.npy"),
    "the codes": ("search", "model", "codes.npz:codes", "queries.npy", "-o", "codes.npz"),
    "the queries": ("search", "model", "codes.npy", "q.npz:Q", "-o", "q.npz"),
    "codes of an index": ("index", "build", "codes.npy", "-o", "codes.npy"),
    "sidecar of an index": ("index", "build", "codes.npy", "-o", "codes.npy.json"),
    "ids": ("index", "build", "codes.npy", "--ids", "ids.npy", "-o", "ids.npy"),
    "codes added": ("index", "add", "codes.hli", "codes.hli"),
    "index": ("index", "search", "codes.hli", "query_codes.npy", "-o", "codes.hli"),
    "codes of pairs": ("near-duplicates", "codes.npy", "-o", "codes.npy"),
    "sidecar of pairs": ("near-duplicates", "codes.npy", "-o", "codes.npy.json"),
    "labels": (
        *("evaluate", "codes.npy", "query_codes.npy", "--labels", "y.npy", "--query-labels", "yq.npy"),
        *("--json", "yq.npy"),
    ),
    "codes judged": (
        *("evaluate", "codes.npy", "query_codes.npy", "--labels", "y.npy", "--query-labels", "yq.npy"),
        *("--json", "query_codes.npy.json"),
    ),
    "names of images": ("features", "gist", "images", "-o", "new.npy", "--names", "new.npy"),
    "an image": ("features", "gist", "images", "-o", "new.npy", "--names", "images/0.png"),
    "the model": ("fit", "vectors.npy", "-m", "itq", "-b", "4", "-p", "init=@linked.npy", "-o", "model"),
}


@pytest.fixture
def files(run, folder):
    image = pytest.importorskip("PIL.Image")
    run("encode", "model", "vectors.npy", "-o", "codes.npy")
    run("encode", "model", "queries.npy", "-o", "query_codes.npy")
    run("index", "build", "codes.npy", "-o", "codes.hli")
    np.savez("codes.npz", codes=np.load("codes.npy"))
    np.savez("q.npz", Q=np.load("queries.npy"))
    np.save("ids.npy", np.arange(150))
    os.symlink("vectors.npy", "link.npy")
    os.symlink("model/model.safetensors", "linked.npy")
    os.mkdir("images")
    for i in range(2):
        image.fromarray(np.full((32, 32, 3), 100 * i, np.uint8)).save(f"images/{i}.png")
    return folder


@pytest.mark.parametrize("command", INPUTS.values(), ids=INPUTS)
def test_an_input_is_never_an_output(command, refused, files):
    assert "must be a file of its own" in refused(*command)


def test_a_file_below_the_model_may_be_an_output(run, files):
    assert run("encode", "model", "vectors.npy", "-o", "model/codes.npy").code == 0
    assert run("fit", "model/codes.npy", "-m", "lsh", "-b", 4, "-o", "model").code == 0


def test_the_file_of_a_place(files):
    (files / "a:b.npy").touch()
    places = ["vectors.npy", "codes.npz:codes", "a:b.npy", "nowhere.npy", "nowhere.npz:X"]
    assert [str(path_of(place)) for place in places] == [
        "vectors.npy",
        "codes.npz",
        "a:b.npy",
        "nowhere.npy",
        "nowhere.npz",
    ]
