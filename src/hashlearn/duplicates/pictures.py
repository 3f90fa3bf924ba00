"""The pictures of a folder as vectors, a bundle at a time: what is done once is not done again.

Each bundle of pictures is one file in a folder for intermediate results, named by a digest of the encoder and of the
pictures' names, sizes and times. A run that was interrupted, or that asks for another distance, reads what is there.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from hashlearn.durable.files import write_bytes
from hashlearn.durable.json_files import json_digest
from hashlearn.features.encoders import Encoder
from hashlearn.features.pictures import Skipped, opened_picture, picture_names, read_picture
from hashlearn.progress import track
from hashlearn.rows.formats.problems import FileProblem

BUNDLE = 128
_SIDE = 256  # what encoders need at most of a picture's shorter side


class FolderVectors(NamedTuple):
    """Pictures below a folder: their names, vectors and numbers of pixels, and those that could not be read."""

    names: list[str]
    vectors: NDArray[np.float32]
    pixels: NDArray[np.float64]
    skipped: list[Skipped]


class _Bundle(NamedTuple):
    """Vectors and numbers of pixels of some pictures, and for the others, why they have none."""

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
        The folder for intermediate results; None keeps none.
    known : list of str
        Names that need not be encoded.
    """
    found = picture_names(folder)
    without = set(known)
    wanted = [name for name in found.names if name not in without]
    names: list[str] = []
    skipped = list(found.skipped)
    bundles = []
    for start in track(range(0, len(wanted), BUNDLE), "pictures"):
        some = wanted[start : start + BUNDLE]
        bundle = _bundle(Path(folder), some, encoder, done)
        names += [name for name in some if name not in bundle.unread]
        skipped += [Skipped(name, reason) for name, reason in bundle.unread.items()]
        if len(bundle.vectors):
            bundles.append(bundle)
    if not names and not known:
        unread_too = f" ({len(skipped)} could not be read)" if skipped else ""
        raise ValueError(f"no images in {folder} that can be read{unread_too}")
    if not names:
        return FolderVectors(names, np.empty((0, 0), np.float32), np.empty(0), skipped)
    vectors = np.concatenate([bundle.vectors for bundle in bundles])
    return FolderVectors(names, vectors, np.concatenate([bundle.pixels for bundle in bundles]), skipped)


def _bundle(folder: Path, names: list[str], encoder: Encoder, done: Path | None) -> _Bundle:
    """Some pictures, from the folder for intermediate results if they are there."""
    if done is None:
        return _encoded(folder, names, encoder)
    stamps = [(name, (folder / name).stat().st_size, (folder / name).stat().st_mtime_ns) for name in names]
    path = done / f"pictures-{json_digest(encoder.name, encoder.config(), stamps)[:32]}.safetensors"
    try:
        content = load(path.read_bytes())
        return _Bundle(content["vectors"], content["pixels"], json.loads(content["unread"].tobytes()))
    except (OSError, SafetensorError, KeyError, ValueError):  # not there, or damaged: made again
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
            unread[name] = getattr(error, "reason", None) or str(error)
    return _Bundle(encoder.encode(pictures), np.array(pixels, np.float64), unread)
