"""``hashlearn explain``: the numbers of the API, and codes of another model refused."""

import json

import numpy as np

from hashlearn import ITQ
from hashlearn.metrics import explain_codes


def test_it_prints_and_writes_what_the_function_finds(run, folder):
    assert run("encode", "model", "vectors.npy", "-o", "codes.npy").code == 0
    outcome = run("explain", "model", "codes.npy", "--labels", "y.npy", "--top", 3, "--json", "bits.json")
    assert outcome.code == 0
    found = explain_codes(np.load("codes.npy"), 12, np.load("y.npy"))
    assert outcome.out == f"itq, 12 bits\n{found.table(3)}\n"
    written = json.loads((folder / "bits.json").read_text())
    assert written["label_information"] == found.label_information.tolist()


def test_codes_of_another_model_are_refused(run, refused, folder):
    ITQ(12, random_state=1).fit(np.load("vectors.npy")).save("other")
    assert run("encode", "other", "vectors.npy", "-o", "codes.npy").code == 0
    assert "codes.npy holds codes of another model than model" in refused("explain", "model", "codes.npy")
