"""The user's files as a search with a page: encoded, hashed and indexed once, and kept for the next start.

The search is in a folder of the cache. The folder's name is a digest of the files (names, sizes, times of change) and
the settings. If one of these changes, the search is made again and the old folder is removed.
"""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn  # loads its parts at their first use
from numpy.typing import NDArray
from scipy.sparse import issparse

from hashlearn.datasets.cache import cache_folder
from hashlearn.durable.files import json_digest, read_json, write_text
from hashlearn.features import (
    ENCODER_FILE,
    Encoder,
    TextTable,
    encoder_named,
    folder_of_images,
    load_encoder,
    save_encoder,
    texts_of_csv,
)
from hashlearn.features.looks import looks_of
from hashlearn.features.pictures import Skipped, picture_names
from hashlearn.hashers.registry import method_named
from hashlearn.progress import track
from hashlearn.rows.formats import path_and_name, read_array, read_vectors
from hashlearn.search import SimilaritySearch
from hashlearn.server.page.pictures import ArrayPictures, FolderPictures, Pictures

FORMAT_VERSION = 7
SEARCH, ENCODER, NOTES = "search", f"search/{ENCODER_FILE}", "collection.json"
ROWS_AT_A_TIME = 4096
LEARNED_FROM = 20_000
"""Rows that the hash functions are learned from, at most."""
TUNED_FOR = 24
"""The candidates are tuned for this number of neighbors: the first part of a list on the page."""
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d+)?")
"""Numbers as text. A text with leading zeros is a name, such as a postal code."""


class HowToHash(NamedTuple):
    """The method, the length, and the encoder by name.

    Without a method it is ITQ, or LSH where the vectors have fewer dimensions than a code has bits.
    """

    method: str | None = None
    n_bits: int = 64
    encoder: str | None = None
    model_folder: str | None = None


class EncodedCollection(NamedTuple):
    """A collection before it is hashed."""

    vectors: NDArray
    ids: Any
    payloads: list[dict[str, Any]] | None
    encoder: Encoder | None = None
    skipped: list[Skipped] = []  # noqa: RUF012
    has_texts: bool = False


class OwnCollection(NamedTuple):
    """A collection that can be served."""

    search: SimilaritySearch
    encoder: Encoder | None
    pictures: Pictures | None
    title: str
    skipped: list[Skipped]


def images_collection(folder: str | Path, how: HowToHash) -> OwnCollection:
    """The pictures below a folder; the id of an item is the name of its file."""
    top = Path(folder)
    found = picture_names(top)
    if not found.names:
        raise ValueError(f"no images in {folder}")
    state = [_state(top / name, name) for name in found.names]

    def encode() -> EncodedCollection:
        images = folder_of_images(top, encoder_named(how.encoder, "image", how.model_folder))
        looks = looks_of(top, images.names)
        return EncodedCollection(images.vectors, images.names, looks, images.encoder, images.skipped)

    made = _kept(("images", str(top.resolve())), [how, state, [name for name, _ in found.skipped]], encode, how)
    pictures = FolderPictures(top, made.search.ids.tolist())
    return made._replace(pictures=pictures, title=top.resolve().name or str(top))


def texts_collection(path: str | Path, column: str, how: HowToHash, id_column: str | None = None) -> OwnCollection:
    """The texts in a column of a CSV file, with ids from another; the other columns are shown with them."""
    file = Path(path)

    def encode() -> EncodedCollection:
        table = texts_of_csv(file, column)
        encoder = encoder_named(how.encoder, "text", how.model_folder).fit(table.texts)
        blocks = [
            encoder.encode(table.texts[start : start + ROWS_AT_A_TIME])
            for start in track(range(0, len(table.texts), ROWS_AT_A_TIME), "texts")
        ]
        payloads = [{"text": text, **fields} for text, fields in zip(table.texts, _with_numbers(table.fields))]
        ids = np.arange(len(payloads)) if id_column is None else _ids_of(table, id_column)
        return EncodedCollection(np.concatenate(blocks), ids, payloads, encoder, has_texts=True)

    made = _kept(("texts", str(file.resolve())), [how, column, id_column, _state(file, file.name)], encode, how)
    return made._replace(title=file.stem)


class KnownOfRows(NamedTuple):
    """Ids, payloads and other facts that belong to vectors.

    Attributes
    ----------
    ids : list or array of n ids, or None
    payloads : list of n dicts, or None
    places : tuple of str
        The sources, such as ``table.parquet:column``.
    has_texts : bool
        Whether the field "text" of the payloads is searched by its words.
    header : bool or None
        Whether the first line of a CSV file of vectors names its columns; None finds out.
    """

    ids: Any = None
    payloads: list[dict[str, Any]] | None = None
    places: tuple[str, ...] = ()
    has_texts: bool = False
    header: bool | None = None


NOTHING_KNOWN = KnownOfRows()


