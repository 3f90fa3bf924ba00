"""Learning to hash: short binary codes for vectors, exact Hamming search, honest evaluation.

The public names are imported when they are first asked for, so that ``import hashlearn`` and ``hashlearn --help`` do
not wait for scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hashlearn import progress

if TYPE_CHECKING:
    from hashlearn.codes import hamming_distances, pack, unpack
    from hashlearn.hashers import (
        AGH,
        CH,
        ITQ,
        JPSH,
        JSH,
        LSH,
        METHODS,
        OCH,
        OEH,
        PSH,
        RSSH,
        SAH,
        SGH,
        SH,
        SP,
        Hasher,
        HasherUnion,
    )
    from hashlearn.metrics import Evaluation, evaluate, evaluate_vectors
    from hashlearn.model import load
    from hashlearn.search import HammingIndex, SimilaritySearch

__version__ = "0.1.0"

__all__ = [
    "AGH",
    "CH",
    "ITQ",
    "JPSH",
    "JSH",
    "LSH",
    "METHODS",
    "OCH",
    "OEH",
    "PSH",
    "RSSH",
    "SAH",
    "SGH",
    "SH",
    "SP",
    "Evaluation",
    "HammingIndex",
    "Hasher",
    "HasherUnion",
    "SimilaritySearch",
    "__version__",
    "evaluate",
    "evaluate_vectors",
    "hamming_distances",
    "load",
    "pack",
    "progress",
    "unpack",
]

_ROOMS = ("codes", "datasets", "experiments", "features", "hashers", "metrics", "rows", "search", "stores")
_HOMES = {
    "hashlearn.codes": ("hamming_distances", "pack", "unpack"),
    "hashlearn.metrics": ("Evaluation", "evaluate", "evaluate_vectors"),
    "hashlearn.model": ("load",),
    "hashlearn.search": ("HammingIndex", "SimilaritySearch"),
}
_HOME_OF = dict.fromkeys(__all__, "hashlearn.hashers")
_HOME_OF.update((name, home) for home, names in _HOMES.items() for name in names)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"hashlearn.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hashlearn' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
