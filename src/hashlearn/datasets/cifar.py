"""CIFAR-10 from the six batches of its binary version, unpacked or still in the archive."""

import gzip
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.datasets.dataset import Records
from hashlearn.rows.formats import FileProblem
from hashlearn.rows.formats.problems import reading
from hashlearn.rows.formats.streams import read_to_end

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

PIXELS = 3 * 32 * 32
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
BATCH_BYTES = 10_000 * (1 + PIXELS)

FOLDER, ARCHIVE = "cifar-10-batches-bin", "cifar-10-binary.tar.gz"
PICKLED = ("cifar-10-batches-py", "cifar-10-python.tar.gz")


def read(folder: Path) -> Records | None:
    """The 50,000 training images followed by the 10,000 test images; None if the files are not there.

    The features are the pixels, image by image in the order row, column, channel.
    """
    for place in (folder / FOLDER, folder):
        paths = [place / f"{name}.bin" for name in BATCHES]
        if all(path.is_file() for path in paths):
            return _records([_from_file(path) for path in paths])
    if (folder / ARCHIVE).is_file():
        return _records(_from_archive(folder / ARCHIVE))
    for name in PICKLED:
        if (folder / name).exists():
            raise FileProblem(folder / name, f"a pickle, which is never read; put {ARCHIVE} beside it instead")
    return None


def _from_file(path: Path) -> NDArray[np.uint8]:
    with path.open("rb") as file:
        return _records_of_bytes(path, file.read(BATCH_BYTES + 1))


def _from_archive(path: Path) -> list[NDArray[np.uint8]]:
    """The batches, from the archive's members by name: nothing is unpacked to the disk."""
    found: dict[str, NDArray[np.uint8]] = {}
    wanted = [f"{FOLDER}/{name}.bin" for name in BATCHES]
    with reading(path, "tar.gz"), gzip.open(path) as stream:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                content = archive.extractfile(member) if name in wanted else None
                if content is not None:
                    found[name] = _records_of_bytes(path, content.read(BATCH_BYTES + 1))
        read_to_end(path, stream, len(BATCHES) * BATCH_BYTES)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise FileProblem(path, f"it does not hold {missing[0]}")
    return [found[name] for name in wanted]


def _records_of_bytes(path: Path, content: bytes) -> NDArray[np.uint8]:
    """A row for each image: the byte of its label and 3,072 bytes of pixels."""
    if not content or len(content) % (1 + PIXELS) or len(content) > BATCH_BYTES:
        raise FileProblem(
            path,
            f"not a CIFAR-10 batch: it must be 1 to 10000 times {1 + PIXELS} bytes, got {len(content)}",
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + PIXELS)
    if records[:, 0].max() >= len(CLASSES):
        raise FileProblem(path, f"not a CIFAR-10 batch: a label of {records[:, 0].max()}")
    return records


def _records(batches: list[NDArray[np.uint8]]) -> Records:
    rows = np.concatenate(batches)
    planes = rows[:, 1:].reshape(-1, 3, 32, 32)
    images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))  # stored as a red, a green and a blue plane
    return Records(images.reshape(len(images), -1), rows[:, 0].copy(), images, CLASSES)
