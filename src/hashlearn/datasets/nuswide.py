"""NUS-WIDE from its concept lists (Chua et al., CIVR 2009).

- ``Groundtruth/AllLabels/``, ``AllLabels/`` or the folder itself: ``Labels_sky.txt`` and so on, a 0 or 1 per image.
- ``features.npy`` (or any other format of vectors): a row per image, the CNN features the user has computed; without
  it ``AllTags1k.txt`` (also in ``NUS_WID_Tags/``), whose 1,000 tags then are the features.

The 21 most frequent concepts are kept, and the images that have one of them.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.datasets.dataset import Records
from hashlearn.datasets.vector_files import find_features
from hashlearn.rows.formats import FileProblem

CONCEPTS = 21
LABELS = ("Groundtruth/AllLabels", "AllLabels", ".")
TAGS = ("AllTags1k.txt", "NUS_WID_Tags/AllTags1k.txt")
BLOCK = 1 << 24


def read(folder: Path) -> Records | None:
    """Features, the 0/1 matrix of the frequent concepts and the rows to use; None if there are no concept lists."""
    lists = next((files for name in LABELS if (files := sorted((folder / name).glob("Labels_*.txt")))), [])
    if not lists:
        return None
    columns = [_zeros_and_ones(path) for path in lists]
    for path, column in zip(lists, columns):
        if len(column) != len(columns[0]):
            raise FileProblem(path, f"{len(column)} images, but {len(columns[0])} in {lists[0].name}")
    frequent = np.sort(np.argsort([-int(column.sum()) for column in columns], kind="stable")[:CONCEPTS])
    labels = np.stack([columns[place] for place in frequent], axis=1)
    features = _features(folder, len(labels))
    names = tuple(lists[place].stem.removeprefix("Labels_") for place in frequent)
    return Records(features, labels, label_names=names, rows=np.flatnonzero(labels.any(axis=1)))


def _features(folder: Path, n: int) -> NDArray:
    features = find_features(folder)
    if features is None:
        path = next((folder / name for name in TAGS if (folder / name).is_file()), None)
        if path is None:
            raise FileProblem(
                folder, "beside the concept lists it needs features.npy (a row per image) or AllTags1k.txt"
            )
        values = _zeros_and_ones(path)
        if len(values) % n:
            raise FileProblem(path, f"{len(values)} values are no multiple of the {n} images")
        features = values.reshape(n, -1)
    if len(features) != n:
        raise FileProblem(folder, f"{len(features)} rows of features for {n} images")
    return features


def _zeros_and_ones(path: Path) -> NDArray[np.uint8]:
    """All digits of a text of 0 and 1, a block at a time, because the file of tags has 270 million digits."""
    blocks = []
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            characters = np.frombuffer(block, np.uint8)
            digits = characters[characters > ord(" ")] - ord("0")
            if len(digits) and digits.max() > 1:
                raise FileProblem(path, "it must hold nothing but 0 and 1")
            blocks.append(digits)
    if not blocks:
        raise FileProblem(path, "empty")
    return np.concatenate(blocks)
