"""``hashlearn evaluate``."""

import warnings
from typing import Annotated, Any

import typer

from hashlearn.cli.support.arrays import Header, check_header, read_array, read_matrix
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.code_files import FORCE, CodeFile, check_made_by, check_same_model, read_codes
from hashlearn.cli.support.model_files import files_of_model, load_model
from hashlearn.cli.support.places import check_places, with_sidecars
from hashlearn.cli.support.texts import BY, evaluate_texts

EXAMPLE = "Example: hashlearn evaluate codes.npy query_codes.npy --labels y.npy --query-labels yq.npy"


def run(
    codes: Annotated[str, typer.Argument(help="The codes of the database; or a saved search, with --texts.")],
    query_codes: Annotated[str | None, typer.Argument(help="The codes of the queries.")] = None,
    labels: Annotated[str | None, typer.Option(help="Labels of the database: classes, or a 0/1 matrix.")] = None,
    query_labels: Annotated[str | None, typer.Option(help="Labels of the queries.")] = None,
    vectors: Annotated[str | None, typer.Option(help="Vectors of the database, for recall of true neighbors.")] = None,
    query_vectors: Annotated[str | None, typer.Option(help="Vectors of the queries.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The folder of the model; codes made for real queries (ABH) are then judged by these."),
    ] = None,
    bits: Annotated[int | None, typer.Option("--bits", "-b", help="Length of a code, if no sidecar says it.")] = None,
    header: Header = None,
    k: Annotated[int, typer.Option("-k", min=1, help="True neighbors of a query that recall counts.")] = 10,
    radius: Annotated[int, typer.Option(min=0, help="Radius of the look-up, inclusive.")] = 2,
    ties: Annotated[str, typer.Option(help="expected, stable, optimistic or pessimistic.")] = "expected",
    texts: Annotated[
        str | None, typer.Option(metavar="FILE", help="Texts to look for: lines 'id<TAB>text', or .jsonl of BEIR.")
    ] = None,
    relevance: Annotated[
        str | None, typer.Option(metavar="FILE", help="Which rows answer them: judgements of TREC or BEIR.")
    ] = None,
    by: Annotated[str | None, typer.Option(help=BY)] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Also write all numbers as JSON.")] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE)] = False,
) -> None:
    """Judge codes by labels, by the true neighbors of their vectors, or by both; or a search of texts by judgements."""
    from hashlearn.durable.files import write_text

    if texts is not None or relevance is not None:
        if texts is None or relevance is None or query_codes is not None:
            raise ValueError("--texts and --relevance come together, and are for a saved search without QUERY_CODES")
        evaluate_texts(codes, texts, relevance, by, json)
        return
    if query_codes is None or by is not None:
        raise ValueError("QUERY_CODES must be given, or --texts and --relevance where CODES is a saved search")
    others = [] if model is None else files_of_model(model)
    read = [*with_sidecars(codes, query_codes), labels, query_labels, vectors, query_vectors, *others]
    check_places({"--json": json}, read)
    check_header(header, vectors, query_vectors)
    database, queries = read_codes(codes, bits), read_codes(query_codes, bits)
    check_same_model(database, queries, force)
    hasher = None if model is None else _model_of(model, database, force)
    if hasher is None:
        _warn_of_hamming(database)

    from hashlearn.experiments.judge import evaluate_real_queries, has_real_queries
    from hashlearn.metrics import evaluate

    by_real_queries = hasher is not None and has_real_queries(hasher)
    if by_real_queries and (vectors is None or query_vectors is None):
        raise ValueError("real queries are judged by vectors: give --vectors and --query-vectors")

    given: dict[str, Any] = {
        "query_labels": None if query_labels is None else read_array(query_labels),
        "labels": None if labels is None else read_array(labels),
        "query_vectors": None if query_vectors is None else read_matrix(query_vectors, header=header),
        "vectors": None if vectors is None else read_matrix(vectors, header=header),
        "k": k,
        "ties": ties,
    }
    with progress_bars():
        if by_real_queries:
            result = evaluate_real_queries(hasher, database.codes, **given)
        else:
            result = evaluate(database.codes, queries.codes, database.n_bits, **given, radius=radius)
    if json is not None:
        write_text(json, result.to_json() + "\n")
    typer.echo(result.table())


def _model_of(folder: str, codes: CodeFile, force: bool) -> Any:
    hasher, identity = load_model(folder)
    check_made_by(codes, identity, force)
    return hasher


def _warn_of_hamming(codes: CodeFile) -> None:
    """Warn if codes for real queries are judged by Hamming distance."""
    if codes.is_for_real_queries:
        warnings.warn(
            f"{codes.place} holds codes made for real queries, which are judged here by Hamming distance; give --model "
            "to judge them by real queries",
            UserWarning,
            stacklevel=1,
        )
