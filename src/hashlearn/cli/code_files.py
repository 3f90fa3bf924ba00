"""Codes on disk: an ``.npy`` file of packed codes and a JSON sidecar that says what they are."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.cli.arrays import read_array

FORMAT = "hashlearn codes"


@dataclass(frozen=True)
class CodeFile:
    """Packed codes and what their sidecar says; ``model`` is None for codes of unknown origin."""

    place: str
    codes: NDArray[np.uint8]
    n_bits: int
    model: dict[str, Any] | None


def check_ending(out: str, ending: str) -> None:
    """A file without the ending of its format would not be known again when it is read."""
    if Path(out).suffix.lower() != ending:
        raise ValueError(f"--out must end in {ending}, got {out}")


def sidecar_of(path: str | Path) -> Path:
    """``codes.npy`` -> ``codes.npy.json``."""
    return Path(f"{path}.json")


def sidecar_for(n_bits: int, count: int, checksum: str, model: dict[str, Any]) -> dict[str, Any]:
    """What a sidecar says. It has the codes' checksum, so that one of another file is never believed."""
    import hashlearn

    return {
        "format": FORMAT,
        "n_bits": n_bits,
        "bit_order": "big",
        "count": count,
        "codes_sha256": checksum,
        "model": model,
        "hashlearn_version": hashlearn.__version__,
    }


def read_codes(place: str, n_bits: int | None = None) -> CodeFile:
    """Codes of a file, first bit most significant; ``n_bits`` is needed where there is no sidecar."""
    from hashlearn.codes import check_codes, reverse_bit_order

    array, sidecar = read_array(place), read_sidecar(place)
    if sidecar is None:
        if n_bits is None:
            raise ValueError(
                f"{place} has no sidecar {sidecar_of(place)} that says how many bits a code has; say --bits"
            )
        return CodeFile(place, check_codes(array, n_bits, place), n_bits, None)
    if n_bits is not None and n_bits != sidecar["n_bits"]:
        raise ValueError(f"{place} holds codes of {sidecar['n_bits']} bits by its sidecar, wanted {n_bits}")
    codes = reverse_bit_order(array) if sidecar["bit_order"] == "little" else array
    codes = check_codes(codes, sidecar["n_bits"], place)
    if len(codes) != sidecar["count"]:
        raise ValueError(f"{place} holds {len(codes)} codes, its sidecar says {sidecar['count']}")
    if sidecar.get("codes_sha256") not in (None, _checksum(array)):
        raise ValueError(
            f"{place} is not the file its sidecar was written for (the checksum does not fit); encode again"
        )
    return CodeFile(place, codes, sidecar["n_bits"], sidecar.get("model"))


def read_sidecar(place: str) -> dict[str, Any] | None:
    """What the sidecar of a file says, if it has one."""
    path = sidecar_of(place)
    if not path.exists():
        return None
    try:
        sidecar = json.loads(path.read_text(encoding="utf-8"))
        known = sidecar["format"] == FORMAT and sidecar["bit_order"] in ("big", "little")
        known = known and all(type(sidecar[name]) is int and sidecar[name] >= 0 for name in ("n_bits", "count"))
    except (ValueError, KeyError, TypeError, RecursionError):
        known = False
    if not known:
        raise ValueError(f"{path} is no sidecar of hashlearn codes")
    return sidecar


def check_made_by(file: CodeFile, model: dict[str, Any]) -> None:
    """Distances between codes of two models mean nothing."""
    if file.model and file.model.get("checksum") != model["checksum"]:
        raise ValueError(f"{file.place} was encoded by another model than {model['path']}; encode it again")


def check_same_model(left: CodeFile, right: CodeFile) -> None:
    """As :func:`check_made_by`, of two files."""
    if left.n_bits != right.n_bits:
        raise ValueError(f"{left.place} has codes of {left.n_bits} bits, {right.place} of {right.n_bits}")
    if left.model and right.model and left.model.get("checksum") != right.model.get("checksum"):
        raise ValueError(f"{left.place} and {right.place} were encoded by different models")


def _checksum(codes: NDArray[np.uint8]) -> str:
    return hashlib.sha256(np.ascontiguousarray(codes).reshape(-1).view(np.uint8).data).hexdigest()
