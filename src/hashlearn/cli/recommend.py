"""``hashlearn recommend``."""

from typing import Annotated

import typer

from hashlearn.cli.support.arrays import FORMATS, read_array, read_matrix
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.places import check_places

EXAMPLE = "Example: hashlearn recommend vectors.npy --labels y.npy --bytes 16 --plot plot.svg"


def run(
    vectors: Annotated[str, typer.Argument(help=f"The vectors: {FORMATS}.")],
    labels: Annotated[str | None, typer.Option(help="Their labels: classes, or a 0/1 matrix.")] = None,
    n_bytes: Annotated[int, typer.Option("--bytes", min=1, help="The most that the code of a row may take.")] = 16,
    sample: Annotated[int, typer.Option(min=100, help="Rows to try the methods on.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample and of every method.")] = 0,
    plot: Annotated[str | None, typer.Option(metavar="FILE.svg", help="Also draw the measurements.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Also write all numbers as JSON.")] = None,
) -> None:
    """Try methods on a sample of vectors, and say which method, length and search to take."""
    from hashlearn.durable.files import writing

    check_places({"--plot": plot, "--json": json}, [vectors, labels])
    data = read_matrix(vectors)
    known = None if labels is None else read_array(labels)

    from hashlearn.experiments.recommend import SHOWN, recommend
    from hashlearn.experiments.recommend_plot import recommendation_svg

    with progress_bars():
        found = recommend(data, known, n_bytes=n_bytes, sample=sample, seed=seed)
    contents = {}
    if plot is not None:
        contents[plot] = recommendation_svg(found)
    if json is not None:
        contents[json] = (found.to_json() + "\n").encode()
    with writing(contents):
        pass

    typer.echo(f"Measured on {found.n_rows} rows of {found.n_features} features, with {found.n_queries} queries:\n")
    typer.echo(found.table())
    for problem in found.problems:
        typer.echo(f"not tried: {problem}")
    jobs = [("By meaning", "mAP", found.by_meaning), ("By neighborhood", "recall_at_10", found.by_neighborhood)]
    for job, measure, trial in jobs:
        if trial is None:
            typer.echo(f"\n{job}: not judged, because that needs --labels")
            continue
        value = f"{SHOWN[measure]} {trial.measures[measure]:.3f}"
        typer.echo(f"\n{job}: {trial.title}, {trial.n_bits} bits ({value}). Next:")
        for command in trial.commands(vectors):
            typer.echo(f"  {command}")
        typer.echo(f"  or, in Python: {trial.search}")
