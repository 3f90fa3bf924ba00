"""Folders whose state is several files. A reader always gets a whole state, also while others save.

Every save makes a new folder, a generation, inside the folder that the user names. Then it replaces the manifest, one
small JSON file, which names the new generation. So there is always a whole state, and two savers never write to the
same place. The next save removes generations that the manifest no longer names, unless their writer is still running.
If a generation is removed before a reader has opened all of it, the reader reads the manifest again.

Only folders with the name of a generation are removed. A save that fails removes only its own folder.
"""

import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hashlearn.durable.files import LEFTOVER, json_digest, keep_permissions, read_json, sync, write_text
from hashlearn.durable.locks import LOCK, exclusive_folder

Opened = TypeVar("Opened")

_NAME = re.compile(r"generation-[0-9]+-[0-9a-f]{16}")
_CHECKSUM = "manifest_sha256"


class FolderFormat(NamedTuple):
    """A kind of folder with generations.

    Attributes
    ----------
    title : str
        The ``format`` in the manifest.
    version : int
        The version that this program writes, and the newest version that it reads.
    manifest : str
        The manifest's name.
    """

    title: str
    version: int
    manifest: str

    def check_target(self, folder: str | Path) -> Path:
        """The folder that can be saved to, links followed: new, empty, or of this format already."""
        target = Path(os.path.realpath(folder))
        if target.exists() and not target.is_dir():
            raise ValueError(f"folder must be a folder, got the file {folder}")
        if not target.parent.is_dir():
            raise ValueError(f"folder must lie in an existing folder, got {folder}: no folder {target.parent}")
        if target.exists():
            self._refuse_others(target)
        return target

    def save(self, folder: str | Path, write: Callable[[Path], dict[str, Any]]) -> None:
        """Call ``write`` to put a new state into an empty folder; its result goes into the manifest.

        If it raises, the folder is not changed.
        """
        target = self.check_target(folder)
        is_new = not target.exists()
        try:
            target.mkdir(exist_ok=True)
            self._save_generation(target, write)
        except BaseException:
            if is_new:
                with suppress(OSError):  # not empty: another has begun to save there
                    target.rmdir()
            raise
        self.collect(target)

    def open(self, folder: str | Path, read: Callable[[Path, dict[str, Any]], Opened]) -> Opened:
        """The result of ``read`` for the folder of the newest generation and its manifest."""
        folder = Path(folder)
        while True:
            manifest = self.read_manifest(folder)
            try:
                return read(folder / manifest.get("generation", ""), manifest)
            except (OSError, ValueError):
                if self.read_manifest(folder) == manifest:
                    raise

    def read_manifest(self, folder: str | Path) -> dict[str, Any]:
        """The content of the manifest, after its format, version and checksum were checked."""
        path = Path(folder) / self.manifest
        if not path.is_file():
            raise FileNotFoundError(f"{folder} is no saved {self.title}: it has no {self.manifest}")
        manifest = read_json(path)
        if not isinstance(manifest, dict) or manifest.get("format") != self.title:
            raise ValueError(f"{path} does not say format {self.title!r}")
        version = manifest.get("format_version")
        if type(version) is not int or version < 1:
            raise ValueError(f"{path} was edited or damaged: its version is {version!r}")
        if version > self.version:
            raise _NewerVersion(f"{path} has version {version}, this hashlearn reads up to {self.version}; update it")
        if version > 1 and manifest.get(_CHECKSUM) != _checksum(manifest):
            raise ValueError(f"{path} was edited or damaged (its checksum does not fit)")
        if version > 1 and not _NAME.fullmatch(str(manifest.get("generation"))):
            raise ValueError(f"{path} names no generation of its folder, got {manifest.get('generation')!r}")
        return manifest

    def _save_generation(self, target: Path, write: Callable[[Path], dict[str, Any]]) -> None:
        with ExitStack() as stack:
            generation = _new_generation(target, stack)
            try:
                with _closed_to_others(generation, self._before(target)):
                    facts = write(generation)
                sync(generation)
                sync(target)
            except BaseException:
                _remove_folder(generation)
                raise
            try:
                self._name_in_manifest(generation, facts)
            except BaseException:
                self._remove(generation)
                raise

    def _name_in_manifest(self, generation: Path, facts: dict[str, Any]) -> None:
        manifest = {"format": self.title, "format_version": self.version, **facts, "generation": generation.name}
        manifest[_CHECKSUM] = _checksum(manifest)
        write_text(generation.parent / self.manifest, json.dumps(manifest, indent=2) + "\n")

    def _before(self, folder: Path) -> Path | None:
        """The generation to replace, if the folder has one and its manifest can be read."""
        with suppress(ValueError):
            return self._current(folder)
        return None

    def collect(self, folder: Path) -> None:
        """Remove generations that nobody writes and the manifest does not name."""
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                with suppress(OSError), exclusive_folder(path, wait=False):
                    self._remove(path)
                with suppress(OSError):  # on Windows a folder cannot be removed while its lock is held
                    path.rmdir()

    def _remove(self, generation: Path) -> None:
        """Remove a generation, unless the manifest names it or cannot be read."""
        with suppress(OSError, ValueError):
            if self._current(generation.parent) != generation:
                _remove_folder(generation)

    def _current(self, folder: Path) -> Path | None:
        """The generation that the manifest names; None without a manifest, or with one of the first version."""
        if not os.path.lexists(folder / self.manifest):
            return None
        name = self.read_manifest(folder).get("generation")
        return None if name is None else folder / name

    def _refuse_others(self, folder: Path) -> None:
        """Raise if saving here would overwrite files of other programs."""
        try:
            self.read_manifest(folder)
        except _NewerVersion:
            raise
        except (FileNotFoundError, ValueError):  # a first save that was killed, or damage
            if not all(self._is_our_name(name) for name in os.listdir(folder)):
                raise ValueError(
                    f"folder must be new, empty or a saved {self.title}, got {folder} with other files in it"
                ) from None

    def _is_our_name(self, name: str) -> bool:
        is_leftover = name.startswith(f".{self.manifest}.") and name.endswith(LEFTOVER)
        return is_leftover or name in (self.manifest, LOCK) or _NAME.fullmatch(name) is not None


