"""The datasets known by name: where they are looked for, from where they are downloaded, how they are split.

Only files with a published address and checksum are downloaded. The user puts the other files into a folder; ``wanted``
names them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hashlearn.datasets import cifar, embeddings, mirflickr, mnist, nuswide
from hashlearn.datasets.dataset import Records
from hashlearn.datasets.download import RemoteFile
from hashlearn.datasets.splits import SplitRule


@dataclass(frozen=True)
class Entry:
    """A dataset known by name.

    Attributes
    ----------
    name : str
    read : function folder -> Records or None
        Reads the original files, if they are in the folder.
    rule : SplitRule
        The paper's split, for files without a split.
    stems : tuple of str
        Names, without ending, of a prepared file (see :mod:`~hashlearn.datasets.vector_files`) or of a subfolder.
    wanted : str
        The files to put into the folder.
    remote : tuple of RemoteFile
    features : str
        The features of an image, if the files hold images: "pixels" or "gist".
    at_top : bool
        Whether the original files are also looked for in the data folder itself. False for Fashion-MNIST, whose files
        have the names of MNIST's.
    """

    name: str
    read: Callable[[Path], Records | None]
    rule: SplitRule
    stems: tuple[str, ...]
    wanted: str
    remote: tuple[RemoteFile, ...] = ()
    features: str = "pixels"
    at_top: bool = True


def _idx_files(mirrors: tuple[str, ...], checksums: tuple[str, str, str, str]) -> tuple[RemoteFile, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    files = [f"{name}-ubyte.gz" for name in names]
    return tuple(
        RemoteFile(file, tuple(mirror + file for mirror in mirrors), checksum)
        for file, checksum in zip(files, checksums)
    )


ENTRIES = (
    Entry(
        "mnist",
        mnist.read,
        SplitRule(per_class=100),
        stems=("mnist", "MNIST"),
        wanted="mnist.npz, or the four files train-images-idx3-ubyte and so on, with or without .gz",
        remote=_idx_files(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            (
                "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    ),
    Entry(
        "fashion-mnist",
        mnist.read,
        SplitRule(per_class=100),
        stems=("fashion-mnist", "fashion_mnist", "FashionMNIST"),
        wanted="fashion-mnist.npz, or a folder fashion-mnist with the four files train-images-idx3-ubyte and so on",
        remote=_idx_files(
            (
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            ),
            (
                "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "md5:25c81989df183df01b3e8a0aad5dffbe",
                "md5:bef4ecab320f06d8554ea6380940ec79",
                "md5:bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
        at_top=False,
    ),
    Entry(
        "cifar-10",
        cifar.read,
        SplitRule(per_class=100),
        stems=("cifar-10", "cifar10", "cifar10_gist512"),
        wanted="cifar-10.npz or .mat, or the folder cifar-10-batches-bin, or cifar-10-binary.tar.gz",
        remote=(
            RemoteFile(
                "cifar-10-binary.tar.gz",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
        features="gist",
    ),
    Entry(
        "cifar-10-cnn",
        embeddings.read_cifar_cnn,
        SplitRule(per_class=100),
        stems=("cifar-10-cnn",),
        wanted="cifar-10-cnn.npz with X, y and query: docs, howto/embeddings, says how to make it",
    ),
    Entry(
        "ag-news-minilm",
        embeddings.read_nothing,
        SplitRule(total=1000),
        stems=("ag-news-minilm", "agnews_minilm384"),
        wanted="ag-news-minilm.npz with X, y and query: docs, howto/embeddings, says how to make it",
    ),
    Entry(
        "flickr25k",
        mirflickr.read,
        SplitRule(total=1000),
        stems=("flickr25k", "mirflickr25k", "mirflickr", "flickr25k_tags1386"),
        wanted="flickr25k.mat or .npz, or MIRFLICKR-25000's annotations with features.npy or meta/tags",
    ),
    Entry(
        "nus-wide",
        nuswide.read,
        SplitRule(per_class=100, database=100_000),
        stems=("nus-wide", "nuswide", "NUS-WIDE"),
        wanted="nus-wide.mat or .npz, or NUS-WIDE's Groundtruth/AllLabels with features.npy or AllTags1k.txt",
    ),
)

CATALOG = {entry.name: entry for entry in ENTRIES}
