"""``hashlearn version``."""

import platform

import typer

EXAMPLE = "Example: hashlearn version"


def run() -> None:
    """Show the version."""
    from hashlearn import __version__

    typer.echo(f"hashlearn {__version__} (Python {platform.python_version()})")


def show(wanted: bool) -> None:
    """The option ``--version``."""
    if wanted:
        run()
        raise typer.Exit
