"""Codes on disk: an ``.npy`` file of packed codes and a JSON sidecar that describes them.

The sidecar has the checksum of the codes, so a sidecar of other codes is refused. Two files cannot be replaced in one
step. So a new sidecar is written first: it describes the new codes and, under ``before``, the old codes, which are
still there. Then the codes are replaced. A reader always finds a sidecar that fits.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hashlearn.cli.support.arrays import read_array
from hashlearn.cli.support.places import path_of, sidecar_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "hashlearn codes"
CHECKSUM = "sidecar_sha256"
_ENTRIES = {"format", "n_bits", "bit_order", "count", "codes_sha256", "model", "hashlearn_version", "has_sidecar"}
_ENTRIES |= {CHECKSUM, "before"}
FORCE = "Go on although the codes are of different models."


@dataclass(frozen=True)
class CodeFile:
    """Packed codes and the facts in their sidecar. ``model`` is None for codes of unknown origin."""

    place: str
    codes: "NDArray[np.uint8]"
    n_bits: int
    model: dict[str, Any] | None

    @property
    def digest(self) -> str | None:
        """The checksum of the model that made the codes."""
        return None if self.model is None else self.model["checksum"]

    @property
    def is_for_real_queries(self) -> bool:
        """Whether the codes are compared with real queries, like those of ABH, and not by their bits."""
        return self.model is not None and self.model.get("queries") == "real"


def check_ending(out: str, ending: str) -> None:
    """Refuse a name without the ending of its format: the file could not be read again."""
    if Path(out).suffix.lower() != ending:
        raise ValueError(f"--out must end in {ending}, got {out}")


def sidecar_for(n_bits: int, count: int, checksum: str, model: dict[str, Any]) -> dict[str, Any]:
    """The content of a sidecar."""
    from hashlearn.version import __version__

    sidecar = {
        "format": FORMAT,
        "n_bits": n_bits,
        "bit_order": "big",
        "count": count,
        "codes_sha256": checksum,
        "model": model,
        "hashlearn_version": __version__,
    }
    return {**sidecar, CHECKSUM: _sidecar_checksum(sidecar)}


def replace_codes(target: Path, sidecar: dict[str, Any], replace: Callable[[], None]) -> None:
    """Call ``replace`` to put new codes at ``target``; write their sidecar. Readers see the old or the new codes."""
    from hashlearn.durable.files import write_text

    place, before = sidecar_of(target), _before(target)
    is_new = not place.exists()
    try:
        write_text(place, _as_text({**sidecar, "before": before} if before else sidecar))
        replace()
    except BaseException:
        if is_new and not target.exists():
            place.unlink(missing_ok=True)
        raise
    if before:
        write_text(place, _as_text(sidecar))


def _before(target: Path) -> list[dict[str, Any]]:
    """Descriptions of the existing codes: their sidecar and earlier ones, or only the checksum."""
    try:
        old = read_sidecar(target)
        if old is not None:
            return [{key: value for key, value in old.items() if key != "before"}, *old.get("before", [])]
        return [{"format": FORMAT, "has_sidecar": False, "codes_sha256": _checksum(read_array(str(target)))}]
    except (OSError, ValueError):  # no codes, or unreadable ones
        return []


def read_codes(place: str, n_bits: int | None = None) -> CodeFile:
    """Codes of a file, first bit most significant. ``n_bits`` is needed if there is no sidecar."""
    while True:
        versions = _versions(place)
        try:
            return _read_codes(place, n_bits)
        except ValueError:
            if _versions(place) == versions:  # otherwise codes and sidecar were replaced during the reading
                raise


def _read_codes(place: str, n_bits: int | None) -> CodeFile:
    from hashlearn.codes import check_codes, reverse_bit_order

    array, sidecar = read_array(place), read_sidecar(place)
    if sidecar is not None:
        sidecar = _fitting(sidecar, array, place)
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
    return CodeFile(place, codes, sidecar["n_bits"], sidecar.get("model"))


def read_sidecar(place: str | Path) -> dict[str, Any] | None:
    """The content of the sidecar of a file, if there is one."""
    from hashlearn.durable.files import read_json

    path = sidecar_of(place)
    if not path.exists():
        return None
    try:
        sidecar = read_json(path)
        known = _is_sidecar(sidecar) and all(_is_sidecar(before) for before in sidecar.get("before", []))
    except (ValueError, TypeError):
        known = False
    if not known:
        raise ValueError(f"{path} is no sidecar of hashlearn codes; move it away, or choose another name")
    return sidecar


def check_made_by(file: CodeFile, model: dict[str, Any], force: bool = False) -> None:
    """Refuse codes of another model: distances between codes of two models mean nothing."""
    if not force and file.digest not in (None, model["checksum"]):
        raise ValueError(
            f"{file.place} was encoded by another model than {model['path']}; encode it again, or insist with --force"
        )


def check_same_model(left: CodeFile, right: CodeFile, force: bool = False) -> None:
    """As :func:`check_made_by`, for two files."""
    if left.n_bits != right.n_bits:
        raise ValueError(f"{left.place} has codes of {left.n_bits} bits, {right.place} of {right.n_bits}")
    if not force and are_of_two_models(left.digest, right.digest):
        raise ValueError(
            f"{left.place} and {right.place} were encoded by different models; encode one again, or insist with --force"
        )


def check_compared_by_bits(file: CodeFile) -> None:
    """Refuse codes for real queries: their Hamming distances mean little."""
    if file.is_for_real_queries:
        raise ValueError(
            f"{file.place} holds codes made for real queries, as those of ABH, which are not compared by their bits; "
            f"search them with 'hashlearn search MODEL {file.place} QUERIES', or write their vectors into a store with "
            "'hashlearn encode MODEL VECTORS --to URI'"
        )


def are_of_two_models(left: str | None, right: str | None) -> bool:
    """Whether two digests are known and different."""
    return left is not None and right is not None and left != right


def _is_sidecar(value: Any) -> bool:
    """Whether a sidecar has the right entries. One without a checksum was written by hand."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        return False
    if not value.keys() <= _ENTRIES or value.get(CHECKSUM, _sidecar_checksum(value)) != _sidecar_checksum(value):
        return False
    if value.get("has_sidecar") is False:
        return isinstance(value.get("codes_sha256"), str)
    if value.get("bit_order") not in ("big", "little"):
        return False
    model = value.get("model")
    has_model = model is None or (isinstance(model, dict) and isinstance(model.get("checksum"), str))
    return has_model and all(type(value.get(name)) is int and value[name] >= 0 for name in ("n_bits", "count"))


