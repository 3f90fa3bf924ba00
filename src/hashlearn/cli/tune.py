"""``hashlearn tune``."""

import json as json_text
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from hashlearn.cli.support.arrays import Header, check_header, read_matrix
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.code_files import FORCE, check_made_by, read_codes
from hashlearn.cli.support.model_files import files_of_model, load_model, naming
from hashlearn.cli.support.places import check_places, with_sidecars
from hashlearn.cli.support.reranking import METRIC, VECTORS, read_behind, read_queries, search_with

EXAMPLE = "Example: hashlearn tune search/ --plot curve.png, or: hashlearn tune model/ codes.npy vectors.npy"


def run(
    folder: Annotated[str, typer.Argument(help="The folder of a saved search, or of the model that made CODES.")],
    codes: Annotated[str | None, typer.Argument(help="The codes to search: .npy from 'hashlearn encode'.")] = None,
    vectors: Annotated[str | None, typer.Argument(help=f"What candidates are ordered by: {VECTORS}.")] = None,
    queries: Annotated[
        str | None, typer.Option(help="Vectors of queries; otherwise some of the vectors, none finding itself.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbors of a query.")] = 10,
    target_recall: Annotated[float, typer.Option(help="The share of the true neighbors to find, at most 1.")] = 0.95,
    metric: Annotated[str | None, typer.Option(help=f"{METRIC} By default euclidean; a saved search has one.")] = None,
    header: Header = None,
    plot: Annotated[str | None, typer.Option(help="Write the curve as a picture: .png, .svg or .pdf.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Also write all numbers as JSON.")] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE)] = False,
) -> None:
    """Measure the number of candidates that a recall needs. A saved search keeps and uses this number."""
    from hashlearn.durable.files import writing

    check_places({"--plot": plot, "--json": json}, [*files_of_model(folder), *with_sidecars(codes), vectors, queries])
    check_header(header, vectors, queries)
    if codes is None:
        if metric is not None or force:
            raise ValueError("--metric and --force need CODES; a saved search has a metric, and codes of its own")
        search, tuning = _tuned_search(folder, queries, header, k, target_recall)
        with writing(_contents(tuning, json, plot)):
            search.tuning = tuning
    else:
        if vectors is None:
            raise ValueError("VECTORS must be given with CODES, to order candidates by")
        files = _Files(folder, codes, vectors, queries, header)
        tuning = _tuned_codes(files, metric or "euclidean", force, k, target_recall)
        with writing(_contents(tuning, json, plot)):
            pass
    typer.echo(str(tuning))


class _Files(NamedTuple):
    """The places of a model, codes, the vectors behind them and, if given, vectors of queries; and --header."""

    model: str
    codes: str
    vectors: str
    queries: str | None
    header: str | None


def _tuned_search(
    folder: str, queries: str | None, header: str | None, k: int, target_recall: float
) -> tuple[Any, Any]:
    """A saved search, and the measurements."""
    from hashlearn.search import SimilaritySearch

    search = SimilaritySearch.open(folder)
    asked = None if queries is None else read_matrix(queries, header=header)
    with naming(queries or folder), progress_bars():
        return search, search.tune(asked, k, target_recall, keep=False)


def _tuned_codes(files: _Files, metric: str, force: bool, k: int, target_recall: float) -> Any:
    """The measurements of codes and the vectors behind them."""
    from hashlearn.search import tune

    hasher, identity = load_model(files.model)
    database = read_codes(files.codes, hasher.n_bits)
    check_made_by(database, identity, force)
    behind = read_behind(files.vectors, database, hasher, files.header)
    asked = None if files.queries is None else read_queries(files.queries, hasher, header=files.header)
    search = search_with(hasher, database, behind, files.vectors, metric)
    with naming(files.queries or files.vectors), progress_bars():
        return tune(search, asked, k, target_recall, vectors=behind)


def _contents(tuning: Any, json: str | None, plot: str | None) -> dict[str, bytes]:
    """The contents to write, by path."""
    contents = {}
    if json is not None:
        contents[json] = (json_text.dumps(tuning.to_dict(), indent=2) + "\n").encode()
    if plot is not None:
        contents[plot] = tuning.picture(Path(plot).suffix.lstrip(".") or "png")
    return contents
