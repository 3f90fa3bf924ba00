"""Embeddings that were computed before: nobody distributes them, so they are read from a prepared file only.

``cifar-10-cnn`` are the pooled features of EfficientNet-lite0 for CIFAR-10, 1,280 numbers an image, none below zero. A
file of them may hold bytes instead of floats: ``V`` with ``X = 6 (V / 255)^2`` takes a quarter of the space.
"""

from pathlib import Path

import numpy as np

from hashlearn.datasets.dataset import Records
from hashlearn.rows.formats import array_names, read_array

CIFAR_CNN_BYTES = "cifar10_cnn1280.npz"
LARGEST = 6


def read_cifar_cnn(folder: Path) -> Records | None:
    """The features, classes and queries of a file of bytes; None if the folder has none."""
    path = folder / CIFAR_CNN_BYTES
    if not path.is_file() or "V" not in array_names(path):
        return None
    V = read_array(path, "V")
    features = np.square(V, dtype=np.float32)
    features *= np.float32(LARGEST / 255**2)
    return Records(features, labels=read_array(path, "y"), query=read_array(path, "query").reshape(-1))


def read_nothing(folder: Path) -> Records | None:
    """None: there are no original files, only a prepared file is read."""
    return None