def _fitting(sidecar: dict[str, Any], array: "NDArray", place: str) -> dict[str, Any] | None:
    """The description of this array, from the sidecar or from its earlier ones; None without a sidecar."""
    checksum = _checksum(array)
    for each in (sidecar, *sidecar.get("before", [])):
        if each.get("codes_sha256") in (None, checksum):
            return None if each.get("has_sidecar") is False else each
    raise ValueError(f"{place} is not the file its sidecar was written for (the checksum does not fit); encode again")


def _sidecar_checksum(sidecar: dict[str, Any]) -> str:
    """The checksum of all entries except itself and ``before``."""
    from hashlearn.durable.files import json_digest

    return json_digest({name: value for name, value in sidecar.items() if name not in (CHECKSUM, "before")})


def _checksum(array: "NDArray") -> str:
    import numpy as np

    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _versions(place: str) -> list[tuple[int, int, int] | None]:
    """Facts that change when a file or its sidecar is replaced."""
    path = path_of(place)
    found: list[tuple[int, int, int] | None] = []
    for each in (path, sidecar_of(path)):
        status = each.stat() if each.exists() else None
        found.append(None if status is None else (status.st_dev, status.st_ino, status.st_mtime_ns))
    return found


def _as_text(sidecar: dict[str, Any]) -> str:
    return json.dumps(sidecar, indent=2) + "\n"
