"""What ``hashlearn dedup`` compares: vectors, the pictures of a folder, or the texts of a table."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hashlearn.cli.support.arrays import column_values, matrices

ENCODERS = {"image": "spectrum", "text": "shingles"}
"""What makes vectors where you do not say it: what tells copies from things that are alike."""

DISTANCES = {"gist": 0.2, "shingles": 0.25, "tfidf+svd": 0.1}
"""By encoder: the distance up to which things are duplicates, where you do not say one."""

RANGES = {"spectrum": (0.08, 0.2)}
"""By encoder: the least and the largest such distance, where the rows decide."""

OTHER_DISTANCE = 0.05
"""The same for the networks of others, by the cosine."""


class Things(NamedTuple):
    """What is compared.

    Attributes
    ----------
    vectors : what :func:`hashlearn.find_duplicates` takes
    ids : list or None
    metric : {"cosine", "euclidean"} or None
        That of the encoder; None where you say it.
    scores : array of shape (n,), or None
        How good each of them is; the best of a group is kept.
    texts : list of str or None
    picture : function or None
        From the number of a row to the bytes of a small picture.
    note : function or None
        From the number of a row to a line about it.
    skipped : list of (name, reason)
    stamps : dict of str to FileStamp
        What the files were when they were read.
    other_names : dict of str to list of str
        Further names of the files.
    encoder : Encoder or None
    """

    vectors: Any
    ids: list | None = None
    metric: str | None = None
    scores: Any = None
    texts: Sequence[str] | None = None
    picture: Callable[[int], bytes] | None = None
    note: Callable[[int], str] | None = None
    skipped: Sequence[tuple[str, str]] = ()
    stamps: Mapping[str, Any] = {}
    other_names: Mapping[str, Sequence[str]] = {}
    encoder: Any = None


def default_distance(encoder: Any, vectors: Any) -> float:
    """The distance up to which things are duplicates, where you do not say one."""
    from hashlearn.duplicates.chance import distance_by_chance

    if encoder.name in RANGES:
        return distance_by_chance(vectors, *RANGES[encoder.name], metric=encoder.metric)
    return DISTANCES.get(encoder.name, OTHER_DISTANCE)


def vectors_of(places: list[str], array: str | None) -> Things:
    """The vectors of one file or several."""
    with matrices(places, array) as data:
        return Things(data)


def pictures_of(folder: str, encoder: Any, done: Path | None, known: Sequence[str]) -> Things:
    """The pictures below a folder that are not known yet, named by their paths in it."""
    from hashlearn.duplicates.pictures import encoded_folder
    from hashlearn.features.pictures import opened_picture, read_picture, thumbnail

    found = encoded_folder(folder, encoder, done, known)
    names = [*known, *found.names]

    def picture(row: int) -> bytes:
        return thumbnail(read_picture(Path(folder) / names[row], 256))

    def note(row: int) -> str:
        place = Path(folder) / names[row]
        with opened_picture(place) as header:
            return f"{header.width} x {header.height} pixels, {place.stat().st_size / 1024:,.0f} KB"

    return Things(
        found.vectors,
        found.names,
        encoder.metric,
        found.pixels,
        picture=picture,
        note=note,
        skipped=found.skipped,
        stamps=found.stamps,
        other_names=found.other_names,
        encoder=encoder,
    )


def texts_of(path: str, column: str, id_column: str | None, encoder: Any, is_fitted: bool) -> Things:
    """The texts of a table; those without a word that the encoder knows are skipped."""
    import numpy as np

    from hashlearn.features import texts_of_csv

    table = texts_of_csv(path, column)
    names = list(range(len(table.texts))) if id_column is None else column_values(path, table.fields, "--id", id_column)
    if not is_fitted:
        encoder.fit(table.texts)
    vectors = encoder.encode(table.texts)
    is_known = np.any(vectors != 0, axis=1)
    rows = np.flatnonzero(is_known)
    return Things(
        vectors[rows],
        [names[row] for row in rows],
        encoder.metric,
        texts=[table.texts[row] for row in rows],
        skipped=[(str(names[row]), "no word that the encoder knows") for row in np.flatnonzero(~is_known)],
        encoder=encoder,
    )
