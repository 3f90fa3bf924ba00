"""From a URI to a store.

=====================================================  ==================================================
``lance:///folder``, ``lance+s3://bucket/folder``, or  LanceDB, in a folder or in object storage
the path of a folder
``postgresql://user:password@host:5432/database``      PostgreSQL with pgvector
``milvus://user:password@host:19530/database``,        Milvus; a file is Milvus Lite
``milvus:///file.db``
``sqlite:///file.db``                                  SQLite with sqlite-vec
``duckdb:///file.duckdb``                              DuckDB
``parquet:///codes.parquet``, ``parquet:///part-*``    parquet files, read by DuckDB and never written
=====================================================  ==================================================

Three slashes, or four, begin an absolute path; ``sqlite://file.db`` is relative to the working folder. ``?table=name``
chooses the table, or the collection in Milvus; the default is "codes". ``?mode=ro`` opens SQLite and DuckDB for reading
only.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from hashlearn.checks import check_choice, check_integer
from hashlearn.stores.arguments import check_correction_scale
from hashlearn.stores.base import ID_TYPES, MAX_BITS, CorrectionScale, Description, IdType, Place, StoreEngine
from hashlearn.stores.duckdb import DuckEngine
from hashlearn.stores.lancedb import LanceEngine
from hashlearn.stores.milvus import MilvusEngine
from hashlearn.stores.parquet import ParquetEngine
from hashlearn.stores.pgvector import PostgresEngine
from hashlearn.stores.sqlite import SqliteEngine
from hashlearn.stores.store import Store, explained

ENGINES: dict[str, Callable[[Place], StoreEngine]] = {
    "lance": LanceEngine,
    "postgresql": PostgresEngine,
    "milvus": MilvusEngine,
    "sqlite": SqliteEngine,
    "duckdb": DuckEngine,
    "parquet": ParquetEngine,
}
SYNONYMS = {"postgres": "postgresql"}
WITH_MODE = ("sqlite", "duckdb")
DEFAULT_TABLE = "codes"
CONNECT_SECONDS = 10


def open_store(
    uri: str | Path,
    n_bits: int | None = None,
    id_type: IdType | None = None,
    model: str | None = None,
    *,
    n_features: int | None = None,
    corrections: tuple[float, float] | None = None,
    create: bool = False,
    index: str | None = None,
) -> Store:
    """Open a store of codes, or make one.

    Your arguments about the codes are compared with the description in the store; a difference is an error.

    Parameters
    ----------
    uri : str or Path
        Where the store is; see :mod:`hashlearn.stores.uri`.
    n_bits : int or None
        Length of a code, 1 to 4096. Required for a new store.
    id_type : {"int64", "str"} or None
        Kind of the ids; a new store has "int64" by default.
    model : str or None
        Digest of the model that makes the codes.
    n_features : int or None
        Length of the vectors kept with the codes, for reranking; a new store keeps none by default.
    corrections : pair of floats, or None
        Scale and offset of the corrections of codes for real queries, such as those of ABH:
        ``hasher.correction_scale_`` and ``hasher.correction_offset_``. A new store with corrections keeps one byte with
        every code, and does not search: :class:`hashlearn.SimilaritySearch` does, in memory. By default a new store
        keeps codes that are compared by their bits.
    create : bool
        Make the store if there is none; otherwise a missing store is an error.
    index : {"hnsw", "ivf"} or None
        Search by an approximate index, and build it if needed: "hnsw" in PostgreSQL, "ivf" in LanceDB and on
        a Milvus server. None searches exactly, even if the store has an index.

    Returns
    -------
    Store
        Close it when you are done, or use it in a ``with`` statement.

    Raises
    ------
    ValueError
        The URI is of no known kind, there is no store, or the store has other codes.
    ConnectionError
        No server answers, or another process keeps the file locked.
    ImportError
        A package is not installed; the message has the ``pip install`` line.

    Examples
    --------
    >>> folder = getfixture("tmp_path")  # any folder
    >>> store = open_store(f"duckdb://{folder}/codes.duckdb", n_bits=64, create=True)
    >>> store
    Store('duckdb://.../codes.duckdb', n_bits=64, id_type='int64')
    >>> store.close()
    """
    wanted = _checked(n_bits, id_type, model, n_features, corrections)
    kind, place = parse_uri(uri)
    if kind != "parquet" and not _is_there(place):
        _check_creation(place, wanted, create)
    engine = ENGINES[kind](place)
    try:
        if index is not None:
            _check_index(engine, place, index, wanted)
        description = _described(engine, place, wanted, create)
        if index is not None:
            with explained(engine.errors, engine.explain):
                engine.use_index(index)
    except BaseException:
        engine.close()
        raise
    return Store(engine, description, place.shown, exact=index is None)


def parse_uri(uri: str | Path) -> tuple[str, Place]:
    """Kind of the store and its place.

    >>> parse_uri("sqlite://codes.db?table=images")
    ('sqlite', Place(shown='sqlite://codes.db?table=images', address='codes.db', table='images', read_only=False))
    """
    if isinstance(uri, Path) or (isinstance(uri, str) and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri)):
        return "lance", _folder(str(uri))
    if not isinstance(uri, str):
        raise TypeError(f"uri must be a string or a Path, got {uri!r:.60}")
    parts = urlsplit(uri)
    scheme, _, inner = parts.scheme.partition("+")
    kind = SYNONYMS.get(scheme, scheme)
    if kind not in ENGINES or (inner and kind not in ("lance", "milvus")):
        known = ", ".join(f"{each}://" for each in ENGINES)
        raise ValueError(f"uri must be a folder or begin with one of {known}, got {_shown(uri)!r}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    table = options.pop("table", DEFAULT_TABLE)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,47}", table):
        raise ValueError(f"uri must name a table of letters, digits and _, got {table!r}")
    read_only = kind in WITH_MODE and _read_only(options)
    if kind == "postgresql":
        rest = urlencode({"connect_timeout": CONNECT_SECONDS, **options}, quote_via=quote)
        return kind, Place(_shown(uri), urlunsplit(("postgresql", parts.netloc, parts.path, rest, "")), table, False)
    if options:
        raise ValueError(f"uri must have no option {next(iter(options))!r} for {kind}, got {_shown(uri)!r}")
    return kind, Place(_shown(uri), _address(kind, parts, inner), table, read_only)


def is_there(uri: str | Path) -> bool:
    """Whether there is a store of codes at a place."""
    kind, place = parse_uri(uri)
    if not _is_there(place):
        return False
    engine = ENGINES[kind](place)
    try:
        return engine.description is not None
    finally:
        engine.close()


def _address(kind: str, parts: Any, inner: str) -> str:
    """A path, or the address of a server."""
    if kind == "lance" and inner not in ("", "file"):
        return f"{inner}://{parts.netloc}{parts.path}"
    if kind == "milvus" and parts.netloc:
        return urlunsplit((inner or "http", parts.netloc, parts.path, "", ""))
    path = unquote(parts.netloc + parts.path)
    if path.startswith("//"):  # four slashes, as SQLAlchemy writes an absolute path
        path = "/" + path.lstrip("/")
    if not path:
        raise ValueError(f"uri must name a file or a folder, got {kind}://")
    if path == ":memory:":
        raise ValueError(f"uri must name a file, got {kind}://:memory:, which would keep nothing")
    if kind == "duckdb" and re.match(r"[A-Za-z][A-Za-z0-9_]+:", path):
        raise ValueError(
            f"uri must name a file of DuckDB, got {path!r:.60}: MotherDuck and other databases are not opened"
        )
    if kind not in ("lance", "parquet") and not Path(path).absolute().parent.is_dir():
        raise ValueError(f"uri must lie in an existing folder, got {path}: no folder {Path(path).absolute().parent}")
    return path


def _folder(path: str) -> Place:
    if Path(path).is_file():
        raise ValueError(f"uri must be a folder or begin with sqlite://, duckdb:// or parquet://, got the file {path}")
    return Place(path, path, DEFAULT_TABLE, False)


def _read_only(options: dict[str, str]) -> bool:
    mode = options.pop("mode", "rw")
    if mode not in ("rw", "ro"):
        raise ValueError(f"uri must have mode=ro or mode=rw, got mode={mode}")
    return mode == "ro"


def _shown(uri: str) -> str:
    """A URI without its password."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", re.sub(r"(password=)[^&]*", r"\1***", uri))


