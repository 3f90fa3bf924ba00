"""``hashlearn index build``, ``add``, ``search`` and ``info``."""

import os
from typing import Annotated, Any

import typer

from hashlearn.cli.search import print_neighbors, write_neighbors
from hashlearn.cli.support.arrays import read_ids, read_payloads
from hashlearn.cli.support.bars import progress_bars
from hashlearn.cli.support.code_files import FORCE, CodeFile, are_of_two_models, check_compared_by_bits, read_codes
from hashlearn.cli.support.places import check_places, with_sidecars
from hashlearn.cli.support.stores import URI, describe_store, is_uri, load_into, search_store

app = typer.Typer(help="Keep codes in an index file and search it, exactly.", no_args_is_help=True)

Index = Annotated[str, typer.Argument(help=f"The index file, or {URI}.")]
Codes = Annotated[str, typer.Argument(help="Packed codes: .npy from 'hashlearn encode', or any with --bits.")]
Bits = Annotated[int | None, typer.Option(help="Bits of a code, where the codes have no sidecar.")]
Ids = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Ids, one a code: .npy, .txt, or table.parquet:column; running numbers otherwise."
    ),
]
Payloads = Annotated[
    str | None,
    typer.Option(metavar="FILE:COLUMN,...", help="Columns of a table that a store keeps with the codes."),
]
Texts = Annotated[
    str | None, typer.Option(metavar="FILE:COLUMN", help="A column of texts that a store keeps as the field 'text'.")
]
Force = Annotated[bool, typer.Option("--force", help=FORCE)]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 is all cores.")]


@app.command("build", epilog="Example: hashlearn index build codes.npy --out codes.hli")
def build(
    codes: Codes,
    out: Annotated[str, typer.Option("--out", "-o", help=f"The index file to write, or {URI}.")],
    bits: Bits = None,
    ids: Ids = None,
    payloads: Payloads = None,
    texts: Texts = None,
) -> None:
    """Make an index file of codes, or a store. Repeat an interrupted load of a store, and it continues."""
    from hashlearn.durable.locks import exclusive
    from hashlearn.index import HammingIndex

    check_places({"--out": None if is_uri(out) else out}, [*with_sidecars(codes), ids])
    file = _read_codes(codes, bits)
    known = read_payloads(payloads, texts)
    if is_uri(out):
        load_into(out, file, None if ids is None else read_ids(ids), known, create=True, force=False)
        return
    if known is not None:
        raise ValueError("--payloads and --texts need a store: an index file keeps codes and ids alone")
    index = HammingIndex(file.n_bits)
    index.model = file.digest
    with exclusive(os.path.realpath(out)):
        _save_with(index, file, ids, out)


@app.command("add", epilog="Example: hashlearn index add codes.hli more.npy")
def add(
    index: Index,
    codes: Codes,
    ids: Ids = None,
    payloads: Payloads = None,
    texts: Texts = None,
    force: Force = False,
) -> None:
    """Add codes to an index file; it is replaced in one step."""
    from hashlearn.durable.locks import exclusive
    from hashlearn.index import HammingIndex

    known = read_payloads(payloads, texts)
    if is_uri(index):
        load_into(index, _read_codes(codes), _ids_to_add(ids), known, create=False, force=force)
        return
    if known is not None:
        raise ValueError("--payloads and --texts need a store: an index file keeps codes and ids alone")
    check_places({"INDEX": index}, [*with_sidecars(codes), ids])
    with exclusive(os.path.realpath(index)):
        opened = HammingIndex.open(index)
        file = _read_codes(codes, opened.n_bits)
        _check_index_model(opened, index, file, force)
        if are_of_two_models(opened.model, file.digest):
            opened.model = None  # the index has codes of several models
        _save_with(opened, file, ids, index)


