"""``hashlearn encode``."""

from typing import Annotated, Any

import typer

from hashlearn.cli.support.arrays import CLUSTER, FORMATS, Header, check_header, matrices
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.code_files import check_ending, read_sidecar
from hashlearn.cli.support.model_files import check_features, files_of_model, load_model, naming
from hashlearn.cli.support.places import check_places, sidecar_of
from hashlearn.cli.support.stores import URI, encode_into

EXAMPLE = "Example: hashlearn encode model/ vectors.npy --out codes.npy"


def run(
    model: Annotated[str, typer.Argument(help="The folder of a model.")],
    vectors: Annotated[list[str], typer.Argument(help=f"The vectors, of one file or several: {FORMATS}.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="The .npy file of codes; its sidecar is put beside it.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="URI", help=f"Write the codes into {URI}.")] = None,
    keep_vectors: Annotated[bool, typer.Option("--keep-vectors", help="With --to: keep vectors there, too.")] = False,
    array: Annotated[str | None, typer.Option(help="The array, of a file with several.")] = None,
    header: Header = None,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help=CLUSTER)] = None,
) -> None:
    """Turn vectors into packed codes. Repeat an interrupted command, and it continues."""
    if (out is None) == (to is None):
        raise ValueError("one of --out, a file, and --to, a store, must be given")
    if keep_vectors and to is None:
        raise ValueError("--keep-vectors needs --to, a store")
    if out is not None:
        check_places({"--out": out, "sidecar of --out": sidecar_of(out)}, [*vectors, *files_of_model(model)])
        check_ending(out, ".npy")
        read_sidecar(out)  # an array that is no file of codes is not replaced
    from hashlearn.cli.support.partial_codes import identity_of

    check_header(header, *vectors)
    with matrices(vectors, array, cluster, header) as data:
        hasher, identity = load_model(model)
        place, source = ", ".join(vectors), identity_of(vectors, array, header)
        check_features(hasher, data, place)
        with naming(place), progress_bars():
            if out is not None:
                width = _write_codes(hasher, identity, data, source, out)
            else:
                width = _write_to_store(hasher, identity, data, source, str(to), keep_vectors)
        n = data.shape[0]
    typer.echo(f"{out or to}: {n} codes of {hasher.n_bits} bits, {width} bytes each")


def _write_to_store(hasher: Any, identity: dict[str, Any], data: Any, source: list[Any], uri: str, keep: bool) -> int:
    """Write the codes into a store, a block at a time; returns the bytes of a code."""
    from hashlearn.codes import bytes_per_code
    from hashlearn.durable.files import json_digest

    job = json_digest(identity["checksum"], source)
    first = encode_into(uri, hasher, identity, data, job, keep)
    if first:
        typer.echo(f"{uri}: went on after {first} of {data.shape[0]} codes", err=True)
    return bytes_per_code(hasher.n_bits)


def _write_codes(hasher: Any, identity: dict[str, Any], data: Any, source: list[Any], out: str) -> int:
    """Write the codes where the vectors are, a block at a time; returns the bytes of a code."""
    from hashlearn.cli.support.partial_codes import PartialCodes
    from hashlearn.codes import bytes_per_code
    from hashlearn.durable.locks import exclusive

    width = bytes_per_code(hasher.n_bits)
    job = {"model": identity["checksum"], "vectors": source}
    codes = PartialCodes(out, data.shape[0], width, job)
    with exclusive(codes.target, wait=False):
        try:
            first = codes.begin()
            if first:
                typer.echo(f"{out}: going on after {first} of {data.shape[0]} codes", err=True)
            if first < data.shape[0]:
                for rows in hasher.transform_into(data, codes.part, first):
                    codes.wrote(rows)
            codes.finish(hasher.n_bits, identity)
        except BaseException as error:
            problem = codes.stop(error)
            if problem is error:
                raise
            raise problem from error
    return width
