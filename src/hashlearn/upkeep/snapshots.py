"""Snapshots: copies of the state of a search. Writers may go on meanwhile; every copy is read back and checked."""

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hashlearn.search import SimilaritySearch
from hashlearn.search.folder import SearchFolder

ENCODER_FILE = "encoder.safetensors"
"""Further files in the folder of a search: the encoder of its images or texts."""
_ROWS_AT_A_TIME = 4096
_ROWS_ENCODED = 1000


class SnapshotReport(NamedTuple):
    """The copied and checked folder."""

    folder: Path
    rows: int


def take_snapshot(search: str | Path | SimilaritySearch, target: str | Path) -> SnapshotReport:
    """Copy the present state of a search to a new folder, and check the copy. Others may write meanwhile.

    Parameters
    ----------
    search : str, Path or SimilaritySearch
        The folder of a search, or one in memory.
    target : str or Path
        A folder that is not there yet. It appears when the copy is complete.

    Returns
    -------
    SnapshotReport
        The folder and the number of its rows.

    Examples
    --------
    >>> from hashlearn import LSH
    >>> X = np.eye(4, dtype=np.float32)
    >>> folder = Path(tempfile.mkdtemp())
    >>> search = SimilaritySearch(LSH(n_bits=8, random_state=0)).fit(X).add(X)
    >>> take_snapshot(search, folder / "monday").rows
    4
    """
    place = Path(target)
    if place.exists():
        raise ValueError(f"TARGET must be a folder that is not there yet, got {target}")
    if isinstance(search, SimilaritySearch) and search.folder is not None:
        search = search.folder  # opened again, so that writers to this search do not wait for the copy
    if isinstance(search, SimilaritySearch):
        return _copied(search, None, place)
    opened = SimilaritySearch.open(search)
    try:
        return _copied(opened, Path(search), place)
    finally:
        opened.close()


def restore_snapshot(snapshot: str | Path, target: str | Path, *, replace: bool = False) -> SnapshotReport:
    """Copy a snapshot to a folder, after it was checked.

    Parameters
    ----------
    snapshot : str or Path
        The folder that :func:`take_snapshot` wrote. It is not changed.
    target : str or Path
        A folder that is not there yet. With ``replace`` also the folder of a search: its rows are replaced in one step,
        and servers of this search continue with the new rows.
    replace : bool
        Whether a search may be replaced.

    Returns
    -------
    SnapshotReport
        The folder and the number of its rows.
    """
    place = Path(target)
    check_search(snapshot)
    if not place.exists():
        return take_snapshot(snapshot, place)
    if not replace or not SearchFolder(place).is_search:
        raise ValueError(f"TARGET must be a folder that is not there yet, or with --replace a search, got {target}")
    opened = SimilaritySearch.open(snapshot)
    try:
        opened.save(place)
    finally:
        opened.close()
    _copy_encoder(Path(snapshot), place)
    return SnapshotReport(place, check_search(place))


def check_search(folder: str | Path) -> int:
    """Read a saved search whole; returns the number of its rows.

    Every payload and vector is read and compared with its checksum. The codes of the first thousand kept vectors are
    computed again and compared.

    Parameters
    ----------
    folder : str or Path
        The folder of a search.

    Raises
    ------
    ValueError
        One line: what is damaged.
    """
    search = SimilaritySearch.open(folder)
    try:
        n_rows, after = 0, None
        while True:
            page = search.scroll(limit=_ROWS_AT_A_TIME, after=after)
            if not n_rows:
                _check_codes(search, page.records[:_ROWS_ENCODED], folder)
            n_rows, after = n_rows + len(page.records), page.after
            if after is None:
                break
        if n_rows != len(search):
            raise ValueError(f"{folder} has {n_rows} rows that can be read, {len(search)} were saved")
        return n_rows
    finally:
        search.close()


def _check_codes(search: SimilaritySearch, records: list, folder: str | Path) -> None:
    if search.keep_vectors != "float32" or not records:  # rounding of vectors may change their codes
        return
    made = search.encode(np.stack([record.vector for record in records]))
    kept = np.stack([record.code for record in records])
    if not np.array_equal(made, kept):
        # A bit with a score near zero may change with the size of a block; a wrong model changes many bits.
        share = float(np.bitwise_count(made ^ kept).sum() / (kept.size * 8))
        if share > 0.01:
            raise ValueError(f"{folder}: the codes are not those of its hasher ({share:.0%} of the bits differ)")


def _copied(search: SimilaritySearch, source: Path | None, target: Path) -> SnapshotReport:
    """Write a copy beside the target, check it, then rename it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        copy = beside / "search"
        if source is None and search.folder is None:
            _save_copy(search, copy)
        else:
            search.save(copy)
        if source is not None:
            _copy_encoder(source, copy)
        n_rows = check_search(copy)
        copy.rename(target)
        return SnapshotReport(target, n_rows)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _save_copy(search: SimilaritySearch, folder: Path) -> None:
    """Save a search in memory without giving it the folder: a copy of it is saved."""
    copy = SimilaritySearch.__new__(SimilaritySearch)
    copy.__setstate__(search.__getstate__())
    copy.save(folder)
    copy.close()


def _copy_encoder(source: Path, target: Path) -> None:
    if (source / ENCODER_FILE).is_file():
        shutil.copyfile(source / ENCODER_FILE, target / ENCODER_FILE)
