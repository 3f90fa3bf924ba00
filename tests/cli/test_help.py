"""Help, version and progress: there at once, and out of the way."""

import io
import subprocess
import sys

import pytest
from rich.console import Console
from rich.progress import Progress

import hashlearn
from hashlearn import METHODS
from hashlearn.cli import commands
from hashlearn.cli.support.bars import bar_keeper

GROUPS = {
    "index": ["build", "add", "search", "info"],
    "features": ["gist", "embed"],
    "data": ["info"],
    "experiment": ["run", "show", "report"],
    "paper": ["run", "show", "report"],
}
VERBS = [
    "methods",
    "fit",
    "encode",
    "search",
    "tune",
    "dedup",
    "near-duplicates",
    "evaluate",
    "explain",
    "recommend",
    "serve",
    "snapshot",
    "restore",
    "compact",
    "reencode",
    "doctor",
    "app",
    "demo",
    "version",
]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb, run):
    outcome = run(verb, "--help")
    assert outcome.code == 0
    assert f"Example: hashlearn {verb}" in " ".join(outcome.out.split())


@pytest.mark.parametrize(("group", "verb"), [(group, verb) for group, verbs in GROUPS.items() for verb in verbs])
def test_every_verb_of_a_group_has_help_with_an_example(group, verb, run):
    outcome = run(group, verb, "--help")
    assert outcome.code == 0
    assert f"Example: hashlearn {group} {verb}" in " ".join(outcome.out.split())


def test_these_are_all_verbs():
    assert [command.name for command in commands.registered_commands] == VERBS
    groups = {
        group.name: [command.name for command in group.typer_instance.registered_commands]
        for group in commands.registered_groups
    }
    assert groups == GROUPS


def test_no_arguments_get_the_help(run):
    outcome = run()
    assert outcome.code == 2
    assert "Usage: hashlearn" in outcome.out + outcome.err
    assert "error" not in outcome.err


def test_version(run):
    assert hashlearn.__version__ in run("version").out
    assert run("--version").out == run("version").out


def test_methods_lists_the_registry(run):
    printed = run("methods").out
    for name, cls in METHODS.items():
        assert name in printed.split()
        assert cls.__name__ in printed.split()


@pytest.mark.parametrize("argument", ["--help", "version", "fit --help"])
def test_help_does_not_wait_for_heavy_imports(argument):
    code = (
        f"import sys; from hashlearn.cli import main\ntry: main({argument.split()!r})\n"
        "except SystemExit: print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in result.stderr.split()}
    assert "typer" in loaded
    assert not loaded & {"sklearn", "scipy", "numba", "numpy", "matplotlib", "safetensors", "pandas"}
    if argument != "version":
        assert not loaded & {"rich", "filelock"}


def test_the_list_of_verbs_cuts_no_line_off(run):
    for group in ([], *([name] for name in GROUPS)):
        commands_in_full = run(*group, "--help").out.partition("Commands:")[2]
        assert "..." not in commands_in_full


def test_nothing_is_drawn_where_there_is_no_terminal(run, folder):
    outcome = run("fit", "vectors.npy", "-m", "itq", "-b", 8, "-o", "new")
    assert outcome.err == ""


def test_bars_of_inner_tasks_go_when_the_outer_moves():
    progress = Progress(console=Console(file=io.StringIO()))
    report = bar_keeper(progress)

    def shown():
        return {task.description: (task.completed, task.total) for task in progress.tasks}

    report("outer", 0, 3)
    report("inner", 0, 50)
    report("inner", 7, 50)
    assert shown() == {"outer": (0, 3), "inner": (7, 50)}
    report("outer", 1, 3)
    assert shown() == {"outer": (1, 3)}
    report("inner", 50, 50)
    assert shown() == {"outer": (1, 3)}
    report("unknown end", 4, None)
    assert shown() == {"outer": (1, 3), "unknown end": (4, None)}
