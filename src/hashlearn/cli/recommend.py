"""``hashlearn recommend``."""

from typing import Annotated, Any, Literal

import typer

from hashlearn.cli.support.arrays import FORMATS, Header, check_header, read_array, read_matrix
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.places import check_places

NAMES = {"euclidean": "Euclidean distance", "cosine": "cosine", "dot": "inner product"}
EXAMPLE = "Example: hashlearn recommend vectors.npy --labels y.npy --bytes 16 --plot plot.svg"


def run(
    vectors: Annotated[str, typer.Argument(help=f"The vectors: {FORMATS}.")],
    labels: Annotated[str | None, typer.Option(help="Their labels: classes, or a 0/1 matrix.")] = None,
    n_bytes: Annotated[int, typer.Option("--bytes", min=1, help="The most that the code of a row may take.")] = 16,
    sample: Annotated[int, typer.Option(min=100, help="Rows to try the methods on.")] = 10_000,
    metric: Annotated[
        Literal["euclidean", "cosine", "dot"],
        typer.Option(help="What is near: a small distance, a small angle, a large inner product."),
    ] = "euclidean",
    header: Header = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample and of every method.")] = 0,
    plot: Annotated[str | None, typer.Option(metavar="FILE.svg", help="Also draw the measurements.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Also write all numbers as JSON.")] = None,
) -> None:
    """Try methods on a sample of vectors, and recommend a method, a length and a search."""
    from hashlearn.durable.files import writing

    check_places({"--plot": plot, "--json": json}, [vectors, labels])
    check_header(header, vectors)
    data = read_matrix(vectors, header=header)
    known = None if labels is None else read_array(labels)

    from hashlearn.recommend import recommend
    from hashlearn.recommend.plot import recommendation_svg

    with progress_bars():
        found = recommend(data, known, n_bytes=n_bytes, sample=sample, seed=seed, metric=metric)
    contents = {}
    if plot is not None:
        contents[plot] = recommendation_svg(found)
    if json is not None:
        contents[json] = (found.to_json() + "\n").encode()
    with writing(contents):
        pass

    typer.echo(
        f"Measured on {found.n_rows} rows of {found.n_features} features, with {found.n_queries} queries, by the "
        f"{NAMES[metric]}:\n"
    )
    typer.echo(found.table())
    for problem in found.problems:
        typer.echo(f"not tried: {problem}")
    if found.by_meaning is None:
        typer.echo("\nBy meaning: not judged, because that needs --labels")
    else:
        _say("By meaning", found.by_meaning, f"mAP {found.by_meaning.measures['mAP']:.3f}", vectors)
        typer.echo(f"  in Python: {found.by_meaning.search}")
        typer.echo(f"  {_beside_floats(found, n_bytes)}")
    reached, chosen = found.reached, found.by_neighborhood
    recalls = f"recall of the 10 nearest {reached.codes:.3f} by codes, {reached.reranked:.3f} after reranking "
    _say("By neighborhood", chosen, f"{recalls}{reached.candidates} candidates", vectors)
    typer.echo(f"  in Python: {chosen.reranked_search}")


def _beside_floats(found: Any, n_bytes: int) -> str:
    """The sentence that compares codes with the float vectors by meaning."""
    of_floats = {name: found.of_floats(name) for name in ("mAP", "precision_at_100")}
    trial = found.above_floats
    if trial is None:
        return (
            f"no code of up to {n_bytes} bytes has 1.15 times the mAP of the float vectors ({of_floats['mAP']:.3f}) "
            f"and their precision@100 ({of_floats['precision_at_100']:.3f}): keep the floats, or try more --bytes"
        )
    times = trial.measures["mAP"] / of_floats["mAP"]
    more = trial.measures["precision_at_100"] - of_floats["precision_at_100"]
    return (
        f"above the float vectors from {trial.n_bits} bits of {trial.title} on: mAP {times:.2f} times theirs, "
        f"precision@100 {more:+.3f}"
    )


def _say(job: str, trial: Any, value: str, vectors: str) -> None:
    typer.echo(f"\n{job}: {trial.title}, {trial.n_bits} bits ({value}). Next:")
    if trial.metric == "euclidean":  # the commands compare vectors by their distance
        for command in trial.commands(vectors):
            typer.echo(f"  {command}")
