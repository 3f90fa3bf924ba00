"""MNIST and Fashion-MNIST from their four idx files, with or without .gz."""

import gzip
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.datasets.dataset import Records
from hashlearn.rows.formats.problems import file_problem, reading

UNSIGNED_BYTES = 0x08

FOLDERS = (".", "raw")


def read(folder: Path) -> Records | None:
    """The 60,000 training images followed by the 10,000 test images; None if the files are not there."""
    files = [_find(folder, part, kind) for kind in ("images-idx3", "labels-idx1") for part in ("train", "t10k")]
    if None in files:
        return None
    train, test, train_labels, test_labels = (read_idx(path) for path in files if path is not None)
    images, labels = np.concatenate([train, test]), np.concatenate([train_labels, test_labels])
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise file_problem(folder, f"images {images.shape} and labels {labels.shape} do not belong together")
    return Records(images.reshape(len(images), -1), labels, images)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes from an idx file: two zero bytes, type, number of axes, their lengths (big-endian), values."""
    with reading(path, "idx"):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(data) < 4 or data[:3] != bytes((0, 0, UNSIGNED_BYTES)):
        raise file_problem(path, "not an idx file of bytes: its first bytes are not 0, 0, 8")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise file_problem(path, "truncated in its header")
    shape = tuple(int(length) for length in np.frombuffer(data, ">u4", count=data[3], offset=4))
    if len(data) - start != math.prod(shape):
        raise file_problem(path, f"{shape} values take {math.prod(shape)} bytes, it has {len(data) - start}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _find(folder: Path, part: str, kind: str) -> Path | None:
    """The file, under its name with a hyphen or (as some unpackers write it) a dot before ``idx``."""
    names = [f"{part}-{kind}-ubyte", f"{part}-{kind.replace('-', '.')}-ubyte"]
    candidates = [folder / inner / (name + end) for inner in FOLDERS for name in names for end in ("", ".gz")]
    return next((path for path in candidates if path.is_file()), None)
