"""CIFAR-10 from its six batches: binary or python version, unpacked or still in the archive."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.datasets.dataset import Records
from hashlearn.datasets.pickled import read_batch
from hashlearn.rows.formats.problems import FileProblem, reading

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

PIXELS = 3 * 32 * 32
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")

Batch = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def read(folder: Path) -> Records | None:
    """The 50,000 training images followed by the 10,000 test images; None if the files are not there.

    The features are the pixels, image by image in the order row, column, channel.
    """
    for subfolder, archive, suffix, parse in _VERSIONS:
        for place in (folder / subfolder, folder):
            paths = [place / (name + suffix) for name in BATCHES]
            if all(path.is_file() for path in paths):
                return _records(folder, [_parsed(path, path.read_bytes(), parse) for path in paths])
        if (folder / archive).is_file():
            return _records(folder, _from_archive(folder / archive, f"{subfolder}/", suffix, parse))
    return None


def _from_archive(path: Path, prefix: str, suffix: str, parse: Callable[[bytes], Batch]) -> list[Batch]:
    """The batches, from the archive's members by name: nothing is unpacked to the disk."""
    found: dict[str, bytes] = {}
    wanted = {prefix + name + suffix for name in BATCHES}
    with reading(path, "tar.gz"), tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if name in wanted and member.isfile():
                found[name] = archive.extractfile(member).read()  # type: ignore[union-attr]
    missing = sorted(wanted - set(found))
    if missing:
        raise FileProblem(path, f"it does not hold {missing[0]}")
    return [_parsed(path, found[prefix + name + suffix], parse) for name in BATCHES]


def _parsed(path: Path, data: bytes, parse: Callable[[bytes], Batch]) -> Batch:
    try:
        return parse(data)
    except ValueError as error:
        raise FileProblem(path, str(error)) from None


def _read_binary(data: bytes) -> Batch:
    """Records of a label byte and 3,072 pixel bytes."""
    if not data or len(data) % (1 + PIXELS):
        raise ValueError(f"not a CIFAR-10 batch: {len(data)} bytes are no multiple of {1 + PIXELS}")
    records = np.frombuffer(data, np.uint8).reshape(-1, 1 + PIXELS)
    if records[:, 0].max() >= len(CLASSES):
        raise ValueError(f"not a CIFAR-10 batch: a label of {records[:, 0].max()}")
    return records[:, 1:], records[:, 0]


def _records(folder: Path, batches: list[Batch]) -> Records:
    planes = np.concatenate([pixels for pixels, _ in batches]).reshape(-1, 3, 32, 32)
    images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))  # stored as a red, a green and a blue plane
    labels = np.concatenate([labels for _, labels in batches])
    return Records(images.reshape(len(images), -1), labels, images, CLASSES)


_VERSIONS = (
    ("cifar-10-batches-bin", "cifar-10-binary.tar.gz", ".bin", _read_binary),
    ("cifar-10-batches-py", "cifar-10-python.tar.gz", "", read_batch),
)
