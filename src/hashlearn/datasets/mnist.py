"""MNIST and Fashion-MNIST from their four idx files, with or without .gz."""

from pathlib import Path

import numpy as np

from hashlearn.datasets.dataset import Records
from hashlearn.rows.formats import FileProblem, read_array

FOLDERS = (".", "raw")


def read(folder: Path) -> Records | None:
    """The 60,000 training images followed by the 10,000 test images; None if the files are not there."""
    files = [_find(folder, part, kind) for kind in ("images-idx3", "labels-idx1") for part in ("train", "t10k")]
    if None in files:
        return None
    train, test, train_labels, test_labels = (read_array(path) for path in files if path is not None)
    for images, labels in ((train, train_labels), (test, test_labels)):
        if images.ndim != 3 or images.shape[1:] != train.shape[1:] or labels.shape != images.shape[:1]:
            raise FileProblem(folder, f"images {images.shape} and labels {labels.shape} do not belong together")
    images, labels = np.concatenate([train, test]), np.concatenate([train_labels, test_labels])
    return Records(images.reshape(len(images), -1), labels, images)


def _find(folder: Path, part: str, kind: str) -> Path | None:
    """The file, under its name with a hyphen or (as some unpackers write it) a dot before ``idx``."""
    names = [f"{part}-{kind}-ubyte", f"{part}-{kind.replace('-', '.')}-ubyte"]
    candidates = [folder / inner / (name + end) for inner in FOLDERS for name in names for end in ("", ".gz")]
    return next((path for path in candidates if path.is_file()), None)
