"""The input of ``hashlearn dedup``: vectors, the pictures of a folder, or the texts of a table."""

import base64
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hashlearn.cli.support.arrays import matrices, read_payloads

PICTURE_ENCODER = "spectrum"
"""The default encoder of pictures: it separates copies from similar pictures."""

DISTANCES = {"gist": 0.2, "shingles": 0.25, "tfidf": 0.1}
"""The default distance of duplicates for each encoder."""

RANGES = {"spectrum": (0.08, 0.2)}
"""The range of distances for each encoder if the rows decide."""

_NO_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
"""A picture of one transparent pixel."""


class Things(NamedTuple):
    """The rows that are compared.

    Attributes
    ----------
    vectors : argument of :func:`hashlearn.find_duplicates`; None if the words of texts are compared
    ids : list or None
    metric : {"cosine", "euclidean", "words"} or None
        The metric of the encoder, or "words" for texts; None if the user gives it.
    scores : array of shape (n,), or None
        The quality of each row; the best row of a group is kept.
    texts : list of str, or TextRows, or None
    text_of : dict of id to str
        The texts that can be shown, also those of known rows.
    picture : function or None
        From the number of a row to the bytes of a small picture.
    file : function or None
        From the number of a row to the file of its picture.
    note : function or None
        From the number of a row to a line about it.
    skipped : list of (name, reason)
    stamps : dict of str to FileStamp
        The stamps of the files when they were read.
    other_names : dict of str to list of str
        Further names of the files.
    encoder : Encoder or None
    """

    vectors: Any
    ids: list | None = None
    metric: str | None = None
    scores: Any = None
    texts: Any = None
    text_of: Mapping[Any, str] = {}
    picture: Callable[[int], bytes] | None = None
    file: Callable[[int], Path] | None = None
    note: Callable[[int], str] | None = None
    skipped: Sequence[tuple[str, str]] = ()
    stamps: Mapping[str, Any] = {}
    other_names: Mapping[str, Sequence[str]] = {}
    encoder: Any = None


def default_distance(encoder: Any, vectors: Any) -> float | Literal["auto"]:
    """The largest distance of duplicates, if the user gives none."""
    from hashlearn.duplicates.threshold import distance_by_chance

    if encoder is None:
        return "auto"
    if encoder.name in RANGES:
        return distance_by_chance(vectors, *RANGES[encoder.name], metric=encoder.metric)
    return DISTANCES.get(encoder.name, "auto")


def distance_of(text: str) -> float | Literal["auto"]:
    """The value of ``--max-distance``."""
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--max-distance must be a number or auto, got {text!r}") from None


class HowToRead(NamedTuple):
    """How files are read: columns, encoder, array, header, and a folder for encoded images.

    ``payloads`` are columns of a table that are shown with vectors; ``keep_texts`` says whether texts will be shown.
    """

    text: str | None
    id_column: str | None
    encoder: str | None
    array: str | None
    header: str | None
    work: str | None
    payloads: str | None = None
    keep_texts: bool = True


def judged_pairs(yes: str, no: str, ids: list | None) -> list[tuple[Any, Any, bool]]:
    """The pairs in two CSV files: duplicates, and pairs that are none. Without names, ids are row numbers."""
    as_id = int if ids is None or isinstance(ids[0], int) else str
    pairs: list[tuple[Any, Any, bool]] = []
    for path, label in ((yes, True), (no, False)):
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            for number, line in enumerate(csv.reader(file), start=1):
                try:
                    first, second = map(as_id, line)
                except ValueError:
                    raise ValueError(f"{path}: line {number} must be two ids and a comma between them") from None
                pairs.append((first, second, label))
    return pairs


def vectors_of(places: list[str], how: HowToRead, n_known: int) -> Things:
    """The vectors of one file or several. Columns of a table, ``table:column,column``, are shown with them."""
    records = read_payloads(how.payloads, None)
    with matrices(places, how.array, header=how.header) as data:
        if records is None:
            return Things(data)
        if len(records) != data.shape[0]:
            raise ValueError(f"--payloads must have a row for each of {data.shape[0]} vectors, got {len(records)}")

    def note(row: int) -> str:
        record = records[row - n_known] if row >= n_known else {}
        return ", ".join(f"{name}: {value}" for name, value in record.items())

    return Things(data, note=note)


def pictures_of(folder: str, encoder: Any, done: Path | None, known: Sequence[str]) -> Things:
    """The pictures below a folder that are not known yet, named by their paths in it."""
    from hashlearn.duplicates.pictures import encoded_folder
    from hashlearn.features.pictures import opened_picture, read_picture, thumbnail

    found = encoded_folder(folder, encoder, done, known)
    names = [*known, *found.names]

    def file(row: int) -> Path:
        return Path(folder) / names[row]

    def picture(row: int) -> bytes:
        try:
            return thumbnail(read_picture(file(row), 256))
        except OSError:  # moved by an earlier run, or deleted
            return _NO_PICTURE

    def note(row: int) -> str:
        try:
            with opened_picture(file(row)) as header:
                size = f"{header.width} x {header.height} pixels"
            return f"{size}, {file(row).stat().st_size / 1024:,.0f} KB"
        except OSError:
            return "not there any more"

    return Things(
        found.vectors,
        found.names,
        encoder.metric,
        found.pixels,
        picture=picture,
        file=file,
        note=note,
        skipped=found.skipped,
        stamps=found.stamps,
        other_names=found.other_names,
        encoder=encoder,
    )