def vectors_collection(
    path: str | Path,
    how: HowToHash,
    labels: str | Path | None = None,
    images: str | Path | None = None,
    known: KnownOfRows = NOTHING_KNOWN,
) -> OwnCollection:
    """The vectors of a file or folder, with labels and pictures if there are files of these."""
    file, name = path_and_name(path)
    vectors = read_vectors(file, name, header=known.header)
    if issparse(vectors):
        vectors = vectors.toarray()
    pictures = None if images is None else ArrayPictures.of_sprite(images, len(vectors))
    named = [file, *([] if labels is None else [Path(labels)]), *(path_and_name(place)[0] for place in known.places)]
    states = [_state(each, each.name) for each in named]

    def encode() -> EncodedCollection:
        ids = np.arange(len(vectors)) if known.ids is None else known.ids
        payloads = _with_labels(known.payloads, _labelled(labels, len(vectors)), len(vectors))
        return EncodedCollection(np.asarray(vectors, np.float32), ids, payloads, has_texts=known.has_texts)

    made_from = [how, str(path), known.places, known.has_texts, known.header, states]
    made = _kept(("vectors", str(file.resolve())), made_from, encode, how)
    return made._replace(title=file.stem, pictures=pictures)


def digits_collection(how: HowToHash) -> OwnCollection:
    """The digit images of scikit-learn."""
    digits = sklearn.datasets.load_digits()

    def encode() -> EncodedCollection:
        payloads = [{"label": int(label)} for label in digits.target]
        return EncodedCollection(digits.data.astype(np.float32), np.arange(len(payloads)), payloads)

    made = _kept(("digits", ""), [how], encode, how)
    inked = (255 - digits.images * 255 / 16).astype(np.uint8)
    pictures = ArrayPictures(inked.repeat(8, axis=1).repeat(8, axis=2))
    return made._replace(title="Handwritten digits", pictures=pictures)


def _ids_of(table: TextTable, column: str) -> list[str]:
    missing = next((row for row, fields in enumerate(table.fields) if column not in fields), None)
    if missing is not None:
        raise ValueError(f"ids must come from a column with a value in every row, {column!r} has none in row {missing}")
    return [fields[column] for fields in table.fields]


def _with_numbers(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The rows of a table; a column in which every value is a number becomes numbers, for filters by ranges."""
    columns: dict[str, bool] = {}
    for row in rows:
        for name, value in row.items():
            columns[name] = columns.get(name, True) and _NUMBER.fullmatch(value) is not None
    return [{name: _number(value) if columns[name] else value for name, value in row.items()} for row in rows]


def _number(text: str) -> float | int:
    return float(text) if "." in text else int(text)


def _with_labels(payloads: list[dict] | None, labels: list[dict] | None, n: int) -> list[dict[str, Any]] | None:
    if payloads is None or labels is None:
        return payloads if labels is None else labels
    if len(payloads) != n:
        raise ValueError(f"payloads must be as many as the {n} vectors, got {len(payloads)}")
    return [{**payload, **label} for payload, label in zip(payloads, labels)]


def _labelled(labels: str | Path | None, n: int) -> list[dict[str, Any]] | None:
    if labels is None:
        return None
    values = np.asarray(read_array(labels)).ravel()
    if len(values) != n:
        raise ValueError(f"labels must have one label for each of the {n} vectors, got {len(values)}")
    return [{"label": value} for value in values.tolist()]


def _state(path: Path, name: str) -> tuple[str, int, int]:
    status = path.stat()
    return name, status.st_size, status.st_mtime_ns


def _kept(
    source: tuple[str, str], made_from: list[Any], encode: Callable[[], EncodedCollection], how: HowToHash
) -> OwnCollection:
    """The search of these files from the cache; if it is not there, it is made and kept."""
    prefix = hashlib.sha256("\0".join(source).encode()).hexdigest()[:16]
    top = cache_folder() / "app"
    folder = top / f"{prefix}-{json_digest(FORMAT_VERSION, made_from)[:32]}"
    if folder.is_dir():
        try:
            return _opened(folder)
        except (OSError, ValueError):  # damaged, or of another version: made again
            shutil.rmtree(folder, ignore_errors=True)
    made = encode()
    search = _indexed(made, how)
    top.mkdir(parents=True, exist_ok=True)
    _keep(folder, search, made)
    for other in top.glob(f"{prefix}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return _opened(folder)


def _indexed(made: EncodedCollection, how: HowToHash) -> SimilaritySearch:
    metric = "euclidean" if made.encoder is None else made.encoder.metric
    name = how.method or ("itq" if made.vectors.shape[1] >= how.n_bits else "lsh")
    hasher = method_named(name)(n_bits=how.n_bits, random_state=0)
    field = "text" if made.has_texts else None
    search = SimilaritySearch(hasher, metric=metric, keep_vectors="float32", text_field=field)
    search.fit(made.vectors[:: -(-len(made.vectors) // LEARNED_FROM)])
    search.add(made.vectors, made.ids, made.payloads)
    if len(search) > TUNED_FOR and not search.has_lists:  # lists know how far to look
        search.tune(k=TUNED_FOR, other_n_bits=[])
    return search


def _keep(folder: Path, search: SimilaritySearch, made: EncodedCollection) -> None:
    """Write it beside its place, then rename it."""
    beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    try:
        search.save(beside / SEARCH)
        search.close()  # its files are about to be moved
        if made.encoder is not None:
            save_encoder(made.encoder, beside / ENCODER)
        write_text(beside / NOTES, json.dumps({"skipped": made.skipped}))
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _opened(folder: Path) -> OwnCollection:
    encoder = load_encoder(folder / ENCODER) if (folder / ENCODER).is_file() else None
    skipped = [Skipped(*each) for each in read_json(folder / NOTES)["skipped"]]
    return OwnCollection(SimilaritySearch.open(folder / SEARCH), encoder, None, "", skipped)
