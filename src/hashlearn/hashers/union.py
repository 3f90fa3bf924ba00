"""Several hashers side by side: a code whose parts are learned by different methods.

Methods make different errors. Take half the bits from a method that keeps meaning, and half from a method that keeps
neighborhoods (:class:`ITQ`). Such a code ranks the first hundred neighbors better than a code of the same length from
either method.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from hashlearn.codes import pack, unpack
from hashlearn.hashers.base import Hasher, all_or_nothing


class HasherUnion(Hasher):
    """Concatenate the bits of several hashers.

    Parameters
    ----------
    hashers : list of Hasher
        At least one. They are cloned before they learn. The name of a hasher's parameter begins with its class in lower
        case, and with a number if there are several of this class: ``itq__max_iter``, ``lsh-1__n_bits``.

    Attributes
    ----------
    hashers_ : list of Hasher
        The hashers, fitted.
    n_bits : int
        Sum of the hashers' lengths.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import ITQ, LSH
    >>> X, _ = load_digits(return_X_y=True)
    >>> union = HasherUnion([ITQ(n_bits=12, random_state=0), LSH(n_bits=4, random_state=0)])
    >>> union.n_bits
    16
    >>> union.set_params(itq__max_iter=10).fit_transform(X).shape
    (1797, 2)
    """

    def __init__(self, hashers=()):
        self.hashers = hashers

    @property
    def n_bits(self) -> int:  # type: ignore[override]
        return sum(hasher.n_bits for hasher in self._checked())

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        self._rows_to_fit(X)
        self.hashers_ = [clone(hasher).fit(X, y) for hasher in self.hashers]
        return self

    @all_or_nothing
    def fit_codes(self, X: ArrayLike, y: Any = None) -> NDArray[np.uint8]:
        self._rows_to_fit(X)
        hashers = [clone(hasher) for hasher in self.hashers]
        bits = [unpack(hasher.fit_codes(X, y), hasher.n_bits) for hasher in hashers]
        self.hashers_ = hashers
        return pack(np.hstack(bits))

    def scorer(self, dtype):
        # Not kept: each of the hashers keeps its own, and may learn anew.
        return UnionScorer([hasher.scorer(dtype) for hasher in self.hashers_])

    def _scorer(self, real):
        return self.scorer(real)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as scikit-learn wants them.

        Parameters
        ----------
        deep : bool, default=True
            Whether every hasher stands there by its name as well, and its parameters as ``name__parameter``.

        Returns
        -------
        dict
            Names and values.
        """
        params: dict[str, Any] = {"hashers": self.hashers}
        for name, hasher in self._named() if deep else ():
            params[name] = hasher
            params.update((f"{name}__{key}", value) for key, value in hasher.get_params().items())
        return params

    def set_params(self, **params: Any) -> Self:
        """Set the list, replace a hasher by its name, or set a hasher's parameter as ``name__parameter``.

        Parameters
        ----------
        **params : dict
            Names, as :meth:`get_params` returns them, and values.

        Returns
        -------
        HasherUnion
            This object.
        """
        if "hashers" in params:
            self.hashers = params.pop("hashers")
        named = self._named()
        if not params.keys().isdisjoint(name for name, _ in named):
            self.hashers = [params.pop(name, hasher) for name, hasher in named]
        return super().set_params(**params)

    def _named(self) -> list[tuple[str, Hasher]]:
        """The hashers by the names in their parameters; no hashers if ``hashers`` is not a list."""
        hashers = self.hashers if isinstance(self.hashers, (list, tuple)) else []
        names = [type(hasher).__name__.lower() for hasher in hashers]
        seen: Counter[str] = Counter()
        numbered = []
        for name in names:
            seen[name] += 1
            numbered.append(name if names.count(name) == 1 else f"{name}-{seen[name]}")
        return list(zip(numbered, hashers))

    def _checked(self) -> list[Hasher]:
        if not isinstance(self.hashers, (list, tuple)) or not self.hashers:
            raise TypeError(f"hashers must be a list of at least one hasher, got {self.hashers!r}")
        for hasher in self.hashers:
            if not isinstance(hasher, Hasher):
                raise TypeError(f"hashers must hold hashers only, got {hasher!r}")
        return list(self.hashers)


class UnionScorer(NamedTuple):
    """The scores of several scorers side by side."""

    scorers: list[Callable[[NDArray], NDArray]]

    def __call__(self, block: NDArray) -> NDArray:
        return np.hstack([scorer(block) for scorer in self.scorers])
