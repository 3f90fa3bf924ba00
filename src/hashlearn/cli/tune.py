"""``hashlearn tune``."""

import json as json_text
from typing import Annotated

import typer

from hashlearn.cli.bars import progress_bars
from hashlearn.cli.code_files import FORCE, check_made_by, read_codes
from hashlearn.cli.model_files import files_of_model, load_model, naming
from hashlearn.cli.places import check_places, with_sidecars
from hashlearn.cli.reranking import METRIC, VECTORS, read_behind, read_queries, search_with

EXAMPLE = "Example: hashlearn tune model/ codes.npy vectors.npy --target-recall 0.95 --plot curve.png"


def run(
    model: Annotated[str, typer.Argument(help="The folder of the model that made the codes.")],
    codes: Annotated[str, typer.Argument(help="The codes to search: .npy from 'hashlearn encode'.")],
    vectors: Annotated[str, typer.Argument(help=f"What candidates are ordered by: {VECTORS}.")],
    queries: Annotated[
        str | None,
        typer.Option(help="Vectors of queries; otherwise some of VECTORS, which do not find themselves."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbors of a query.")] = 10,
    target_recall: Annotated[float, typer.Option(help="The share of the true neighbors to find, 0 to 1.")] = 0.95,
    metric: Annotated[str, typer.Option(help=METRIC)] = "euclidean",
    plot: Annotated[str | None, typer.Option(help="Write the curve as a picture: .png, .svg or .pdf.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Also write all numbers as JSON.")] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE)] = False,
) -> None:
    """Measure how many candidates 'hashlearn search --rerank' needs for a wanted recall."""
    check_places({"--plot": plot, "--json": json}, [*files_of_model(model), *with_sidecars(codes), vectors, queries])
    hasher, identity = load_model(model)
    database = read_codes(codes, hasher.n_bits)
    check_made_by(database, identity, force)
    behind = read_behind(vectors, database, hasher)
    asked = None if queries is None else read_queries(queries, hasher)
    search = search_with(hasher, database, behind, vectors, metric)

    from hashlearn.files import write_text
    from hashlearn.search import tune

    with naming(queries or vectors), progress_bars():
        tuning = tune(search, asked, k, target_recall, vectors=behind)
    if json is not None:
        write_text(json, json_text.dumps(tuning.to_dict(), indent=2) + "\n")
    if plot is not None:
        tuning.plot(plot)
    typer.echo(str(tuning))
