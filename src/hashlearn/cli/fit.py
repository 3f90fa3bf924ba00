"""``hashlearn fit``."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from hashlearn.cli.support.arrays import CLUSTER, FORMATS, Header, check_header, matrices, read_array
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.model_files import files_of_model, naming
from hashlearn.cli.support.places import check_places

EXAMPLE = "Example: hashlearn fit vectors.npy --method jpsh --bits 64 --param n_anchors=500 --out model/"


def run(
    vectors: Annotated[list[str], typer.Argument(help=f"The training vectors, of one file or several: {FORMATS}.")],
    out: Annotated[str, typer.Option("--out", "-o", help="The folder of the model; one that is there is replaced.")],
    method: Annotated[str, typer.Option("--method", "-m", help="One of 'hashlearn methods'.")] = "jpsh",
    bits: Annotated[int, typer.Option("--bits", "-b", help="Length of a code.")] = 64,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter of the method; @file.npy for an array."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same data and seed, same codes.")] = 0,
    array: Annotated[str | None, typer.Option(help="The array, of a file with several.")] = None,
    header: Header = None,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help=CLUSTER)] = None,
) -> None:
    """Learn a hash function from vectors."""
    if Path(out).is_dir():
        arrays = [assignment.partition("=@")[2] or None for assignment in param or []]
        check_places({f"{file.name} of --out": file for file in files_of_model(out)}, [*vectors, *arrays])
    check_header(header, *vectors)
    with matrices(vectors, array, cluster, header) as data:
        from hashlearn.durable.model_folder import check_target
        from hashlearn.hashers import method_named

        cls = method_named(method)
        hasher = cls(n_bits=bits, **parameters(cls, param or [], seed))
        check_target(out)
        start = time.perf_counter()
        with naming(", ".join(vectors)), progress_bars():
            hasher.fit(data)
        took = time.perf_counter() - start
        n, d = data.shape
    hasher.save(out)
    typer.echo(f"{out}: {cls.__name__} of {bits} bits, fitted to {n} vectors of {d} features in {took:.1f} s")


def parameters(cls: Any, assignments: list[str], seed: int) -> dict[str, Any]:
    """Constructor arguments from ``name=value`` and the seed. An unknown name is an error."""
    known = set(cls().get_params(deep=False))
    params: dict[str, Any] = {"random_state": seed} if "random_state" in known else {}
    for assignment in assignments:
        name, is_assigned, value = assignment.partition("=")
        if not is_assigned:
            raise ValueError(f"--param must be NAME=VALUE, got {assignment!r}")
        if name in ("n_bits", "random_state"):
            raise ValueError(f"--param {name} has an option of its own: {'--bits' if name == 'n_bits' else '--seed'}")
        if name not in known:
            others = ", ".join(sorted(known - {"n_bits", "random_state"}))
            raise ValueError(f"{cls.__name__} has no parameter {name!r}; it has {others}")
        params[name] = parameter_value(value)
    return params


def parameter_value(text: str) -> Any:
    """A JSON value (number, true, false, null, list), the array of ``@file.npy``, or otherwise a word."""
    from hashlearn.durable.files import parsed_json

    if text.startswith("@"):
        return read_array(text[1:])
    try:
        return parsed_json(text)
    except ValueError:
        return {"None": None, "True": True, "False": False}.get(text, text)
