"""``hashlearn paper run``, ``show`` and ``report``."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hashlearn.cli.bars import progress_bars
from hashlearn.progress import reporting

if TYPE_CHECKING:
    from hashlearn.experiments.experiment import Experiment
    from hashlearn.experiments.summary import Results

app = typer.Typer(help="Run the experiments of the JPSH paper and compare with its numbers.", no_args_is_help=True)

RESULTS = "results"
_NAMES = "table-1, table-2, table-3, figure-4, figures-5-6, figure-7, figure-8, or a .toml file of your own."
_Experiment = Annotated[str, typer.Argument(metavar="EXPERIMENT", help=_NAMES)]
_Datasets = Annotated[str | None, typer.Option(help="Comma-separated names; by default the experiment's own.")]
_Methods = Annotated[str | None, typer.Option(help="Comma-separated names, or 'all' of the experiment's.")]
_Bits = Annotated[str | None, typer.Option("--bits", "-b", help="Comma-separated lengths of codes.")]
_Runs = Annotated[int | None, typer.Option(min=1, help="Repetitions, each with a seed of its own.")]


@app.command("run", epilog="Example: hashlearn paper run table-2 --datasets mnist --bits 16 --runs 1")
def run(
    experiment: _Experiment,
    datasets: _Datasets = None,
    methods: _Methods = None,
    bits: _Bits = None,
    runs: _Runs = None,
    out: Annotated[str, typer.Option("--out", "-o", help="The folder of the results.")] = RESULTS,
    workers: Annotated[int, typer.Option(min=1, help="Processes, each on one thread.")] = 2,
) -> None:
    """Do what is not yet stored of an experiment; it may be interrupted and goes on where it was."""
    chosen = _chosen(experiment, datasets, methods, bits, runs)
    if Path(out).exists() and not Path(out).is_dir():
        raise ValueError(f"--out must be a folder, got the file {out}")

    from hashlearn.experiments.runner import run_experiment

    log = _Log(chosen.name)
    with log.reporting():
        outcome = run_experiment(chosen, out, workers=workers, on_line=log.note)
    for problem in outcome.problems:
        typer.echo(f"no result: {problem}", err=True)
    typer.echo(f"{out}: {outcome.n_new} new runs of {chosen.name}, {outcome.n_stored} were there")


@app.command("show", epilog="Example: hashlearn paper show table-2 --datasets mnist")
def show(
    experiment: _Experiment,
    datasets: _Datasets = None,
    methods: _Methods = None,
    bits: _Bits = None,
    runs: _Runs = None,
    results: Annotated[str, typer.Option(help="The folder of the results.")] = RESULTS,
    markdown: Annotated[bool, typer.Option("--markdown", help="Tables for a document.")] = False,
) -> None:
    """Print our numbers (mean and deviation over the runs), the paper's, and the difference."""
    chosen = _chosen(experiment, datasets, methods, bits, runs)

    from rich.console import Console

    from hashlearn.experiments.show import as_markdown, shown
    from hashlearn.experiments.summary import blocks

    stored = _stored(results)
    if not blocks(chosen, stored):
        raise ValueError(f"no results of {experiment} in {results}: hashlearn paper run {experiment} makes them")
    if markdown:
        typer.echo(as_markdown(chosen, stored), nl=False)
        return
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a file has no edge to wrap at
    console.print(shown(chosen, stored))


@app.command("report", epilog="Example: hashlearn paper report --out paper.html")
def report(
    experiment: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Only these; by default all of the paper.")
    ] = None,
    results: Annotated[str, typer.Option(help="The folder of the results.")] = RESULTS,
    out: Annotated[str, typer.Option("--out", "-o", help="The page to write.")] = "paper.html",
) -> None:
    """Write one page with every table and figure there are results for."""
    from hashlearn.files import check_writable, write_text

    check_writable(out, "--out")
    from hashlearn.experiments.experiment import EXPERIMENTS, experiment_named
    from hashlearn.experiments.page import report_page
    from hashlearn.experiments.report.figures import need_matplotlib

    need_matplotlib()
    chosen = [experiment_named(name) for name in experiment or EXPERIMENTS]
    write_text(out, report_page(chosen, _stored(results)))
    typer.echo(f"The report: {Path(out).resolve().as_uri()}")


def _chosen(
    experiment: str, datasets: str | None, methods: str | None, bits: str | None, runs: int | None
) -> "Experiment":
    from hashlearn.experiments.experiment import experiment_named

    methods = None if methods == "all" else methods
    return experiment_named(experiment).restricted(_listed(datasets), _listed(methods), _numbers(bits), runs)


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [word for part in text.split(",") if (word := part.strip())]


def _numbers(text: str | None) -> list[int] | None:
    words = _listed(text)
    if words is None:
        return None
    for word in words:
        if not word.isdecimal():
            raise ValueError(f"--bits must be whole numbers with commas between them, got {text!r}")
    return [int(word) for word in words]


def _stored(folder: str) -> "Results":
    from hashlearn.experiments.store import Store
    from hashlearn.experiments.summary import Results

    if not Path(folder).is_dir():
        raise ValueError(f"--results must be a folder that 'hashlearn paper run' made, got {folder}")
    return Results(Store(folder).lines())


class _Log:
    """A line on stderr for every run that is done; where there is no terminal to draw bars on, with the time left."""

    def __init__(self, name: str):
        self.name, self.said, self.start = name, "", time.monotonic()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        if sys.stderr.isatty():
            with progress_bars(time_left=True):
                yield
        else:
            with reporting(self.report):
                yield

    def note(self, task: Any, line: dict[str, Any]) -> None:
        length = "" if task.bits is None else f" {task.bits} bits, run {task.run}"
        number = f"mAP {line['measures']['mAP']:.4f}" if "measures" in line else line["problem"]
        took = f", {sum(line['seconds'].values()):.1f} s" if "seconds" in line else ""
        self.said = f"{task.dataset.title} {task.row.title}{length}: {number}{took}"
        if sys.stderr.isatty():
            typer.echo(self.said, err=True)

    def report(self, task: str, done: int, total: int | None) -> None:
        if task != self.name or total is None:
            return
        if done == 0:
            self.start = time.monotonic()
            return
        left = (time.monotonic() - self.start) / done * (total - done)
        typer.echo(f"{done}/{total}, {left / 60:.0f} min left: {self.said}", err=True)
