"""Datasets by name or path, from a folder, the cache or the web, with the split of the paper."""

import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_integer
from hashlearn.datasets.cache import cache_folder
from hashlearn.datasets.catalog import CATALOG, ENTRIES, Entry
from hashlearn.datasets.dataset import Dataset, Records
from hashlearn.datasets.download import DownloadError, fetch
from hashlearn.datasets.splits import SplitRule, stored_or_drawn
from hashlearn.datasets.vector_files import read_file
from hashlearn.durable.files import replacing
from hashlearn.features.gist import gist
from hashlearn.rows.formats import FileProblem, path_and_name, read_array

DATASETS = (*CATALOG, "digits")
"""The names :func:`load` knows."""

DIGITS_PER_CLASS = 20
MOST_QUERIES = 1000

PREPARED = (".npz", ".mat", ".hdf5", ".h5")

log = logging.getLogger(__name__)


def load(
    name: str | Path,
    *,
    folder: str | Path | None = None,
    features: str | None = None,
    array: str | None = None,
    header: bool | None = None,
    split: SplitRule | None = None,
    seed: int = 0,
    download: bool = True,
) -> Dataset:
    """A dataset with features, labels and queries.

    Parameters
    ----------
    name : str or Path
        One of ``DATASETS`` (mnist, fashion-mnist, cifar-10, cifar-10-cnn, ag-news-minilm, flickr25k, nus-wide, digits),
        or a file of vectors, or a folder with the original files of one of them.
    folder : str or Path, optional
        Where the named dataset is looked for; by default the folder in the environment variable ``HASHLEARN_DATA``. A
        dataset that is not there is looked for in the cache (``HASHLEARN_CACHE``), then downloaded.
    features : {"pixels", "gist"}, optional
        The features of an image, if the source holds images. By default GIST for CIFAR-10, as in the paper (computed
        once and kept in the cache), and pixels otherwise.
    array : str, optional
        For a path: the array that holds the features, if the file holds several; ``path:array`` says the same.
    header : bool, optional
        For a csv or tsv file: whether its first line names the columns. By default this is detected.
    split : SplitRule, optional
        Draw the queries by this rule. By default the split of the file; otherwise the paper's (100 queries per class;
        1,000 of FLICKR25K; 100 per concept and 100,000 database rows of NUS-WIDE), 20 per class for digits, and for a
        file of your own a tenth of the rows, at most 1,000.
    seed : int, default=0
        Seed of a drawn split. The split is stored in the cache and used again.
    download : bool, default=True
        Whether a dataset that is not on this machine may be downloaded.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load("digits")  # doctest: +SKIP
    <Dataset digits: 1797 x 64 uint8, 10 classes, 200 queries>
    """
    check_integer("seed", seed, low=0)
    if features is not None:
        check_choice("features", features, ("pixels", "gist"))
    known = CATALOG.get(str(name).lower())
    if known is not None:
        source, records = _find(known, folder, download)
        records = _with_features(records, features, known.features)
        return _dataset(known.name, source, records, split, known.rule, seed)
    if str(name).lower() == "digits":
        records = _with_features(_digits(), features)
        return _dataset("digits", "scikit-learn", records, split, SplitRule(per_class=DIGITS_PER_CLASS), seed)
    path, array = path_and_name(os.path.expanduser(name), array)
    records, rule = _from_path(path, array, header)
    return _dataset(path.stem, str(path), _with_features(records, features), split, rule, seed)


def _find(entry: Entry, folder: str | Path | None, download: bool) -> tuple[str, Records]:
    """The folder or file of the dataset, and its records."""
    cache = cache_folder() / entry.name
    places = [place for place in (_data_folder(folder), cache) if place is not None]
    for place in places:
        found = _in_folder(entry, place, at_top=entry.at_top or place == cache)
        if found is not None:
            return found
    advice = f"put {entry.wanted} into a folder and set HASHLEARN_DATA to it"
    if not (download and entry.remote):
        raise FileNotFoundError(f"{entry.name} is not on this machine and is not downloaded: {advice}")
    try:
        for remote in entry.remote:
            fetch(remote, cache)
    except DownloadError as error:
        raise DownloadError(f"{error}; or {advice}") from None
    records = entry.read(cache)
    if records is None:
        raise FileNotFoundError(f"{entry.name} was downloaded to {cache}, but its files are gone")
    return str(cache), records


