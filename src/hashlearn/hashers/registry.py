"""Every method, in one table that the command line, the experiments, the docs and the contract tests read."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING

from hashlearn.hashers.names import CLASS_NAMES

if TYPE_CHECKING:
    from hashlearn.hashers.base import Hasher


class MethodTable(MutableMapping[str, "type[Hasher]"]):
    """Name -> class, in the order of the registry; a class is imported when it is first asked for."""

    def __init__(self) -> None:
        self._classes: dict[str, type[Hasher] | None] = dict.fromkeys(CLASS_NAMES)

    def __getitem__(self, name: str) -> "type[Hasher]":
        found = self._classes[name]
        if found is None:
            found = getattr(import_module(f"hashlearn.hashers.{name}"), CLASS_NAMES[name])
            self._classes[name] = found
        return found

    def __setitem__(self, name: str, method: "type[Hasher]") -> None:
        self._classes[name] = method

    def __delitem__(self, name: str) -> None:
        del self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __repr__(self) -> str:
        return f"<methods {', '.join(self)}>"


METHODS = MethodTable()


def method_named(name: str) -> "type[Hasher]":
    """The class of a method, by its name in any case.

    Parameters
    ----------
    name : str

    Returns
    -------
    type

    Examples
    --------
    >>> method_named("JPSH").__name__
    'JPSH'
    """
    try:
        return METHODS[name.lower()]
    except (KeyError, AttributeError):
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {name!r}") from None
