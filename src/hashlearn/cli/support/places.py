"""The files a command reads and writes: inputs are never outputs."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path


def path_of(place: str | Path) -> Path:
    """The file that a place names: ``vectors.npy``, or ``data.npz`` for ``data.npz:X``."""
    path = Path(place)
    file, is_named, _ = str(place).rpartition(":")
    return path if path.exists() or not is_named else Path(file)


def sidecar_of(path: str | Path) -> Path:
    """``codes.npy`` -> ``codes.npy.json``."""
    return Path(f"{path}.json")


def with_sidecars(*places: str | None) -> list[Path]:
    """Files of codes, and their sidecars."""
    paths = [path_of(place) for place in places if place is not None]
    return [*paths, *map(sidecar_of, paths)]


def check_places(outputs: Mapping[str, str | Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Raise unless every output can be written, and is neither an input nor another output.

    Parameters
    ----------
    outputs : dict of option to path
        None for outputs that are not wanted.
    inputs : places
        Links and other names of one file count as the same file.
    """
    from hashlearn.durable.files import check_writable

    taken = {_identity(path_of(place)): "an input" for place in inputs if place is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        check_writable(path, option)
        identity = _identity(Path(path))
        if identity in taken:
            raise ValueError(f"{option} must be a file of its own, got {path}, which is {taken[identity]} too")
        taken[identity] = option


def _identity(path: Path) -> tuple[int, int] | str:
    """A value that is equal for all names of a file."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # missing, or not a file name: reading it raises the error
        return os.path.normcase(os.path.realpath(path)) if "\0" not in str(path) else str(path)
    return status.st_dev, status.st_ino
