"""``hashlearn demo``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hashlearn.cli.support.bars import progress_bars

EXAMPLE = "Example: hashlearn demo --out hashlearn-demo.html"
NEXT = """What to try next, with vectors of your own in an .npy file:
  hashlearn fit vectors.npy --method jpsh --bits 64 --out model/
  hashlearn encode model/ vectors.npy --out codes.npy
  hashlearn search model/ codes.npy queries.npy -k 10 --out neighbors.npz"""


def run(
    out: Annotated[str, typer.Option("--out", "-o", help="The report to write.")] = "hashlearn-demo.html",
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="Only this method; may be given again.")
    ] = None,
    bits: Annotated[
        list[int] | None, typer.Option("--bits", "-b", min=1, help="Only this length; may be given again.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of every method.")] = 0,
) -> None:
    """Fit, search and judge every method on images of digits, and write a report."""
    from hashlearn.durable.files import check_writable, write_text

    check_writable(out, "--out")
    from hashlearn.experiments.demo import run_demo
    from hashlearn.experiments.show import need_report_packages
    from hashlearn.experiments.show.demo_page import demo_page

    need_report_packages()
    with progress_bars():
        demo = run_demo(method, bits and tuple(dict.fromkeys(bits)), seed)
    _print_table(demo)
    write_text(out, demo_page(demo))
    typer.echo(f"\nThe report: {Path(out).resolve().as_uri()}\n\n{NEXT}")


def _print_table(demo: Any) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from hashlearn.experiments.demo import DEMO_MEASURES, MEASURE_NOTES
    from hashlearn.experiments.show.demo_page import COLUMNS, cells, is_best, problems

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(COLUMNS[0], no_wrap=True)
    for name in ("bits", *COLUMNS[1:]):
        table.add_column(name.replace("@", "\n@").replace(" Pre\n", "\nPre"), justify="right", no_wrap=True)
    table.add_row(demo.reference.method, "", *cells(demo.reference)[1:], end_section=True)
    for n_bits in demo.lengths:
        for run in demo.at(n_bits):
            first, *values = cells(run)
            for column, measure in enumerate(DEMO_MEASURES):
                if is_best(demo, run, measure):
                    values[column] = f"[bold green]{values[column]}[/]"
            table.add_row(first, str(n_bits), *values)
        table.add_section()
    console = Console()
    console.print(table)
    for line in (*MEASURE_NOTES, *problems(demo)):
        console.print(line, style="dim", markup=False, highlight=False)
