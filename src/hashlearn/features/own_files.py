"""A folder of pictures, or a table with a column of texts, as vectors with ids."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.features.encoders import Encoder, encoder_named
from hashlearn.features.pictures import Skipped, picture_names, read_picture
from hashlearn.progress import track
from hashlearn.rows.formats.csv import DELIMITERS, opened_table
from hashlearn.rows.formats.problems import FileProblem, reading

PICTURES_AT_A_TIME = 32
DECODED_SIDE = 256
"""No encoder needs more pixels than this on the shorter side of a picture."""


class EncodedImages(NamedTuple):
    """The pictures of a folder as vectors.

    Attributes
    ----------
    names : list of str
        Relative to the folder, with ``/``, ascending: the ids.
    vectors : ndarray of shape (n, n_features), float32
    skipped : list of Skipped
        Files that look like pictures but could not be read, and why.
    encoder : Encoder
        For queries.
    """

    names: list[str]
    vectors: NDArray[np.float32]
    skipped: list[Skipped]
    encoder: Encoder


class TextTable(NamedTuple):
    """A table with a column of texts.

    Attributes
    ----------
    texts : list of str
    fields : list of dict
        The other columns of each row, as texts.
    """

    texts: list[str]
    fields: list[dict[str, str]]


def folder_of_images(folder: str | Path, encoder: str | Encoder | None = None) -> EncodedImages:
    """Encode the pictures below a folder; those that cannot be read are skipped and listed.

    Parameters
    ----------
    folder : str or Path
    encoder : str, Encoder or None
        See :func:`~hashlearn.features.encoders.encoder_named`; None is GIST.

    Raises
    ------
    ValueError
        No folder, or no picture in it that can be read.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> Image.new("RGB", (80, 60), "red").save(folder / "red.png")
    >>> _ = (folder / "broken.jpg").write_bytes(b"")
    >>> images = folder_of_images(folder)
    >>> images.names, images.vectors.shape, [name for name, _ in images.skipped]
    (['red.png'], (1, 512), ['broken.jpg'])
    """
    chosen = encoder_named(encoder, "image") if encoder is None or isinstance(encoder, str) else encoder
    found = picture_names(folder)
    names: list[str] = []
    skipped = list(found.skipped)
    blocks = []
    starts = range(0, len(found.names), PICTURES_AT_A_TIME)
    for start in track(starts, "images"):
        pictures = []
        for name in found.names[start : start + PICTURES_AT_A_TIME]:
            try:
                pictures.append(read_picture(Path(folder) / name, DECODED_SIDE))
                names.append(name)
            except (FileProblem, OSError) as error:
                skipped.append(Skipped(name, getattr(error, "reason", None) or str(error)))
        blocks.append(chosen.encode(pictures))
    if not names:
        unread = f" ({len(skipped)} could not be read)" if skipped else ""
        raise ValueError(f"no images in {folder} that can be read{unread}")
    return EncodedImages(names, np.concatenate([block for block in blocks if len(block)]), skipped, chosen)


def texts_of_csv(path: str | Path, column: str) -> TextTable:
    """The texts in one column of a CSV file whose first line names the columns.

    Between commas, semicolons or tabs, quoted where needed, UTF-8. Rows without a text are left out.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.csv"
    >>> _ = path.write_text("title,year\\nThe fox,1990\\nThe dog,2001\\n")
    >>> texts_of_csv(path, "title")
    TextTable(texts=['The fox', 'The dog'], fields=[{'year': '1990'}, {'year': '2001'}])
    """
    file = Path(path)
    texts, fields = [], []
    for row in rows_of_csv(file, column):
        text = (row.pop(column) or "").strip()
        if text:
            texts.append(text)
            fields.append({name: value for name, value in row.items() if value})
    if not texts:
        raise FileProblem(file, f"the column {column!r} holds no text")
    return TextTable(texts, fields)


def rows_of_csv(path: Path, column: str) -> Iterator[dict[str, str]]:
    """The rows of a CSV file whose first line names the columns, one of which must be there."""
    with reading(path, "csv"), opened_table(path) as file:
        line = file.readline()
        file.seek(0)
        delimiter = next((each for each in DELIMITERS if each in line), ",")
        reader = csv.DictReader(file, delimiter=delimiter, restkey="", restval="")
        titles = list(reader.fieldnames or [])
        if column not in titles:
            listed = ", ".join(map(repr, titles[:20])) or "none"
            raise FileProblem(path, f"no column named {column!r}; it has {listed}")
        for row in reader:
            row.pop("", None)  # more values than columns
            yield row
