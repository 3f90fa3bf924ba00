"""Files that hold a whole dataset: features with labels and split, in the common layouts.

=====================================================  =========================================================
arrays                                                 written by
=====================================================  =========================================================
X, y or Y, query, images                               this project; all but X may be missing
traindata, traingnd, testdata, testgnd                 the authors of JPSH and many others (.mat)
train, test, neighbors                                 ann-benchmarks
x_train, y_train, x_test, y_test                       Keras
=====================================================  =========================================================

Any other file of vectors is features without labels.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.datasets.dataset import Records
from hashlearn.rows.formats import SUFFIXES, FileProblem, array_names, read_array, read_vectors


def read_file(path: Path, array: str | None = None, header: bool | None = None) -> Records:
    """The records of a file; ``array`` names the features where it holds several, ``header`` is for csv files."""
    names = set(array_names(path))
    if array is None and {"traindata", "testdata"} <= names:
        return _train_and_test(path, names, ("traindata", "testdata"), ("traingnd", "testgnd"))
    if array is None and {"train", "test"} <= names:
        records = _train_and_test(path, names, ("train", "test"), ("", ""))
        return Records(
            records.features,
            query=records.query,
            neighbors=read_array(path, "neighbors") if "neighbors" in names else None,
        )
    if array is None and {"x_train", "x_test", "y_train", "y_test"} <= names:
        return _keras(path)
    label = next((name for name in ("y", "Y", "labels") if name in names - {(array or "").lstrip("/")}), None)
    return Records(
        read_vectors(path, array, header=header),
        labels=_as_labels(path, read_array(path, label), label) if label is not None else None,
        images=read_array(path, "images") if "images" in names else None,
        query=read_array(path, "query").reshape(-1) if "query" in names else None,
    )


def find_features(folder: Path) -> NDArray | None:
    """The vectors of a file named ``features`` in the folder."""
    path = next((folder / f"features{suffix}" for suffix in SUFFIXES if (folder / f"features{suffix}").is_file()), None)
    return None if path is None else read_vectors(path)


def _train_and_test(path: Path, names: set[str], features: tuple[str, str], labels: tuple[str, str]) -> Records:
    """The training rows followed by the test rows, which are the queries."""
    train, test = (read_vectors(path, name) for name in features)
    if train.shape[1] != test.shape[1]:
        raise FileProblem(path, f"{features[0]} has {train.shape[1]} columns and {features[1]} {test.shape[1]}")
    both = None
    if set(labels) <= names:
        parts = [_as_labels(path, read_array(path, name), name) for name in labels]
        if parts[0].shape[1:] != parts[1].shape[1:]:
            raise FileProblem(path, f"{labels[0]} and {labels[1]} have different shapes")
        if (len(parts[0]), len(parts[1])) != (len(train), len(test)):
            raise FileProblem(path, f"{labels[0]} and {labels[1]} do not have a row for every row of the features")
        both = np.concatenate(parts)
    query = np.arange(len(train), len(train) + len(test))
    return Records(np.concatenate([train, test]), both, query=query)


def _keras(path: Path) -> Records:
    images = np.concatenate([read_array(path, "x_train"), read_array(path, "x_test")])
    labels = np.concatenate([read_array(path, "y_train").reshape(-1), read_array(path, "y_test").reshape(-1)])
    return Records(images.reshape(len(images), -1), labels, images if images.ndim > 2 else None)


def _as_labels(path: Path, values: NDArray, name: str) -> NDArray:
    """Class numbers of shape (n,), or a 0/1 matrix. MATLAB files often have floats in a single column."""
    if values.ndim == 2 and 1 in values.shape:
        values = values.reshape(-1)
    if values.ndim not in (1, 2) or values.dtype.kind not in "buif" or not np.array_equal(values, np.rint(values)):
        wanted = "whole numbers of shape (n,) or (n, n_classes)"
        raise FileProblem(path, f"labels must be {wanted}, got shape {values.shape} of {values.dtype} in {name!r}")
    if values.ndim == 2:
        return (values > 0).astype(np.uint8)
    return values.astype(np.int64) if values.dtype.kind in "bf" else values