def _data_folder(folder: str | Path | None) -> Path | None:
    name, value = ("folder", folder) if folder is not None else ("HASHLEARN_DATA", os.environ.get("HASHLEARN_DATA"))
    if not value:
        return None
    path = Path(os.path.expanduser(value))
    if not path.is_dir():
        raise FileNotFoundError(f"{name} must be a folder, got {value}")
    return path


def _in_folder(entry: Entry, folder: Path, at_top: bool) -> tuple[str, Records] | None:
    for stem in entry.stems:
        for suffix in PREPARED:
            path = folder / f"{stem}{suffix}"
            if path.is_file():
                return str(path), read_file(path)
    inner = [folder / stem for stem in entry.stems if (folder / stem).is_dir()]
    for place in [*inner, folder] if at_top else inner:
        records = entry.read(place)
        if records is not None:
            return str(place), records
    return None


def _from_path(path: Path, array: str | None, header: bool | None) -> tuple[Records, SplitRule]:
    if path.is_file():
        records = read_file(path, array, header)
        return records, SplitRule(total=max(1, min(MOST_QUERIES, records.features.shape[0] // 10)))
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is no file, and no dataset: known are {', '.join(DATASETS)}")
    for entry in ENTRIES:
        records_or_none = entry.read(path)
        if records_or_none is not None:
            return records_or_none, entry.rule
    raise FileProblem(path, "no original files of a known dataset: " + "; ".join(entry.wanted for entry in ENTRIES))


def _digits() -> Records:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images.astype(np.uint8)
    return Records(images.reshape(len(images), -1), digits.target.astype(np.uint8), images)


def _with_features(records: Records, asked: str | None, default: str = "pixels") -> Records:
    """The records with the wanted features. By default, features other than pixels are kept."""
    if asked is None:
        only_pixels = records.images is not None and records.features.shape[1] == records.images[0].size
        return _with_features(records, "gist") if default == "gist" and only_pixels else records
    if records.images is None:
        raise ValueError(f"features={asked!r} needs images, and the source has none")
    if asked == "gist":
        return replace(records, features=_stored_gist(records.images))
    return replace(records, features=records.images.reshape(len(records.images), -1))


def _stored_gist(images: NDArray) -> NDArray:
    """GIST of the images, computed once for these pixels and kept in the cache as a mapped file, if the cache can be
    written."""
    digest = hashlib.sha256(repr(images.shape).encode())
    for start in range(0, len(images), 1024):
        digest.update(np.ascontiguousarray(images[start : start + 1024]).tobytes())
    path = cache_folder() / "features" / f"gist512-{digest.hexdigest()[:16]}.npy"
    if path.is_file():
        return read_array(path)
    vectors = gist(images)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as (beside,), beside.open("wb") as file:
            np.save(file, vectors)
    except (OSError, ValueError) as error:
        log.warning("the features could not be stored: %s", error)
        return vectors
    return read_array(path)


def _dataset(name: str, source: str, records: Records, split: SplitRule | None, rule: SplitRule, seed: int) -> Dataset:
    """Split the records and keep the rows that the split uses."""
    try:
        rows, query = records.rows, records.query
        if split is not None or query is None:
            rows, query = _drawn(name, records, split or rule, seed)
        return Dataset(
            name=name,
            features=_taken(records.features, rows),
            labels=_taken(records.labels, rows),
            query=query,
            images=_taken(records.images, rows),
            label_names=records.label_names,
            neighbors=records.neighbors if split is None else None,
            source=source,
        )
    except ValueError as error:
        raise FileProblem(source, str(error)) from None


def _drawn(name: str, records: Records, rule: SplitRule, seed: int) -> tuple[NDArray | None, NDArray]:
    """The rows to keep (None for all), and which of those are queries."""
    n = records.features.shape[0] if records.rows is None else len(records.rows)
    drawn = stored_or_drawn(cache_folder() / "splits", name, n, _taken(records.labels, records.rows), rule, seed)
    used = np.sort(np.concatenate([drawn.query, drawn.database]))
    query = np.searchsorted(used, drawn.query)
    if len(used) == n:
        return records.rows, query
    return (used if records.rows is None else records.rows[used]), query


def _taken(values: Any, rows: NDArray | None) -> Any:
    return values if values is None or rows is None else values[rows]
