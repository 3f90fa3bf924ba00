"""``hashlearn search``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from hashlearn.cli.support.arrays import Header, check_header, read_matrix
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.code_files import FORCE, CodeFile, check_ending, check_made_by, read_codes, read_sidecar
from hashlearn.cli.support.model_files import check_features, files_of_model, load_model, naming
from hashlearn.cli.support.places import check_places, with_sidecars
from hashlearn.cli.support.reranking import METRIC, VECTORS, read_behind, read_queries, search_with
from hashlearn.cli.support.texts import BY, WEIGHTS, Asking, ask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXAMPLE = "Example: hashlearn search model/ codes.npy queries.npy -k 10 --rerank vectors.npy --out neighbors.npz"


class QueryFile(NamedTuple):
    """A file of queries: its path, the name of an array in it, and whether its first line is a header."""

    path: str
    array: str | None
    header: str | None


def run(
    model: Annotated[
        str, typer.Argument(help="The folder of the model that made the codes, or of a saved SimilaritySearch.")
    ],
    codes: Annotated[
        str | None,
        typer.Argument(help="The codes to search: .npy from 'hashlearn encode'. Of a saved search, the queries."),
    ] = None,
    queries: Annotated[
        str | None, typer.Argument(help="Vectors of the queries, or their codes with a sidecar.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbors of a query.")] = 10,
    rerank: Annotated[
        str | None, typer.Option(metavar="VECTORS", help=f"Order candidates by exact distance to {VECTORS}.")
    ] = None,
    candidates: Annotated[
        int | None, typer.Option(min=1, help="Codes to rerank; by default 4 k. See 'hashlearn tune'.")
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(help="Of a saved search: the share of the true neighbors to find; 1 compares all vectors."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help=f"{METRIC} By default euclidean.")] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="An .npz file of distances and ids (int64); otherwise printed."),
    ] = None,
    array: Annotated[str | None, typer.Option(help="The array, of a file of queries with several.")] = None,
    header: Header = None,
    text: Annotated[str | None, typer.Option(help="A text to look for in a saved search, in place of files.")] = None,
    by: Annotated[str | None, typer.Option(help=BY)] = None,
    operators: Annotated[
        bool, typer.Option("--operators", help='Let "a phrase", begin*, +must and -without mean something in the text.')
    ] = False,
    weights: Annotated[str | None, typer.Option(help=WEIGHTS)] = None,
    like: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A row of a saved search to be like; repeatable."),
    ] = None,
    unlike: Annotated[list[str] | None, typer.Option(metavar="ID", help="Beside --like: a row to avoid.")] = None,
    diversity: Annotated[
        float, typer.Option(help="With --text or --like: from 0 to 1, how much results should differ from each other.")
    ] = 0.0,
    force: Annotated[bool, typer.Option("--force", help=FORCE)] = False,
) -> None:
    """Find the nearest codes of queries, the nearest vectors among candidates, or rows that match a text or rows."""
    if text is not None or like:
        if codes is not None:
            raise ValueError(f"--text and --like are for a saved search alone, got {codes} beside them")
        ask(model, Asking(text, by, weights, operators, like, unlike, diversity, recall), k)
        return
    if by is not None or operators or weights is not None:
        raise ValueError("--by, --operators and --weights need --text, the text to look for")
    if unlike or diversity:
        raise ValueError("--unlike needs --like, and --diversity needs --like or --text")
    if codes is None:
        raise ValueError("CODES must be given, or --text where the folder is a saved search")
    if queries is None:
        _search_folder(model, QueryFile(codes, array, header), k, candidates, recall, out)
        return
    if recall is not None:
        raise ValueError("--recall is for a saved search, which keeps vectors; codes with --rerank take --candidates")
    check_places({"--out": out}, [*files_of_model(model), *with_sidecars(codes, queries), rerank])
    check_header(header, queries, rerank)
    if rerank is None and (candidates is not None or metric is not None):
        raise ValueError("--candidates and --metric need --rerank, the vectors to order by")
    if out is not None:
        check_ending(out, ".npz")
    hasher, identity = load_model(model)
    database = read_codes(codes, hasher.n_bits)
    check_made_by(database, identity, force)
    if k > len(database.codes):
        raise ValueError(f"-k must be at most the {len(database.codes)} codes of {codes}, got {k}")
    if rerank is None:
        asked = QueryFile(queries, array, header)
        distances, ids = _nearest_codes(hasher, identity, database, asked, k, force)
    else:
        vectors, rows = read_behind(rerank, database, hasher, header), read_queries(queries, hasher, array, header)
        search = search_with(hasher, database, vectors, rerank, metric or "euclidean")
        with naming(queries), progress_bars():
            distances, ids = search.search(rows, k, candidates=candidates or 4 * k, rerank=vectors)
    if out is None:
        print_neighbors(distances, ids)
    else:
        write_neighbors(out, distances=distances, ids=ids)
        typer.echo(f"{out}: the {k} nearest of {len(database.codes)} codes for {len(ids)} queries")


def _search_folder(
    folder: str, asked: QueryFile, k: int, candidates: int | None, recall: float | None, out: str | None
) -> None:
    """Search a folder that ``SimilaritySearch.save`` wrote."""
    from hashlearn.search import SimilaritySearch

    check_places({"--out": out}, [asked.path])
    check_header(asked.header, asked.path)
    if out is not None:
        check_ending(out, ".npz")
    search = SimilaritySearch.open(folder)
    queries = read_matrix(*asked)
    with naming(asked.path), progress_bars():
        found = search.search(queries, k, candidates=candidates, recall=recall)
    distances, ids = found
    if out is None:
        print_neighbors(distances, ids)
        return
    write_neighbors(out, distances=distances, ids=ids.astype(str) if ids.dtype == object else ids)
    expected = getattr(found, "recall", None)
    told = "" if expected is None else f", recall {expected:.3f} expected"
    typer.echo(f"{out}: the {k} nearest of {len(search)} vectors for {len(ids)} queries{told}")


def _nearest_codes(
    hasher: Any, identity: dict[str, Any], database: CodeFile, asked: QueryFile, k: int, force: bool
) -> Any:
    """The nearest codes of each query. The file holds codes if it has a sidecar, otherwise vectors."""
    from hashlearn.search.code_search import CodeSearch

    if asked.array is None and read_sidecar(asked.path) is not None:
        query_codes = read_codes(asked.path, hasher.n_bits)
        check_made_by(query_codes, identity, force)
        with progress_bars():
            return CodeSearch.of_codes(hasher, database.codes).nearest_to_codes(query_codes.codes, k)
    vectors = read_matrix(*asked)
    check_features(hasher, vectors, asked.path)
    with naming(asked.path), progress_bars():
        return CodeSearch.of_codes(hasher, database.codes).nearest(vectors, k)


def write_neighbors(out: str, **arrays: "NDArray") -> None:
    """Write an .npz file of results in one step."""
    import numpy as np

    from hashlearn.durable.files import replacing

    with replacing(out) as (beside,), beside.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def print_neighbors(distances: "Iterable[NDArray]", ids: "Iterable[NDArray[np.int64]]") -> None:
    """A line for each query: its number, then ``id:distance``, nearest first."""
    for query, (row, found) in enumerate(zip(distances, ids)):
        typer.echo(f"{query}\t" + " ".join(f"{i}:{d:.6g}" for i, d in zip(found, row)))
