"""``hashlearn search``."""

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hashlearn.cli.arrays import read_matrix
from hashlearn.cli.bars import progress_bars
from hashlearn.cli.code_files import FORCE, CodeFile, check_ending, check_made_by, read_codes, read_sidecar
from hashlearn.cli.model_files import encoded, files_of_model, load_model
from hashlearn.cli.places import check_places, with_sidecars

EXAMPLE = "Example: hashlearn search model/ codes.npy queries.npy -k 10 --out neighbors.npz"


def run(
    model: Annotated[str, typer.Argument(help="The folder of the model that made the codes.")],
    codes: Annotated[str, typer.Argument(help="The codes to search: .npy from 'hashlearn encode'.")],
    queries: Annotated[str, typer.Argument(help="Vectors of the queries, or their codes with a sidecar.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbors of a query.")] = 10,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="An .npz file of distances (int32) and ids (int64); otherwise printed."),
    ] = None,
    array: Annotated[str | None, typer.Option(help="The array, of a file of queries with several.")] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE)] = False,
) -> None:
    """Find the nearest codes of queries, ties by lowest id."""
    from hashlearn.search import HammingIndex

    check_places({"--out": out}, [*files_of_model(model), *with_sidecars(codes, queries)])
    if out is not None:
        check_ending(out, ".npz")
    hasher, identity = load_model(model)
    database = read_codes(codes, hasher.n_bits)
    query_file = _query_codes(hasher, identity, queries, array)
    for file in (database, query_file):
        check_made_by(file, identity, force)
    if k > len(database.codes):
        raise ValueError(f"-k must be at most the {len(database.codes)} codes of {codes}, got {k}")
    with progress_bars():
        distances, ids = HammingIndex(hasher.n_bits).add(database.codes).search(query_file.codes, k)
    if out is None:
        print_neighbors(distances, ids)
    else:
        write_neighbors(out, distances=distances, ids=ids)
        typer.echo(f"{out}: the {k} nearest of {len(database.codes)} codes for {len(ids)} queries")


def _query_codes(hasher: Any, identity: dict[str, Any], queries: str, array: str | None) -> CodeFile:
    """The codes in the file if it says that it holds codes, otherwise those of its vectors."""
    if array is None and read_sidecar(queries) is not None:
        return read_codes(queries, hasher.n_bits)
    vectors = read_matrix(queries, array)
    return CodeFile(queries, encoded(hasher, vectors, queries), hasher.n_bits, identity)


def write_neighbors(out: str, **arrays: NDArray) -> None:
    """Write an .npz file of results in one step."""
    from hashlearn.files import replacing

    with replacing(out) as (beside,), beside.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def print_neighbors(distances: Iterable[NDArray[np.int32]], ids: Iterable[NDArray[np.int64]]) -> None:
    """A line a query: its number, then ``id:distance`` nearest first."""
    for query, (row, found) in enumerate(zip(distances, ids)):
        typer.echo(f"{query}\t" + " ".join(f"{i}:{d}" for i, d in zip(found, row)))
