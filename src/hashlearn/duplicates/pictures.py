"""The pictures of a folder as vectors, a bundle at a time: what is done once is not done again.

Each bundle of pictures is one file in a folder for intermediate results, named by a digest of the encoder and of the
pictures' names, sizes and times. A run that was interrupted, or that asks for another distance, reads what is there.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from hashlearn.features.encoders import Encoder
from hashlearn.features.pictures import Skipped, picture_names, read_picture
from hashlearn.files import write_bytes
from hashlearn.json_files import json_digest
from hashlearn.progress import track
from hashlearn.rows.formats.problems import FileProblem

BUNDLE = 128
_SIDE = 256  # what encoders need at most of a picture's shorter side


class FolderVectors(NamedTuple):
    """Pictures below a folder: their names, their vectors, and those that could not be read."""

    names: list[str]
    vectors: NDArray[np.float32]
    skipped: list[Skipped]


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
    names, blocks, skipped = [], [], list(found.skipped)
    for start in track(range(0, len(wanted), BUNDLE), "pictures"):
        bundle = wanted[start : start + BUNDLE]
        vectors, unread = _bundle(Path(folder), bundle, encoder, done)
        names += [name for name in bundle if name not in unread]
        skipped += [Skipped(name, reason) for name, reason in unread.items()]
        blocks.append(vectors)
    if not names and not known:
        unread_too = f" ({len(skipped)} could not be read)" if skipped else ""
        raise ValueError(f"no images in {folder} that can be read{unread_too}")
    vectors = np.concatenate([block for block in blocks if len(block)]) if names else np.empty((0, 0), np.float32)
    return FolderVectors(names, vectors, skipped)


def _bundle(folder: Path, names: list[str], encoder: Encoder, done: Path | None) -> tuple[Any, dict[str, str]]:
    """The vectors of some pictures, and why the others have none."""
    if done is None:
        return _encoded(folder, names, encoder)
    stamps = [(name, (folder / name).stat().st_size, (folder / name).stat().st_mtime_ns) for name in names]
    path = done / f"pictures-{json_digest(encoder.name, encoder.config(), stamps)[:32]}.safetensors"
    try:
        content = load(path.read_bytes())
        return content["vectors"], json.loads(content["unread"].tobytes())
    except (OSError, SafetensorError, KeyError, ValueError):  # not there, or damaged: made again
        vectors, unread = _encoded(folder, names, encoder)
    text = np.frombuffer(json.dumps(unread).encode(), np.uint8)
    done.mkdir(exist_ok=True)
    write_bytes(path, save({"vectors": np.ascontiguousarray(vectors), "unread": text}))
    return vectors, unread


def _encoded(folder: Path, names: list[str], encoder: Encoder) -> tuple[NDArray[np.float32], dict[str, str]]:
    pictures, unread = [], {}
    for name in names:
        try:
            pictures.append(read_picture(folder / name, _SIDE))
        except (FileProblem, OSError) as error:
            unread[name] = getattr(error, "reason", None) or str(error)
    return encoder.encode(pictures), unread
