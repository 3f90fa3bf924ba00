"""FLICKR25K from the folders of MIRFLICKR-25000 (Huiskes and Lew, MIR 2008).

- ``annotations/`` or ``mirflickr25k_annotations_v080/``: per concept a text file of image numbers (1 to 25,000), such
  as ``clouds.txt``. The 24 concepts are used; the stricter ``clouds_r1.txt`` are not.
- ``features.npy`` (or any other format of vectors): a row per image, the CNN features the user has computed.
- ``meta/tags/`` or ``tags/``: per image a text file of tags, such as ``tags17.txt``.

With the tags, rows are chosen as cross-modal hashing does: tags that occur in at least 20 images, images that have one
of these and a label. Without features, the tags themselves are the features (0/1 vectors).
"""

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.datasets.dataset import Records
from hashlearn.datasets.vector_files import find_features
from hashlearn.rows.formats import FileProblem

ANNOTATIONS = ("annotations", "mirflickr25k_annotations_v080", ".")
TAGS = ("meta/tags", "tags", "mirflickr/meta/tags")
FREQUENT = 20


def read(folder: Path) -> Records | None:
    """Features, a 0/1 label matrix and the rows to use; None if there are no annotations."""
    concepts = _concept_files(folder)
    if not concepts:
        return None
    features = find_features(folder)
    tags = _read_tags(folder)
    if features is None and tags is None:
        raise FileProblem(folder, "beside the annotations it needs features.npy (a row per image) or meta/tags")
    if features is not None and tags is not None and len(features) != len(tags):
        raise FileProblem(folder, f"{len(features)} rows of features for {len(tags)} files of tags")
    n = len(features) if features is not None else len(tags)  # type: ignore[arg-type]
    labels = np.stack([_members(path, n) for path in concepts], axis=1)
    usable = labels.any(axis=1)
    if tags is not None:
        usable &= tags.any(axis=1)
    return Records(
        tags if features is None else features,
        labels,
        label_names=tuple(path.stem for path in concepts),
        rows=np.flatnonzero(usable),
    )


def _concept_files(folder: Path) -> list[Path]:
    for name in ANNOTATIONS:
        files = sorted((folder / name).glob("*.txt"))
        concepts = [path for path in files if not path.stem.endswith("_r1") and path.stem.lower() != "readme"]
        if (folder / name / "clouds.txt") in concepts:  # any other folder of text files has no such concept
            return concepts
    return []


def _members(path: Path, n: int) -> NDArray[np.uint8]:
    """1 at the images a concept's file numbers."""
    try:
        numbers = np.array(path.read_text(encoding="ascii").split(), dtype=np.int64)
    except (ValueError, OverflowError):
        raise FileProblem(path, "it must hold image numbers, one a line") from None
    if len(numbers) and (numbers.min() < 1 or numbers.max() > n):
        raise FileProblem(path, f"image numbers must be 1 to {n}, got {numbers.min()} to {numbers.max()}")
    members = np.zeros(n, np.uint8)
    members[numbers - 1] = 1
    return members


def _read_tags(folder: Path) -> NDArray[np.uint8] | None:
    """The 0/1 vectors of the frequent tags, in alphabetical order, shape (n, n_tags)."""
    place = next((folder / name for name in TAGS if (folder / name / "tags1.txt").is_file()), None)
    if place is None:
        return None
    n = sum(1 for _ in place.glob("tags*.txt"))
    paths = [place / f"tags{number}.txt" for number in range(1, n + 1)]
    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        raise FileProblem(missing, f"missing, though its folder holds {n} files of tags")
    tags = [set(path.read_text(encoding="utf-8", errors="replace").split("\n")) - {""} for path in paths]
    counts = Counter(tag for of_image in tags for tag in of_image)
    places = {tag: place for place, tag in enumerate(sorted(tag for tag in counts if counts[tag] >= FREQUENT))}
    vectors = np.zeros((n, len(places)), np.uint8)
    for row, of_image in enumerate(tags):
        vectors[row, [places[tag] for tag in of_image if tag in places]] = 1
    return vectors
