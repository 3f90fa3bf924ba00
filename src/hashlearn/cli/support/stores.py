"""Codes in stores, for the commands: a URI such as ``lance:///folder`` is allowed in place of an index file."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.code_files import CodeFile, are_of_two_models

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

URI = "a URI of a store, such as lance:///folder, sqlite:///file.db or postgresql://..."


def is_uri(place: str | None) -> bool:
    """Whether a place is the URI of a store, and not a file."""
    return place is not None and "://" in place


def load_into(
    uri: str, file: CodeFile, ids: "NDArray | None", payloads: list[dict] | None, *, create: bool, force: bool
) -> None:
    """Write codes into a store, a block at a time. A repeated call continues an interrupted one."""
    from hashlearn.stores import load_codes, open_store

    id_type: Any = None if ids is None else ("str" if ids.dtype.kind in "UO" else "int64")
    wanted = ids.tolist() if id_type == "str" and ids is not None else ids
    with open_store(
        uri, file.n_bits, id_type, create=create, model=file.digest if create and not force else None
    ) as store:
        if not force:
            check_store_model(store, file)
        with progress_bars():
            first = load_codes(store, file.codes, wanted, payloads=payloads)
        if first:
            typer.echo(f"{store.uri}: went on after {first} of {len(file.codes)} codes", err=True)
        typer.echo(f"{store.uri}: {len(store)} codes of {store.n_bits} bits, {len(file.codes) - first} of them written")


def check_store_model(store: Any, file: CodeFile) -> None:
    if are_of_two_models(store.model, file.digest):
        raise ValueError(
            f"{file.place} was encoded by another model than the codes of {store.uri}; encode it again, or insist with "
            "--force"
        )


def search_store(uri: str, file: CodeFile, k: int, radius: int | None, force: bool) -> Any:
    """The k nearest codes of a store, or all within a radius."""
    from hashlearn.stores import open_store

    with open_store(uri, file.n_bits) as store:
        if not force:
            check_store_model(store, file)
        with progress_bars():
            return store.search(file.codes, k) if radius is None else store.within(file.codes, radius)


def describe_store(uri: str) -> list[tuple[str, str]]:
    """The facts of a store."""
    from hashlearn.stores import open_store

    with open_store(uri) as store:
        return [
            ("codes", str(len(store))),
            ("bits", str(store.n_bits)),
            ("ids", "strings" if store.id_type == "str" else "integers"),
            ("vectors", "none" if store.n_features is None else f"of {store.n_features} features"),
            ("compared", "by their bits" if store.corrections is None else "with real queries, by corrections"),
            ("model", store.model or "not known"),
        ]


def encode_into(uri: str, hasher: Any, identity: dict[str, Any], data: Any, job: str, with_vectors: bool) -> int:
    """Encode vectors and write their codes into a store, a block at a time; returns the first row of this call."""
    from hashlearn.rows import as_rows
    from hashlearn.search.code_search import hasher_and_rows
    from hashlearn.stores import load_codes, open_store

    last, _ = hasher_and_rows(hasher)
    corrections = None
    blocks: Any = partial(hasher.transform_blocks, data)
    if hasattr(last, "query_weights"):
        corrections = last.correction_scale_, last.correction_offset_
        blocks = partial(_corrected_blocks, hasher, data)
    n_features = int(hasher.n_features_in_) if with_vectors else None
    with open_store(
        uri,
        hasher.n_bits,
        "int64",
        identity["checksum"],
        n_features=n_features,
        corrections=corrections,
        create=True,
    ) as store:
        vectors = _Rows(as_rows(data)) if with_vectors else None
        return load_codes(store, blocks, vectors=vectors, job=job)


def _corrected_blocks(hasher: Any, data: Any, first: int) -> "Iterator[tuple[slice, NDArray[np.uint8], Any]]":
    """Codes and corrections of blocks of rows, by a hasher for real queries."""
    from hashlearn.progress import reporting
    from hashlearn.rows import as_rows
    from hashlearn.search.code_search import hasher_and_rows

    vectors = _Rows(as_rows(data))
    for rows, codes in hasher.transform_blocks(data, first):
        last, seen = hasher_and_rows(hasher, vectors[rows])
        with reporting(lambda task, done, total: None):  # the bar of the codes shows the progress
            corrections = last.corrections(seen, codes)
        yield rows, codes, corrections


class _Rows:
    """Rows of a source by slices."""

    def __init__(self, rows: Any):
        self._rows = rows

    def __getitem__(self, part: slice) -> "NDArray[np.float32]":
        import numpy as np

        return self._rows.take(np.arange(part.start, part.stop))
