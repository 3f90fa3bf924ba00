"""Small files in the layouts of the original distributions, for the tests that read them."""

import gzip
import io
import tarfile

import numpy as np

CIFAR_BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def write_idx(path, values):
    data = bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes() + values.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_mnist(folder, images, labels, n_train, end=""):
    for part, rows in (("train", slice(0, n_train)), ("t10k", slice(n_train, None))):
        write_idx(folder / f"{part}-images-idx3-ubyte{end}", images[rows])
        write_idx(folder / f"{part}-labels-idx1-ubyte{end}", labels[rows])


def cifar_planes(images):
    """Pixels of images (n, 32, 32, 3) as CIFAR-10 stores them: (n, 3072), a plane per color."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), -1)


def binary_batch(images, labels):
    return np.concatenate([labels[:, None], cifar_planes(images)], axis=1).astype(np.uint8).tobytes()


def cifar_files(images, labels):
    """Six batches, name -> bytes, in the order of the rows."""
    parts = zip(CIFAR_BATCHES, np.array_split(images, 6), np.array_split(labels, 6))
    return {f"cifar-10-batches-bin/{name}.bin": binary_batch(pictures, classes) for name, pictures, classes in parts}


def write_files(folder, files):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def write_archive(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
