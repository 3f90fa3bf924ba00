"""Reference runs of the published implementations: where they are and how to read one."""

import json
import os
from pathlib import Path

import numpy as np

FOLDER = Path(os.environ.get("HASHLEARN_ORACLES", Path(__file__).parent / "oracles"))


def oracle_files(*methods):
    """The files of these methods, or of all, whatever data, sizes and code lengths they bring."""
    files = [path for path in sorted(FOLDER.glob("*.npz")) if not path.name.startswith(("metrics_", "KMEANS"))]
    return [path for path in files if not methods or _method_of(path) in methods]


def _method_of(path):
    with np.load(path) as arrays:
        return str(arrays["method"])


class Oracle:
    """One run: ``X``, ``Xq`` as the method saw them, ``params``, and every stored array by name."""

    def __init__(self, path):
        with np.load(path) as arrays:
            self.arrays = dict(arrays)
        self.method = str(self.arrays["method"])
        self.params = json.loads(str(self.arrays["params"]))
        self.n_bits = int(self.arrays["n_bits"])
        self.X = self.arrays["X_train"] / self.arrays["x_divisor"]
        self.Xq = self.arrays["X_query"] / self.arrays["x_divisor"]

    def __getitem__(self, name):
        return self.arrays[name]

    def __contains__(self, name):
        return name in self.arrays