@app.command("search", epilog="Example: hashlearn index search codes.hli queries.npy -k 10 --out neighbors.npz")
def search(
    index: Index,
    queries: Annotated[str, typer.Argument(help="Packed codes of the queries: .npy.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbors of a query.")] = 10,
    radius: Annotated[int | None, typer.Option(min=0, help="All codes within this distance instead of k.")] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", help="An .npz file of distances and ids, and with --radius their offsets; otherwise printed."
        ),
    ] = None,
    jobs: Jobs = 1,
    force: Force = False,
) -> None:
    """Find the nearest codes of queries, or all within a radius; ties by lowest id."""
    from hashlearn.index import HammingIndex

    check_places({"--out": out}, [None if is_uri(index) else index, *with_sidecars(queries)])
    if is_uri(index):
        file = _read_codes(queries)
        _show(search_store(index, file, k, radius, force), out, f"of {index} for {len(file.codes)} queries")
        return
    opened = HammingIndex.open(index)
    file = _read_codes(queries, opened.n_bits)
    _check_index_model(opened, index, file, force)
    if radius is None and k > len(opened):
        raise ValueError(f"-k must be at most the {len(opened)} codes of {index}, got {k}")
    with progress_bars():
        if radius is None:
            found: Any = opened.search(file.codes, k, n_jobs=jobs)
        else:
            found = opened.within(file.codes, radius, n_jobs=jobs)
    what = f"the {k} nearest" if radius is None else f"all within {radius}"
    _show(found, out, f"{what} of {len(opened)} codes for {len(file.codes)} queries")


@app.command("info", epilog="Example: hashlearn index info codes.hli")
def info(index: Index) -> None:
    """Describe an index file or a store. A file is checked for damage."""
    from hashlearn.index import HammingIndex

    if is_uri(index):
        for word, value in describe_store(index):
            typer.echo(f"{word:<9} {value}")
        return

    opened = HammingIndex.open(index).verify()
    ids = opened.ids
    for word, value in (
        ("codes", str(len(opened))),
        ("bits", str(opened.n_bits)),
        ("bytes", f"{opened.nbytes} ({opened.nbytes / max(1, len(opened)):.1f} a code)"),
        ("ids", f"{ids[0]} to {ids[-1]}" if len(ids) else "none"),
        ("model", opened.model or "not known"),
        ("checksum", "fits"),
    ):
        typer.echo(f"{word:<9} {value}")


def _read_codes(place: str, bits: int | None = None) -> CodeFile:
    """Codes of a file that are compared by their bits."""
    file = read_codes(place, bits)
    check_compared_by_bits(file)
    return file


def _show(found: Any, out: str | None, what: str) -> None:
    """Print a result, or write it to a file."""
    arrays = {"distances": found.distances, "ids": found.ids}
    if hasattr(found, "offsets"):
        arrays["offsets"] = found.offsets
    if out is None:
        rows = found if isinstance(found, tuple) else tuple(zip(*found)) or ((), ())
        print_neighbors(*rows)
        return
    write_neighbors(out, **arrays)
    typer.echo(f"{out}: {what}")


def _ids_to_add(ids: str | None) -> Any:
    if ids is None:
        raise ValueError("--ids must be given to add to a store: its running numbers are taken")
    return read_ids(ids)


def _check_index_model(index: Any, place: str, file: CodeFile, force: bool) -> None:
    if not force and are_of_two_models(index.model, file.digest):
        raise ValueError(
            f"{file.place} was encoded by another model than the codes of {place}; encode it again, or insist with "
            "--force"
        )


def _save_with(index: Any, file: CodeFile, ids: str | None, out: str) -> None:
    numbers = None if ids is None else read_ids(ids)
    if numbers is not None and numbers.dtype.kind not in "iu":
        raise ValueError(
            f"ids of an index file must be integers, got those of {ids}; a store takes strings: --out {URI}"
        )
    with progress_bars():
        index.add(file.codes, numbers)
        index.save(out)
    typer.echo(f"{out}: {len(index)} codes of {index.n_bits} bits, {len(file.codes)} of them new")