def texts_by_words(path: str, column: str, id_column: str | None, known: Any, keep_texts: bool) -> Things:
    """The texts of a table that are not known yet; they are compared by their words.

    A row is known if the known duplicates have its id with the same words. Without ``keep_texts``, only the words of
    the texts are kept, 8 bytes each.
    """
    from hashlearn.duplicates.texts import TextRows, TextWords

    if known is None and not keep_texts:
        listed = TableTexts([], [], [])
        words = TextWords.of(_streamed_texts(path, column, id_column, listed))
        _refuse_none(listed.ids, path, column)
        return Things(None, listed.ids, "words", texts=TextRows(words), skipped=listed.skipped)
    table = texts_of_table(path, column, id_column)
    new = range(len(table.texts)) if known is None else _new_texts(table, known)
    return Things(
        None,
        [table.ids[row] for row in new],
        "words",
        texts=[table.texts[row] for row in new],
        text_of=dict(zip(table.ids, table.texts)),
        skipped=table.skipped,
    )


def _new_texts(table: "TableTexts", known: Any) -> list[int]:
    hashes = known.state.vectors.new(table.texts).hashes
    rows = {name: row for row, name in enumerate(known.ids.tolist())}
    known_hashes = known.state.vectors.hashes
    return [
        row for row, name in enumerate(table.ids) if name not in rows or (known_hashes[rows[name]] != hashes[row]).any()
    ]


def texts_by_encoder(path: str, column: str, id_column: str | None, encoder: Any, is_fitted: bool) -> Things:
    """The texts of a table as vectors. Texts without a word that the encoder knows are skipped."""
    import numpy as np

    table = texts_of_table(path, column, id_column)
    if not is_fitted:
        encoder.fit(table.texts)
    vectors = encoder.encode(table.texts)
    is_known = np.any(vectors != 0, axis=1)
    rows = np.flatnonzero(is_known)
    unknown = [(str(table.ids[row]), "no word that the encoder knows") for row in np.flatnonzero(~is_known)]
    return Things(
        vectors[rows],
        [table.ids[row] for row in rows],
        encoder.metric,
        texts=[table.texts[row] for row in rows],
        text_of=dict(zip(table.ids, table.texts)),
        skipped=[*table.skipped, *unknown],
        encoder=encoder,
    )


class TableTexts(NamedTuple):
    """The texts of a table and their ids, and the rows without a word."""

    texts: list[str]
    ids: list
    skipped: list[tuple[str, str]]


def texts_of_table(path: str, column: str, id_column: str | None) -> TableTexts:
    """The texts in a column of a CSV or parquet file. Ids are those of a column, or the numbers of the rows from 0."""
    found = TableTexts([], [], [])
    found.texts.extend(_streamed_texts(path, column, id_column, found))
    _refuse_none(found.ids, path, column)
    return found


def _streamed_texts(path: str, column: str, id_column: str | None, listed: TableTexts) -> Iterator[str]:
    """Yield each text; add its id, or the number of a row without words, to ``listed``."""
    for number, (text, name) in enumerate(_rows_of_table(Path(path), column, id_column)):
        if id_column is not None and name in (None, ""):
            raise ValueError(f"{path}: --id must name a column with a value in every row, row {number} has none")
        if text and not text.isspace():
            listed.ids.append(number if id_column is None else name)
            yield text
        else:
            listed.skipped.append((str(number if id_column is None else name), "no word in it"))


def _refuse_none(ids: list, path: str, column: str) -> None:
    if not ids:
        raise ValueError(f"{path}: the column {column!r} holds no text")


def _rows_of_table(path: Path, column: str, id_column: str | None) -> Iterator[tuple[str, Any]]:
    """The text and the id of each row."""
    from hashlearn.duplicates.tables import is_parquet
    from hashlearn.features.own_files import rows_of_csv

    if not is_parquet(path):
        for row in rows_of_csv(path, column):
            yield row.get(column) or "", None if id_column is None else row.get(id_column)
        return
    from hashlearn.extras import require
    from hashlearn.rows.formats.problems import FileProblem, reading

    parquet = require("pyarrow.parquet", "parquet")
    with reading(path, "parquet"):
        file = parquet.ParquetFile(path)
        for name in (column, id_column):
            if name is not None and name not in file.schema_arrow.names:
                listed = ", ".join(map(repr, file.schema_arrow.names))
                raise FileProblem(path, f"no column named {name!r}; it has {listed}")
        for batch in file.iter_batches(columns=list(dict.fromkeys([column, id_column or column]))):
            texts = batch.column(column).to_pylist()
            names = [None] * len(texts) if id_column is None else batch.column(id_column).to_pylist()
            yield from ((text if isinstance(text, str) else "", name) for text, name in zip(texts, names))
