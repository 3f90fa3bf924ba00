"""A similarity search as a folder: generations, and a journal of what has changed since the last.

A generation holds everything: the hasher, the codes, and beside them, where there are any, strings that are ids,
payloads and vectors. A save that changes few rows appends them to the journal of the generation; one that changes many,
or finds the journal long, makes a new generation. The state of a folder is known by the name of its generation and by
the end of its journal.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.durable.files import collect_leftovers, write_bytes
from hashlearn.durable.generations import FolderFormat
from hashlearn.durable.locks import exclusive_folder
from hashlearn.hashers.saving import digest_of, load_with_digest, n_bits_of, save_hasher
from hashlearn.index.asymmetric import AsymmetricIndex
from hashlearn.index.file import fingerprint
from hashlearn.index.hamming import HammingIndex
from hashlearn.search.changes import Change, as_texts, combined
from hashlearn.search.journal import MAGIC, Position, append_record, read_records, start_of
from hashlearn.search.kept_vectors import KeptVectors, VectorsKind
from hashlearn.search.metric_hasher import Lengths, MetricHasher
from hashlearn.search.row_columns import Names, Payloads
from hashlearn.search.state import State
from hashlearn.search.tuning import Tuning
from hashlearn.search.vector_file import VectorFile

FORMAT = FolderFormat(title="hashlearn similarity search", version=3, manifest="search.json")
HASHER = "hasher"
CODES = "codes.hli"
NAMES = "ids.txt"
NUMBERS = "numbers.npy"
PAYLOADS = "payloads.jsonl"
VECTORS = "vectors.hlv"
JOURNAL = "journal.hlj"

_LEAST_JOURNAL = 1 << 20
_JOURNAL_SHARE = 0.25
"""A journal may be this share of its generation, vectors left out, or the bytes above, before all is written anew."""
_LIVE_SHARE = 0.5
"""Share of a file of vectors that must still be of use for the next generation to keep it."""
_BLOCK = 1 << 14


class Saved(NamedTuple):
    """What is known of a folder.

    Attributes
    ----------
    folder : Path
    generation : str or None
        None for a folder of the first version, which has no journal.
    end : Position or None
        Of the journal, if there is one.
    n_bytes : int
        Size of the generation without vectors.
    """

    folder: Path
    generation: str | None
    end: Position | None
    n_bytes: int

    @property
    def journal(self) -> Path:
        assert self.generation is not None
        return self.folder / self.generation / JOURNAL

    @property
    def vectors(self) -> Path:
        assert self.generation is not None
        return self.folder / self.generation / VECTORS


class Opened(NamedTuple):
    """A state, how its vectors are kept, and what is known of the folder it is from."""

    state: State
    kind: VectorsKind | None
    saved: Saved


def open_folder(folder: str | Path) -> Opened:
    """The newest state of a folder."""
    return FORMAT.open(folder, _read)


def read_news(opened: Opened) -> Opened | None:
    """What others have saved to the folder since; None if nothing."""
    state, kind, saved = opened
    while True:
        manifest = FORMAT.read_manifest(saved.folder)
        if saved.end is None or manifest.get("generation") != saved.generation:
            return open_folder(saved.folder) if manifest.get("generation") != saved.generation else None
        try:
            records, end = read_records(saved.journal, saved.end)
            if not records:
                return None
            return Opened(_replayed(state, records, saved), kind, saved._replace(end=end))
        except FileNotFoundError:  # another process has just made a new generation
            if FORMAT.read_manifest(saved.folder) == manifest:
                raise


def write_generation(folder: str | Path, state: State, kind: VectorsKind | None, before: Saved | None) -> Opened:
    """Make all of a state the newest generation of a folder.

    ``before`` is the newest generation of the same folder, if the vectors that are saved already belong to it.
    """
    replaced = _parts_of_version_1(Path(folder))
    made: list[Opened] = []

    def write(generation: Path) -> dict[str, Any]:
        facts = _write(generation, state, kind, before)
        # Looked at now: once it is saved, another process may save too, and remove it.
        saved = Saved(generation.parent, generation.name, start_of(generation.name), _size(generation))
        made.append(Opened(_with_saved_vectors(state, kind, saved), kind, saved))
        return facts

    FORMAT.save(folder, write)
    for path in replaced:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return made[0]


def _with_saved_vectors(state: State, kind: VectorsKind | None, saved: Saved) -> State:
    if kind is None:
        return state
    return replace(state, vectors=KeptVectors(VectorFile.open(saved.vectors).view, None))


def append_changes(opened: Opened, touched: list[Any]) -> Opened:
    """Write to the journal what has become of the rows with these ids."""
    state, kind, saved = opened
    assert saved.end is not None
    ids = as_texts(touched) if state.names is not None else np.array(touched, np.int64)
    positions, known = state.find(ids)
    rows = state.rows_at(np.sort(positions[known]))
    n_vectors = None
    if kind is not None:
        view = _with_vectors(VectorFile.open(saved.vectors, _n_records(state)), state, np.sort(positions[known])).view
        state, n_vectors = replace(state, vectors=KeptVectors(view, None)), view.n_records
    tuning = None if state.tuning is None else state.tuning.to_dict()
    change = Change(ids[~known].tolist(), rows, n_vectors, tuning)
    end = append_record(saved.journal, saved.end, change.to_bytes())
    FORMAT.collect(saved.folder)
    collect_leftovers(saved.folder / FORMAT.manifest)
    return Opened(state, kind, saved._replace(end=end))


def is_worth_a_journal(saved: Saved, n_touched: int, n_rows: int) -> bool:
    """Whether the next changes belong into the journal rather than into a new generation."""
    if saved.end is None or n_touched > max(1000, n_rows // 4):
        return False
    return saved.end.offset < max(_LEAST_JOURNAL, int(_JOURNAL_SHARE * saved.n_bytes))


@contextmanager
def alone_with(saved: Saved) -> Iterator[None]:
    """Be the only one who saves to a folder, and know that nobody has since it was last read."""
    with exclusive_folder(saved.folder):
        manifest = FORMAT.read_manifest(saved.folder)
        is_same = manifest.get("generation") == saved.generation
        if is_same and saved.end is not None:
            is_same = not read_records(saved.journal, saved.end)[0]
        if not is_same:
            raise ValueError(f"{saved.folder} was changed by another process: refresh() first, then save() again")
        yield


def _read(generation: Path, manifest: dict[str, Any]) -> Opened:
    version = manifest["format_version"]
    if version == 1:
        hasher_at, codes_at = _parts(generation, manifest)
    else:
        hasher_at, codes_at = generation / HASHER, generation / CODES
    hasher, model = load_with_digest(hasher_at)
    lengths = manifest.get("lengths")
    encoder = MetricHasher(
        hasher, manifest.get("metric"), manifest.get("query"), None if lengths is None else Lengths(*lengths)
    )
    kind = HammingIndex if encoder.query == "code" else AsymmetricIndex
    index = kind.open(codes_at)
    if index.n_bits != n_bits_of(hasher):
        raise ValueError(f"{codes_at} has codes of {index.n_bits} bits, {hasher_at} is of {n_bits_of(hasher)}")
    if version > 1:
        _check_tie(manifest, "model", model, generation)
        _check_tie(manifest, "codes", fingerprint(codes_at), generation)
    if index.model not in (None, model):
        raise ValueError(f"{codes_at} holds codes of another model than {hasher_at}")
    state = State(encoder, index)
    if version < 3:
        return Opened(
            state, None, Saved(generation if version == 1 else generation.parent, manifest.get("generation"), None, 0)
        )
    return _with_the_rest(state, generation, manifest)


def _with_the_rest(state: State, generation: Path, manifest: dict[str, Any]) -> Opened:
    """All that a generation of this version has besides the codes, and what its journal says."""
    parts = {name: _content(generation, manifest, name) for name in (NAMES, NUMBERS, PAYLOADS)}
    names, payloads = parts[NAMES], parts[PAYLOADS]
    if names is not None:
        texts = as_texts(names.decode().split("\n")[:-1])
        state = replace(state, names=Names(texts, state.index.ids, np.frombuffer(parts[NUMBERS] or b"", "<i8")))
        _check_length(len(texts), state, generation / NAMES)
    if payloads is not None:
        state = replace(state, payloads=Payloads(as_texts(payloads.decode().split("\n")[:-1])))
        _check_length(len(state.payloads.texts), state, generation / PAYLOADS)  # type: ignore[union-attr]
    if manifest["tuning"] is not None:
        state = replace(state, tuning=Tuning.from_dict(manifest["tuning"]))
    saved = Saved(generation.parent, generation.name, start_of(generation.name), _size(generation))
    kind = None
    if manifest["vectors"] is not None:
        file = VectorFile.open(saved.vectors, manifest["vectors"])
        kind = VectorsKind(file.dtype, file.calibration)
        state = replace(state, vectors=KeptVectors(file.view, None))
    assert saved.end is not None
    records, end = read_records(saved.journal, saved.end)
    return Opened(_replayed(state, records, saved), kind, saved._replace(end=end))


def _replayed(state: State, records: list[bytes], saved: Saved) -> State:
    """The state after the changes of a journal; in one go if they fit together, for each costs a copy of the state."""
    if not records:
        return state
    changes = [Change.from_bytes(record, -(-state.index.n_bits // 8)) for record in records]
    together = combined(changes)
    if together is None:
        for change in changes:
            state = applied(state, change)
    else:
        state = _without(state.upserted(together.rows), together.removed)
    last = changes[-1]
    state = replace(state, tuning=None if last.tuning is None else Tuning.from_dict(last.tuning))
    if last.n_vectors is not None:
        state = replace(state, vectors=KeptVectors(VectorFile.open(saved.vectors, last.n_vectors).view, None))
    return state


def applied(state: State, change: Change) -> State:
    """A state with the rows of a change."""
    return _without(state, change.removed).upserted(change.rows)


def _without(state: State, ids: list[Any]) -> State:
    """A state without the rows of these ids, of which some may not be there."""
    gone = as_texts(ids) if state.names is not None else np.array(ids, np.int64)
    positions, known = state.find(gone)
    return state.removed(np.sort(positions[known]))


def _write(generation: Path, state: State, kind: VectorsKind | None, before: Saved | None) -> dict[str, Any]:
    """Write the parts of a state; returns what ties them together."""
    encoder, index = state.encoder, state.index.copy()
    model = digest_of(encoder.hasher)
    index.model = model
    save_hasher(encoder.hasher, generation / HASHER)
    index.save(generation / CODES)
    facts: dict[str, Any] = {
        "model": model,
        "codes": fingerprint(generation / CODES),
        "metric": encoder.metric,
        "query": encoder.query,
        "lengths": encoder.lengths,
        "tuning": None if state.tuning is None else state.tuning.to_dict(),
        "vectors": None,
    }
    if state.names is not None:
        facts[NAMES] = _written(generation / NAMES, _lines(state.names.texts))
        facts[NUMBERS] = _written(generation / NUMBERS, np.ascontiguousarray(state.names.numbers, "<i8").tobytes())
    if state.payloads is not None:
        facts[PAYLOADS] = _written(generation / PAYLOADS, _lines(state.payloads.texts))
    if kind is not None:
        facts["vectors"] = _write_vectors(generation / VECTORS, state, kind, before)
    write_bytes(generation / JOURNAL, MAGIC)
    return facts


def _write_vectors(path: Path, state: State, kind: VectorsKind, before: Saved | None) -> int:
    """Write the vectors of a state; returns how many records their file has.

    The file of the generation before is taken over, with what has been added since, if most of it is still of use.
    """
    everything = np.arange(len(state))
    if before is not None and before.generation is not None and state.vectors is not None:
        view = state.vectors.saved
        if view is not None and len(state) > _LIVE_SHARE * view.n_records:
            with suppress(OSError):
                os.link(before.vectors, path)
                newer = everything[state.vectors.places_of(state.numbers_at(everything)) >= view.n_records]
                return _with_vectors(VectorFile.open(path, view.n_records), state, newer).n_records
            path.unlink(missing_ok=True)
    return _with_vectors(kind.new_file(path, state.encoder.n_features), state, everything).n_records


def _with_vectors(file: VectorFile, state: State, positions: NDArray[np.int64]) -> VectorFile:
    """A file with the vectors of these rows, too."""
    for start in range(0, len(positions), _BLOCK):
        numbers = state.numbers_at(positions[start : start + _BLOCK])
        assert state.vectors is not None
        file.upsert(state.vectors.take(numbers), numbers)
    return file


def _n_records(state: State) -> int:
    """Records of the saved file of vectors that count."""
    assert state.vectors is not None
    assert state.vectors.saved is not None
    return state.vectors.saved.n_records


def _lines(texts: NDArray[Any]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def _written(path: Path, content: bytes) -> str:
    write_bytes(path, content)
    return hashlib.sha256(content).hexdigest()


def _content(generation: Path, manifest: dict[str, Any], name: str) -> bytes | None:
    """A part that the manifest names by its checksum, if it does."""
    if name not in manifest:
        return None
    content = (generation / name).read_bytes()
    _check_tie(manifest, name, hashlib.sha256(content).hexdigest(), generation)
    return content


def _check_tie(manifest: dict[str, Any], part: str, digest: str, generation: Path) -> None:
    if manifest.get(part) != digest:
        raise ValueError(f"{generation} has another {part} than was saved there (the checksum does not fit)")


def _check_length(n: int, state: State, path: Path) -> None:
    if n != len(state):
        raise ValueError(f"{path} is of {n} rows, there are {len(state)} codes")


def _size(generation: Path) -> int:
    return sum((generation / name).stat().st_size for name in (CODES, NAMES, PAYLOADS) if (generation / name).exists())


def _parts(folder: Path, manifest: dict[str, Any]) -> list[Path]:
    """Hasher and codes that a manifest of version 1 names."""
    names = [str(manifest.get(part)) for part in ("hasher", "codes")]
    if not re.fullmatch(r"hasher-[0-9a-f]{8} codes-[0-9a-f]{8}\.hli", " ".join(names)):
        raise ValueError(f"{folder / FORMAT.manifest} names no hasher and codes of its folder, got {names}")
    return [folder / name for name in names]


def _parts_of_version_1(folder: Path) -> list[Path]:
    """What a save replaces in a folder of version 1."""
    with suppress(OSError, ValueError):
        manifest = FORMAT.read_manifest(folder)
        if manifest["format_version"] == 1:
            return [path for path in _parts(folder, manifest) if path.exists()]
    return []