def _is_there(place: Place) -> bool:
    return "://" in place.address or Path(place.address).exists()


def _check_creation(place: Place, wanted: dict[str, Any], create: bool) -> None:
    """Refuse to make a store without ``create``, or without the length of its codes."""
    if not create:
        raise ValueError(f"{place.shown} holds no store of codes in {place.table!r}; n_bits and create=True make one")
    if "n_bits" not in wanted:
        raise ValueError(f"n_bits must be given to make a store, at {place.shown}")


def _checked(n_bits: Any, id_type: Any, model: Any, n_features: Any, corrections: Any) -> dict[str, Any]:
    """The caller's arguments about the codes, without those that are None."""
    said: dict[str, Any] = {}
    if n_bits is not None:
        said["n_bits"] = check_integer("n_bits", n_bits, low=1, high=MAX_BITS)
    if id_type is not None:
        said["id_type"] = check_choice("id_type", id_type, ID_TYPES)
    if n_features is not None:
        said["n_features"] = check_integer("n_features", n_features, low=1)
    if model is not None:
        if not isinstance(model, str) or not model:
            raise TypeError(f"model must be the digest of a model, a string, got {model!r:.60}")
        said["model"] = model
    if corrections is not None:
        said["corrections"] = check_correction_scale(corrections)
    return said


def _described(engine: StoreEngine, place: Place, wanted: dict[str, Any], create: bool) -> Description:
    """The description of the store, which is made if needed; an error if the caller's arguments differ."""
    if engine.description is None:
        _check_creation(place, wanted, create)
        left_open = {"id_type": "int64", "n_features": None, "model": None, "corrections": None}
        with explained(engine.errors, engine.explain):
            engine.create(Description(**{**left_open, **wanted}))
    description = cast(Description, engine.description)
    for name, value in wanted.items():
        kept = getattr(description, name)
        if kept != value:
            raise ValueError(f"{name} must be {_said(kept)}, as {place.shown} has it, got {_said(value)}")
    return description


def _said(value: Any) -> str:
    return repr(tuple(value) if isinstance(value, CorrectionScale) else value)


def _check_index(engine: StoreEngine, place: Place, index: str, wanted: dict[str, Any]) -> None:
    if index not in engine.indexes:
        offered = " or ".join(map(repr, engine.indexes)) or "none but None: it searches exactly"
        raise ValueError(f"index must be {offered} for {place.shown}, got {index!r}")
    corrections = wanted.get("corrections") if engine.description is None else engine.description.corrections
    if corrections is not None:
        raise ValueError(
            f"index must be None for {place.shown}: its codes have corrections and are not compared by their bits"
        )
