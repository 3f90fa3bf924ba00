"""The command line: it parses, calls and prints. One file per verb.

Nothing heavy is imported before a command runs, so that ``hashlearn --help`` answers at once.
"""

import sys
import warnings
from functools import cache
from typing import Any

import typer

from hashlearn.cli import (
    app,
    compact,
    data,
    dedup,
    demo,
    doctor,
    encode,
    evaluate,
    experiment,
    explain,
    features,
    fit,
    index,
    methods,
    near_duplicates,
    paper,
    recommend,
    reencode,
    restore,
    search,
    serve,
    snapshot,
    tune,
    version,
)
from hashlearn.cli.support.errors import INTERRUPTED, check_streams, complaint, exit_code, give_up_stdout

commands = typer.Typer(
    name="hashlearn",
    help="Learn short binary codes for vectors, search them, and judge them.",
    epilog="Try: hashlearn demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS = (
    *(methods, fit, encode, search, tune, dedup, near_duplicates, evaluate, explain, recommend),
    *(serve, snapshot, restore, compact, reencode, doctor, app, demo, version),
)
for verb in VERBS:
    commands.command(verb.__name__.rpartition(".")[2].replace("_", "-"), epilog=verb.EXAMPLE)(verb.run)
for group in (index, features, data, experiment, paper):
    commands.add_typer(group.app, name=group.__name__.rpartition(".")[2])


@commands.callback()
def options(
    version_wanted: bool = typer.Option(False, "--version", is_eager=True, callback=version.show, help="Say which."),
) -> None:
    """Learn short binary codes for vectors, search them, and judge them."""


@cache
def _parser() -> Any:
    """The command that parses all verbs. It is made once in a process, which may run several command lines."""
    parser: Any = typer.main.get_command(commands)
    groups = [parser, *(command for command in parser.commands.values() if hasattr(command, "commands"))]
    for command in (command for group in groups for command in group.commands.values()):
        command.short_help = (command.help or "").partition("\n\n")[0]  # lists of verbs cut off one that is not given
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run a command. An error in its input is one line on stderr and exit code 2."""
    warnings.showwarning = _one_line_warning
    try:
        check_streams()
        status = _parser()(args=arguments, prog_name="hashlearn", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)
    except Exception as error:
        if isinstance(error, OSError):
            give_up_stdout()
        message = complaint(error)
        if message is None:
            raise
        if message:
            print(f"hashlearn: error: {message}", file=sys.stderr)
        sys.exit(exit_code(error))
    sys.exit(status if isinstance(status, int) else 0)


def _one_line_warning(message, category, filename, lineno, file=None, line=None) -> None:
    print(f"hashlearn: warning: {' '.join(str(message).split())}", file=sys.stderr)
