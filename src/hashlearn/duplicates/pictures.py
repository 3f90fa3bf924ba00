"""The pictures of a folder as vectors, a bundle at a time; results are kept and used again.

A file is one row, even if it has several names (hard links): the first name counts. A symbolic link is no row.

Each bundle of pictures is one file in a folder for intermediate results, named by a digest of the encoder and of the
pictures' names, sizes and times. A run after an interruption, or with another distance, reads these files.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from hashlearn.duplicates.apply import FileStamp
from hashlearn.durable.files import json_digest, write_bytes
from hashlearn.durable.locks import status_of
from hashlearn.features.encoders import Encoder
from hashlearn.features.pictures import Skipped, opened_picture, picture_names, read_picture
from hashlearn.names import natural_key
from hashlearn.progress import track
from hashlearn.rows.formats.problems import FileProblem

BUNDLE = 128
_SIDE = 256  # no encoder needs more pixels on the shorter side


class FolderVectors(NamedTuple):
    """Pictures below a folder.

    Attributes
    ----------
    names : list of str
    vectors : ndarray of shape (n, n_features)
    pixels : ndarray of shape (n,)
    skipped : list of Skipped
        Files that are not rows, and why.
    stamps : dict of str to FileStamp
        The stamp of each file before it was read.
    other_names : dict of str to list of str
        Further names of the files of this folder, including known files.
    """

    names: list[str]
    vectors: NDArray[np.float32]
    pixels: NDArray[np.float64]
    skipped: list[Skipped]
    stamps: dict[str, FileStamp]
    other_names: dict[str, list[str]]


class FolderFiles(NamedTuple):
    """The files of pictures below a folder, one name each; their other names; and the skipped files."""

    names: list[str]
    other_names: dict[str, list[str]]
    skipped: list[Skipped]


class _Bundle(NamedTuple):
    """Vectors and numbers of pixels of some pictures; for unreadable pictures, the reason."""

    vectors: NDArray[np.float32]
    pixels: NDArray[np.float64]
    unread: dict[str, str]


def encoded_folder(folder: str | Path, encoder: Encoder, done: Path | None, known: Sequence[str] = ()) -> FolderVectors:
    """Encode the pictures below a folder.

    Parameters
    ----------
    folder : str or Path
    encoder : Encoder
        Of pictures.
    done : Path or None
        The folder for intermediate results; None keeps no results.
    known : list of str
        Names that need not be encoded.
    """
    found = files_of_pictures(folder, known)
    without = set(known)
    wanted = [name for name in found.names if name not in without]
    names: list[str] = []
    skipped = list(found.skipped)
    stamps: dict[str, FileStamp] = {}
    bundles = []
    for start in track(range(0, len(wanted), BUNDLE), "pictures"):
        some = wanted[start : start + BUNDLE]
        before = {name: FileStamp.of(Path(folder) / name) for name in some}
        bundle = _bundle(Path(folder), some, encoder, done)
        stamps |= {name: stamp for name, stamp in before.items() if stamp is not None and name not in bundle.unread}
        names += [name for name in some if name not in bundle.unread]
        skipped += [Skipped(name, reason) for name, reason in bundle.unread.items()]
        if len(bundle.vectors):
            bundles.append(bundle)
    if not names and not known:
        unread_too = f" ({len(skipped)} could not be read)" if skipped else ""
        raise ValueError(f"no images in {folder} that can be read{unread_too}")
    if not names:
        return FolderVectors(names, np.empty((0, 0), np.float32), np.empty(0), skipped, stamps, found.other_names)
    vectors = np.concatenate([bundle.vectors for bundle in bundles])
    pixels = np.concatenate([bundle.pixels for bundle in bundles])
    return FolderVectors(names, vectors, pixels, skipped, stamps, found.other_names)


def files_of_pictures(folder: str | Path, known: Sequence[str] = ()) -> FolderFiles:
    """The files of the pictures below a folder. If a file has several names, a known name is taken."""
    found = picture_names(folder)
    first_known = set(known)
    names: list[str] = []
    other_names: dict[str, list[str]] = {}
    skipped = list(found.skipped)
    seen: dict[tuple[int, int], str] = {}
    for name in sorted(found.names, key=lambda each: (each not in first_known, natural_key(each))):
        path = Path(folder, name)
        status = status_of(path)
        if status is None:  # removed meanwhile
            continue
        if path.is_symlink():
            skipped.append(Skipped(name, f"a link to {os.readlink(path)}"))
            continue
        first = seen.setdefault((status.st_dev, status.st_ino), name)
        if first == name:
            names.append(name)
        else:
            other_names.setdefault(first, []).append(name)
            skipped.append(Skipped(name, f"another name of the file {first} (a hard link)"))
    return FolderFiles(sorted(names), other_names, sorted(skipped))


def _bundle(folder: Path, names: list[str], encoder: Encoder, done: Path | None) -> _Bundle:
    """Some pictures, from the folder for intermediate results if they are there."""
    if done is None:
        return _encoded(folder, names, encoder)
    stamps = [(name, *(FileStamp.of(folder / name) or ())[1:]) for name in names]
    path = done / f"pictures-{json_digest(encoder.name, encoder.config(), stamps)[:32]}.safetensors"
    try:
        content = load(path.read_bytes())
        return _Bundle(content["vectors"], content["pixels"], json.loads(content["unread"].tobytes()))
    except (OSError, SafetensorError, KeyError, ValueError):  # missing or damaged: made again
        bundle = _encoded(folder, names, encoder)
    text = np.frombuffer(json.dumps(bundle.unread).encode(), np.uint8)
    done.mkdir(exist_ok=True)
    arrays: dict[str, NDArray] = {
        "vectors": np.ascontiguousarray(bundle.vectors),
        "pixels": bundle.pixels,
        "unread": text,
    }
    write_bytes(path, save(arrays))
    return bundle


def _encoded(folder: Path, names: list[str], encoder: Encoder) -> _Bundle:
    pictures, pixels, unread = [], [], {}
    for name in names:
        try:
            with opened_picture(folder / name) as header:
                size = header.width * header.height
            pictures.append(read_picture(folder / name, _SIDE))
            pixels.append(size)
        except (FileProblem, OSError) as error:
            unread[name] = error.reason if isinstance(error, FileProblem) else error.strerror or str(error)
    return _Bundle(encoder.encode(pictures), np.array(pixels, np.float64), unread)
