"""``hashlearn experiment run``, ``show`` and ``report``; ``hashlearn paper`` has the same verbs for its own files."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from hashlearn.cli.support.bars import RunLog
from hashlearn.cli.support.places import check_places

if TYPE_CHECKING:
    from hashlearn.experiments import Experiment, Results

_Datasets = Annotated[str | None, typer.Option(help="Comma-separated names; by default the experiment's own.")]
_Methods = Annotated[
    str | None, typer.Option(help="Comma-separated names: the experiment's, or any that 'hashlearn methods' lists.")
]
_Bits = Annotated[str | None, typer.Option("--bits", "-b", help="Comma-separated lengths of codes.")]
_Runs = Annotated[int | None, typer.Option(min=1, help="Repetitions, each with a seed of its own.")]
_Results = Annotated[
    str | None, typer.Option(help="The folder of the results; by default that of 'run', or what is stored.")
]


class ExperimentVerbs(NamedTuple):
    """The differences between the commands that run experiments.

    Attributes
    ----------
    name : of the command
    help : str
    argument : the argument that names an experiment, with its placeholder in the help
    example : a value of this argument
    read : function from a name to its experiment
    folder : function from a name to the default folder of the results of ``run``
    stored : function from a name to the default folder of ``show`` and ``report``
    all_names : the experiments of a report without names
    title, subtitle : of a report; if empty, those of the experiment
    """

    name: str
    help: str
    argument: tuple[str, str]
    example: str
    read: Callable[[str], "Experiment"]
    folder: Callable[[str], str]
    stored: Callable[[str], str]
    all_names: tuple[str, ...] = ()
    title: str = ""
    subtitle: str = ""


class Restriction(NamedTuple):
    """The options that choose a part of an experiment."""

    datasets: str | None
    methods: str | None
    bits: str | None
    runs: int | None

    def of(self, experiment: "Experiment") -> "Experiment":
        """The chosen part."""
        return experiment.restricted(_listed(self.datasets), _listed(self.methods), _numbers(self.bits), self.runs)

    def __str__(self) -> str:
        return "".join(f" --{name} {value}" for name, value in self._asdict().items() if value is not None)


def typer_of(verbs: ExperimentVerbs) -> typer.Typer:
    """The verbs run, show and report as a group of the command line."""
    app = typer.Typer(help=verbs.help, no_args_is_help=True)
    metavar, what = verbs.argument
    one_name = Annotated[str, typer.Argument(metavar=metavar, help=what)]
    names_optional = Annotated[list[str] | None, typer.Argument(metavar=f"{metavar}...", help=what)]
    command = f"hashlearn {verbs.name}"

    @app.command("run", epilog=f"Example: {command} run {verbs.example} --bits 16 --runs 1")
    def run(
        experiment: one_name,
        datasets: _Datasets = None,
        methods: _Methods = None,
        bits: _Bits = None,
        runs: _Runs = None,
        out: Annotated[str | None, typer.Option("--out", "-o", help="The folder of the results.")] = None,
        workers: Annotated[int, typer.Option(min=1, help="Processes, each on one thread.")] = 2,
    ) -> None:
        """Do the runs of an experiment that are not stored yet. Interrupt it at any time; run it again to continue."""
        chosen = Restriction(datasets, methods, bits, runs).of(verbs.read(experiment))
        _run(chosen, out or verbs.folder(experiment), workers)

    @app.command("show", epilog=f"Example: {command} show {verbs.example}")
    def show(
        experiment: one_name,
        datasets: _Datasets = None,
        methods: _Methods = None,
        bits: _Bits = None,
        runs: _Runs = None,
        results: _Results = None,
        markdown: Annotated[bool, typer.Option("--markdown", help="Tables for a document.")] = False,
    ) -> None:
        """Print the tables: mean and standard deviation over the runs, the published number, and the difference."""
        chosen = Restriction(datasets, methods, bits, runs).of(verbs.read(experiment))
        stored = _stored(results or verbs.stored(experiment), chosen, f"{command} run {experiment}")
        (_print_markdown if markdown else _print_tables)(chosen, stored)

    @app.command("report", epilog=f"Example: {command} report {verbs.example} --out page.html")
    def report(
        experiments: names_optional = None,
        datasets: _Datasets = None,
        methods: _Methods = None,
        bits: _Bits = None,
        runs: _Runs = None,
        results: _Results = None,
        out: Annotated[str | None, typer.Option("--out", "-o", help="The page to write.")] = None,
    ) -> None:
        """Write one page with all tables and figures that have results."""
        if not experiments and not verbs.all_names:
            raise ValueError(f"name at least one {metavar}")
        page = out or f"{Path(experiments[0]).stem if experiments else verbs.name}.html"
        names = experiments or list(verbs.all_names)
        _report(verbs, names, Restriction(datasets, methods, bits, runs), results, page)

    return app


def _run(experiment: "Experiment", out: str, workers: int) -> None:
    if Path(out).exists() and not Path(out).is_dir():
        raise ValueError(f"--out must be a folder, got the file {out}")

    from hashlearn.experiments import run_experiment

    log = RunLog(experiment)
    with log.reporting():
        outcome = run_experiment(experiment, out, workers=workers, on_line=log.note)
    for problem in outcome.problems:
        typer.echo(f"no result: {problem}", err=True)
    typer.echo(f"{out}: {outcome.n_new} new runs of {experiment.name}, {outcome.n_stored} were there")


def _print_tables(experiment: "Experiment", results: "Results") -> None:
    from rich.console import Console

    from hashlearn.experiments.show.text_tables import shown

    console = Console()
    if not console.is_terminal:
        console.width = 160  # lines in a file are not wrapped
    console.print(shown(experiment, results))


def _print_markdown(experiment: "Experiment", results: "Results") -> None:
    from hashlearn.experiments.show.text_tables import as_markdown

    typer.echo(as_markdown(experiment, results), nl=False)


def _report(verbs: ExperimentVerbs, names: list[str], restriction: Restriction, results: str | None, out: str) -> None:
    from hashlearn.durable.files import write_text

    experiments = [restriction.of(verbs.read(name)) for name in names]
    check_places({"--out": out}, [*names, *(path for experiment in experiments for path in experiment.files)])

    from hashlearn.experiments.show import need_report_packages
    from hashlearn.experiments.show.experiment_page import ReportedExperiment, report_page

    need_report_packages()
    reported = [
        ReportedExperiment(experiment, _opened(results or verbs.stored(name), experiment))
        for name, experiment in zip(names, experiments)
    ]
    again = [
        *(f"hashlearn {verbs.name} run {name}{restriction} --out again" for name in names),
        f"hashlearn {verbs.name} report {' '.join(names)}{restriction} --results again --out {out}",
    ]
    write_text(out, report_page(reported, title=verbs.title, subtitle=verbs.subtitle, commands=again))
    typer.echo(f"The report: {Path(out).resolve().as_uri()}")


def _stored(folder: str, experiment: "Experiment", command: str) -> "Results":
    """The results of an experiment; an error if there are none."""
    from hashlearn.experiments.results import measure_tables

    results = _opened(folder, experiment)
    if not measure_tables(experiment, results):
        raise ValueError(f"no results of {experiment.name} in {folder}: {command} makes them")
    return results


def _opened(folder: str, experiment: "Experiment") -> "Results":
    from hashlearn.experiments import ResultFolder, Results

    if not Path(folder).is_dir():
        raise ValueError(f"--results must be a folder that 'run' made, got {folder}")
    return Results(ResultFolder(folder).lines(dataset.name for dataset in experiment.datasets))


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


def _read(path: str) -> "Experiment":
    from hashlearn.experiments import read_experiment

    return read_experiment(path)


def _folder(path: str) -> str:
    return f"{Path(path).stem}-results"


app = typer_of(
    ExperimentVerbs(
        name="experiment",
        help="Compare methods on your own data, as a TOML file describes.",
        argument=("FILE.toml", "The file that describes the experiment."),
        example="shop.toml",
        read=_read,
        folder=_folder,
        stored=_folder,
    )
)
