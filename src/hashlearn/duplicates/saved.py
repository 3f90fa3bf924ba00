"""A result as a folder: the vectors as an npy file that is memory-mapped, everything else as safetensors and JSON."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from safetensors.numpy import save as as_safetensors

from hashlearn.duplicates.candidates import Finder, Projection, SignCodes
from hashlearn.duplicates.generations import FolderFormat
from hashlearn.duplicates.groups import Contents, Grouping, Keep, NearPairs
from hashlearn.duplicates.plan import Plan
from hashlearn.duplicates.state import FoundPairs
from hashlearn.duplicates.texts import RareWords, Rarity, TextRows, TextWords
from hashlearn.duplicates.vectors import MetricRows, RowFacts, facts_of_block
from hashlearn.duplicates.verify import Curve
from hashlearn.durable.files import naming, new_file, sync, write_all
from hashlearn.rows import RowBlocks
from hashlearn.rows.blocks import dense

FORMAT = FolderFormat(title="hashlearn duplicates", version=3, manifest="duplicates.json")
VECTORS = "vectors.npy"
ARRAYS = "state.safetensors"

_CHECKED_ROWS = 64


class Saved(NamedTuple):
    """The content of a folder: a state, and the settings of the result."""

    state: FoundPairs
    max_distance: float
    grouping: Grouping
    keep: Keep
    reason: str


def write_state(saved: Saved, folder: str | Path) -> None:
    """Write a state to a folder; it replaces an older state."""
    FORMAT.save(folder, lambda generation: _write(saved, generation))


def read_state(folder: str | Path) -> Saved:
    """Read what :func:`write_state` wrote.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        It holds no duplicates, or was truncated, edited, or written by a newer version.
    """
    return FORMAT.open(folder, _read)


def _write(saved: Saved, generation: Path) -> dict[str, Any]:
    state = saved.state
    if isinstance(state.vectors, TextRows):
        _write_npy(
            generation / VECTORS, np.dtype(np.uint64), state.vectors.words.words.shape, [state.vectors.words.words]
        )
    else:
        _write_vectors(state.vectors, generation / VECTORS)
    finder = state.plan.finder
    arrays = {
        "hashes": state.vectors.facts.hashes,
        "lengths": state.vectors.facts.lengths,
        "described": state.described,
        "decided": state.decided,
        "apart": state.apart,
        **{f"pairs.{name}": values for name, values in state.pairs._asdict().items()},
        **{f"finder.{name}": values for name, values in finder._asdict().items() if isinstance(values, np.ndarray)},
        **({} if state.curve is None else {f"curve.{name}": v for name, v in state.curve._asdict().items()}),
        **({} if state.scores is None else {"scores": state.scores}),
        **_encoded_ids(state.ids),
        **_text_arrays(state.vectors),
    }
    content = as_safetensors({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with naming(generation / ARRAYS), new_file(generation / ARRAYS) as file:
        write_all(file, content)
    sync(generation / ARRAYS)
    return {
        "rows": len(state.vectors),
        "metric": state.vectors.metric,
        "texts_of_rarity": state.vectors.rarity.n_texts if isinstance(state.vectors, TextRows) else None,
        "max_distance": saved.max_distance,
        "largest_distance": state.largest_distance,
        "grouping": saved.grouping,
        "keep": saved.keep,
        "reason": saved.reason,
        "max_pairs": state.max_pairs,
        "finder": {"kind": type(finder).__name__} | {k: v for k, v in finder._asdict().items() if np.isscalar(v)},
        "expected": {"recall": state.plan.recall, "candidates": state.plan.candidates, "seconds": state.plan.seconds},
        "state_sha256": hashlib.sha256(content).hexdigest(),
    }


def _text_arrays(vectors: MetricRows) -> dict[str, NDArray]:
    """Where the texts begin in the file of words, and how rare the words are."""
    if not isinstance(vectors, TextRows):
        return {}
    rarity = vectors.rarity
    return {"texts.starts": vectors.words.starts, "rarity.words": rarity.words, "rarity.counts": rarity.counts}


def _write_vectors(vectors: MetricRows, path: Path) -> None:
    """The rows as they are stored, a block at a time."""
    rows = vectors.rows
    dtype = np.dtype(rows.source.dtype)
    _write_npy(path, dtype, tuple(rows.shape), (dense(block) for _, block in rows.as_stored()))


def _write_npy(path: Path, dtype: np.dtype, shape: tuple[int, ...], blocks: Iterable[NDArray]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with naming(path), new_file(path) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            write_all(file, np.ascontiguousarray(block, dtype))
    sync(path)


def _read(generation: Path, manifest: dict[str, Any]) -> Saved:
    try:
        content = (generation / ARRAYS).read_bytes()
        if hashlib.sha256(content).hexdigest() != manifest["state_sha256"]:
            raise ValueError(f"{generation / ARRAYS} was changed (its checksum does not fit)")
        del content
        arrays = load_file(generation / ARRAYS)
        facts = RowFacts(arrays["hashes"], arrays["lengths"])
        values = np.load(generation / VECTORS, mmap_mode="r", allow_pickle=False)
        if manifest["metric"] == "words":
            vectors: MetricRows = _read_texts(values, arrays, manifest, facts, generation / VECTORS)
        else:
            _check_vectors(values, facts, generation / VECTORS)
            vectors = MetricRows(RowBlocks(values, name="vectors"), manifest["metric"], facts)
        state = FoundPairs(
            vectors,
            Contents.of(facts.hashes),
            NearPairs(*(arrays[f"pairs.{name}"] for name in NearPairs._fields)),
            Plan(_finder(manifest["finder"], arrays), **manifest["expected"]),
            arrays["described"],
            Curve(*(arrays[f"curve.{name}"] for name in Curve._fields)) if "curve.radius" in arrays else None,
            manifest["largest_distance"],
            manifest["max_pairs"],
            _decoded_ids(arrays),
            arrays.get("scores"),
            arrays["decided"],
            arrays["apart"],
        )
    except (KeyError, SafetensorError, TypeError, EOFError) as error:
        raise ValueError(f"{generation} holds no duplicates that this version can read: {error}") from None
    return Saved(state, manifest["max_distance"], manifest["grouping"], manifest["keep"], manifest["reason"])


def _read_texts(
    values: NDArray, arrays: dict[str, NDArray], manifest: dict[str, Any], facts: RowFacts, path: Path
) -> TextRows:
    starts = arrays["texts.starts"]
    if values.ndim != 1 or values.dtype != np.uint64 or len(values) != starts[-1]:
        raise ValueError(f"{path} should hold {starts[-1]} words, it has shape {values.shape}")
    rarity = Rarity(arrays["rarity.words"], arrays["rarity.counts"], manifest["texts_of_rarity"])
    texts = TextRows(TextWords(np.asarray(values), starts), rarity)
    if not np.array_equal(texts.hashes, facts.hashes):
        raise ValueError(f"{path} was changed (its words are not those that were saved)")
    return texts


def _finder(facts: dict[str, Any], arrays: dict[str, NDArray]) -> Finder:
    if facts["kind"] == RareWords.__name__:
        return RareWords(float(facts["distance"]))
    if facts["kind"] == SignCodes.__name__:
        return SignCodes(arrays["finder.mean"], arrays["finder.projection"], int(facts["radius"]))
    return Projection(arrays["finder.mean"], arrays["finder.directions"])


def _check_vectors(values: NDArray, facts: RowFacts, path: Path) -> None:
    """Check some of the rows: this finds a file that was cut or mixed up."""
    if values.ndim != 2 or len(values) != len(facts.lengths):
        raise ValueError(f"{path} should hold {len(facts.lengths)} rows, it has shape {values.shape}")
    rows = np.unique(np.linspace(0, len(values) - 1, _CHECKED_ROWS).astype(np.int64))
    if not np.array_equal(facts_of_block(RowBlocks(values).take(rows), 0).hashes, facts.hashes[rows]):
        raise ValueError(f"{path} was changed (its rows are not those that were saved)")


def _encoded_ids(ids: NDArray | None) -> dict[str, NDArray]:
    """Ids as arrays: integers unchanged, strings as all their bytes and the length of each."""
    if ids is None:
        return {}
    if ids.dtype.kind != "U":
        return {"ids": ids}
    encoded = [name.encode() for name in ids.tolist()]
    lengths = np.array([len(name) for name in encoded], np.int64)
    return {"ids.bytes": np.frombuffer(b"".join(encoded), np.uint8), "ids.lengths": lengths}


def _decoded_ids(arrays: dict[str, NDArray]) -> NDArray | None:
    if "ids.lengths" not in arrays:
        return arrays.get("ids")
    text, ends = arrays["ids.bytes"].tobytes(), np.cumsum(arrays["ids.lengths"]).tolist()
    return np.array([text[start:stop].decode() for start, stop in zip([0, *ends[:-1]], ends)])