class _NewerVersion(ValueError):
    """The other files of such a folder are unknown."""


def _new_generation(folder: Path, stack: ExitStack) -> Path:
    """A new folder that is locked until the stack is left."""
    while True:
        generation = _new_name(folder)
        try:
            generation.mkdir(parents=True)
            stack.enter_context(exclusive_folder(generation))
            return generation
        except FileNotFoundError:  # another process removed it as a leftover before it was locked
            continue
        except BaseException:
            shutil.rmtree(generation, ignore_errors=True)
            raise


def _new_name(folder: Path) -> Path:
    return folder / f"generation-{os.getpid()}-{secrets.token_hex(8)}"


def _remove_folder(generation: Path) -> None:
    """Remove a folder that this process has locked.

    The folder is renamed first, so that its maker, who may wait for its lock, does not lock it during the removal.
    """
    doomed = generation
    with suppress(OSError):  # Windows renames no folder in which the lock is open
        doomed = generation.rename(_new_name(generation.parent))
    shutil.rmtree(doomed, ignore_errors=True)


@contextmanager
def _closed_to_others(generation: Path, before: Path | None) -> Iterator[None]:
    """While files are written only this user may read them; then they get the permissions of the files they replace."""
    mode = stat.S_IMODE(generation.stat().st_mode)
    generation.chmod(stat.S_IRWXU)
    yield
    if before is None:
        generation.chmod(mode)
        return
    for new in generation.rglob("*"):
        _permit_as(before / new.relative_to(generation), new)
    generation.chmod(mode)
    _permit_as(before, generation)


def _permit_as(before: Path, new: Path) -> None:
    with suppress(FileNotFoundError):
        keep_permissions(new, before.stat())


def _checksum(manifest: dict[str, Any]) -> str:
    return json_digest({key: value for key, value in manifest.items() if key != _CHECKSUM})
