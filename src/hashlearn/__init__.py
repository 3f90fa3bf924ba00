"""Learning to hash: short binary codes for vectors, exact Hamming search, honest evaluation.

The public names are imported when they are first asked for, so that ``import hashlearn`` and ``hashlearn --help`` do
not wait for scikit-learn. Every method of the registry is one of them.
"""

import lazy_loader

from hashlearn import progress
from hashlearn.hashers.names import CLASS_NAMES
from hashlearn.progress import set_progress
from hashlearn.version import __version__

EXPORTS = {
    "client": ["AsyncClient", "Client"],
    "codes": ["Corrections", "hamming_distances", "pack", "unpack"],
    "duplicates": ["Duplicates", "find_duplicates"],
    "hashers": ["METHODS", "Hasher", "HasherUnion", "fit_lengths", *CLASS_NAMES.values()],
    "index": ["AsymmetricIndex", "HammingIndex"],
    "metrics": ["Evaluation", "evaluate", "evaluate_vectors"],
    "model": ["load", "save"],
    "search": ["SimilaritySearch"],
}
"""Module -> the names of it that are public here."""

MODULES = [
    "codes",
    "datasets",
    "duplicates",
    "experiments",
    "explore",
    "features",
    "hashers",
    "index",
    "metrics",
    "recommend",
    "rows",
    "search",
    "stores",
]

__getattr__, _, _ = lazy_loader.attach(__name__, submodules=MODULES, submod_attrs=EXPORTS)

__all__ = [*sorted(name for names in EXPORTS.values() for name in names), "__version__", "progress", "set_progress"]


def __dir__() -> list[str]:
    return __all__
