"""Small files in the layouts of the original distributions, for the tests that read them."""

import gzip
import io
import struct
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
    """Pixels of images (n, 32, 32, 3) as CIFAR-10 stores them: (n, 3072), a plane per colour."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), -1)


def binary_batch(images, labels):
    return np.concatenate([labels[:, None], cifar_planes(images)], axis=1).astype(np.uint8).tobytes()


def python_batch(images, labels):
    """A batch as Python 2's cPickle wrote it with protocol 2, instruction by instruction."""
    pixels = cifar_planes(images)
    memo = iter(range(1, 1 << 20))

    def put():
        place = next(memo)
        return b"q" + bytes((place,)) if place < 256 else b"r" + struct.pack("<I", place)

    def text(value):
        return b"U" + bytes((len(value),)) + value + put()

    def integer(value):
        return b"K" + bytes((value,)) if value < 256 else b"M" + struct.pack("<H", value)

    stream = [b"\x80\x02}", put(), b"(", text(b"batch_label"), text(b"training batch 1 of 5")]
    stream += [text(b"labels"), b"]", put(), b"(", *(integer(int(label)) for label in labels), b"e"]
    stream += [text(b"data"), b"cnumpy.core.multiarray\n_reconstruct\n", put(), b"cnumpy\nndarray\n", put()]
    stream += [b"K\x00\x85", put(), text(b"b"), b"\x87", put(), b"R", put()]
    stream += [b"(K\x01", integer(len(pixels)), b"M", struct.pack("<H", 3072), b"\x86", put()]
    stream += [b"cnumpy\ndtype\n", put(), text(b"u1"), b"K\x00K\x01\x87", put(), b"R", put()]
    stream += [b"(K\x03", text(b"|"), b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t", put(), b"b"]
    stream += [b"\x89T", struct.pack("<I", pixels.size), pixels.tobytes(), put(), b"t", put(), b"b"]
    stream += [text(b"filenames"), b"]", put(), b"(", *(text(b"a_%d.png" % row) for row in range(len(pixels))), b"eu."]
    return b"".join(stream)


def cifar_files(images, labels, kind):
    """Six batches, name -> bytes, in the order of the rows."""
    make, folder, end = {
        "binary": (binary_batch, "cifar-10-batches-bin", ".bin"),
        "python": (python_batch, "cifar-10-batches-py", ""),
    }[kind]
    parts = zip(CIFAR_BATCHES, np.array_split(images, 6), np.array_split(labels, 6))
    return {f"{folder}/{name}{end}": make(pictures, classes) for name, pictures, classes in parts}


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
