"""``hashlearn encode``."""

from typing import Annotated

import typer

from hashlearn.cli.arrays import FORMATS, read_matrix
from hashlearn.cli.code_files import check_ending, sidecar_of, write_codes
from hashlearn.cli.model_files import encoded, load_model

EXAMPLE = "Example: hashlearn encode model/ vectors.npy --out codes.npy"


def run(
    model: Annotated[str, typer.Argument(help="The folder of a model.")],
    vectors: Annotated[str, typer.Argument(help=f"The vectors: {FORMATS}.")],
    out: Annotated[str, typer.Option("--out", "-o", help="The .npy file of codes; its sidecar is put beside it.")],
    array: Annotated[str | None, typer.Option(help="The array, of a file with several.")] = None,
) -> None:
    """Turn vectors into packed codes."""
    from hashlearn.files import check_writable

    for path in (out, sidecar_of(out)):
        check_writable(path, "--out")
    check_ending(out, ".npy")
    data = read_matrix(vectors, array)
    hasher, identity = load_model(model)
    codes = encoded(hasher, data, vectors)
    write_codes(out, codes, hasher.n_bits, identity)
    typer.echo(f"{out}: {len(codes)} codes of {hasher.n_bits} bits, {codes.shape[1]} bytes each")
