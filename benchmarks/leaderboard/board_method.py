"""What a method of the leaderboard is, and where the methods are found."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

Setting = dict[str, Any]
FOLDER = Path(__file__).parent / "methods"


class Method:
    """Learns from rows, keeps a code for each, and ranks them for queries by squared distance or any other number.

    ``settings`` are made in turn: each is the argument of an object of its own.
    """

    name: str
    family: str = "own"
    settings: ClassVar[list[Setting]] = [{}]
    needs: ClassVar[str | None] = None
    """The module that must be installed."""
    seeded: ClassVar[bool] = True
    """Whether a seed changes anything; otherwise only seed 0 is run."""

    def __init__(self, setting: Setting, seed: int, metric: str):
        """``metric`` is "euclidean", or "cosine" for rows of unit length."""
        self.setting, self.seed, self.metric = setting, seed, metric

    @classmethod
    def suits(cls, setting: Setting, n_features: int, metric: str) -> bool:
        """Whether the setting is possible, and sensible, for these rows."""
        return True

    def fit(self, X: np.ndarray) -> None:
        """Learn from rows."""

    def encode(self, X: np.ndarray) -> float:
        """Keep the codes of rows, and return the bytes of one; what all rows share is not counted."""
        raise NotImplementedError

    def search(self, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and row numbers, nearest first, each of shape (n_queries, k)."""
        raise NotImplementedError


def all_methods(own: list[str]) -> Iterator[type[Method]]:
    """Those of the folder ``methods``, and one's own, each given as ``path.py:Class``."""
    for path in sorted(FOLDER.glob("*.py")):
        yield from _module(path).METHODS
    for given in own:
        path, _, wanted = given.rpartition(":")
        if not Path(path).is_file():
            raise ValueError(f"--method must be path.py:Class of a file that is there, got {given!r}")
        found = getattr(_module(Path(path)), wanted, None)
        if not (isinstance(found, type) and issubclass(found, Method)):
            raise ValueError(f"--method must name a class that extends Method, got {given!r}")
        yield found


def installed(methods: Iterator[type[Method]]) -> Iterator[type[Method]]:
    """Those whose module is installed; each other module gets one line."""
    missing = set()
    for method in methods:
        if method.needs is None or importlib.util.find_spec(method.needs) is not None:
            yield method
        elif method.needs not in missing:
            missing.add(method.needs)
            print(f"{method.needs} is not installed: its methods are left out")


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"leaderboard_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
