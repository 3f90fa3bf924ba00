"""``hashlearn explain``."""

from typing import Annotated

import typer

from hashlearn.cli.support.arrays import read_array
from hashlearn.cli.support.code_files import read_codes
from hashlearn.cli.support.model_files import files_of_model, load_model
from hashlearn.cli.support.places import check_places, with_sidecars

EXAMPLE = "Example: hashlearn explain model/ codes.npy --labels y.npy"


def run(
    model: Annotated[str, typer.Argument(help="The folder of the model that made the codes.")],
    codes: Annotated[str, typer.Argument(help="The codes, as hashlearn encode writes them.")],
    labels: Annotated[str | None, typer.Option(help="Labels of the rows: classes, or a 0/1 matrix.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Bits to show.")] = 10,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Also write all numbers as JSON.")] = None,
) -> None:
    """Describe the bits of codes: balance, correlation, entropy, and information about labels."""
    from hashlearn.durable.files import write_text

    check_places({"--json": json}, [*files_of_model(model), *with_sidecars(codes), labels])
    hasher, made_by = load_model(model)
    held = read_codes(codes, hasher.n_bits)
    if held.digest is not None and held.digest != made_by["checksum"]:
        raise ValueError(f"{codes} holds codes of another model than {model}")

    from hashlearn.metrics import explain_codes

    found = explain_codes(held.codes, held.n_bits, None if labels is None else read_array(labels))
    if json is not None:
        write_text(json, found.to_json() + "\n")
    typer.echo(f"{made_by['method']}, {hasher.n_bits} bits")
    typer.echo(found.table(top))
