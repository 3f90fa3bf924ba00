"""The contract of every method: fit once, then scores, then packed codes.

A method subclasses :class:`Hasher`, learns in ``fit`` and computes the scores of a block of rows in ``_scores``. If
something is prepared once for all blocks, it writes ``_scorer`` instead. A bit is one where its score is above zero.
This file has what all methods share: checks of the input, passes over blocks, packing, saving.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial, wraps
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from hashlearn.checks import Range, check_integer, check_matrix, check_parameters, check_vectors
from hashlearn.codes import bytes_per_code, pack
from hashlearn.hashers.saving import last_step, save_hasher
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, map_blocks, plain_rows, write_blocks
from hashlearn.rows.blocks import check_finite
from hashlearn.rows.forms import is_frame_of_numbers
from hashlearn.threads import one_blas_thread

_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": "numeric", "ensure_all_finite": False}
"""The checks of an array before it is read. The first pass over its rows checks that all numbers are finite."""

SMALL_ROWS = 16
SMALL_TYPES = (np.float32, np.float64)

_OF_THE_INPUT = {"n_features_in_", "feature_names_in_"}

_prepared: WeakKeyDictionary["Hasher", dict[tuple[str, np.dtype], tuple[list[Any], Any]]] = WeakKeyDictionary()
"""What hashers whose learned arrays are read-only (:func:`lock_learned`) have prepared, and the values it was made of.
It is no part of a hasher: saving, copying and comparing hashers leave it out."""

_SMALLEST = np.finfo(np.float32).tiny

ENCODE_PARTS = 3
"""Encoding takes a block in parts: nothing is summed over a block, and the threads finish closer to each other."""


def check_hasher(name: str, value: Any) -> Any:
    """``value`` if it is a hasher or a pipeline that ends in one."""
    if not isinstance(last_step(value), Hasher):
        wanted = "a hasher such as hashlearn.JPSH(), or a pipeline that ends in one"
        raise TypeError(f"{name} must be {wanted}, got {value!r:.80}")
    return value


def has_learned(hasher: Any) -> bool:
    """Whether a hasher is fitted. A hasher that only knows the number of features is not."""
    learned = {name for name in vars(hasher) if name.endswith("_") and not name.startswith("_")}
    return not learned <= _OF_THE_INPUT


def lock_learned(hasher: Any) -> None:
    """Make the learned arrays of a hasher read-only, so that it prepares its scorer once, and not in every call.

    For a hasher that encodes few rows often and must not change, such as the hasher of a search. Arrays can still be
    replaced.
    """
    for name, value in list(vars(hasher).items()):
        if name.endswith("_") and isinstance(value, np.ndarray) and value.flags.writeable:
            locked = value.view()
            locked.flags.writeable = False
            setattr(hasher, name, locked)
    for part in getattr(hasher, "hashers_", ()):
        lock_learned(part)


def all_or_nothing(learn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for methods that learn: if they fail or are interrupted, the hasher is as it was before.

    Such a method works on a copy of the hasher. When the method returns, the copy replaces the hasher in one step. BLAS
    uses one thread meanwhile: passes have their own threads, and sums must not depend on the number of BLAS threads.
    """

    @wraps(learn)
    def learn_aside(self, *args, **kwargs):
        aside = object.__new__(type(self))
        aside.__dict__ = dict(vars(self))
        with one_blas_thread():
            result = learn(aside, *args, **kwargs)
        self.__dict__ = aside.__dict__
        return self if result is aside else result

    return learn_aside


class Hasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of all hashers: scikit-learn's estimator rules, packed codes out.

    ``fit(X)`` learns, ``decision_function(X)`` gives one score for each bit, ``transform(X)`` the packed codes, and
    ``save(folder)`` keeps the model for :func:`hashlearn.load`.

    X is an array, a memmap, a sparse matrix, a list of vectors, a frame, a column of vectors or a tensor. It may also
    be the path of a file of vectors, a list of paths, or a function that gives a fresh iterator over blocks of rows
    for every pass (:func:`hashlearn.rows.as_rows`).

    Examples
    --------
    >>> from hashlearn import ITQ
    >>> isinstance(ITQ(n_bits=16), Hasher)
    True
    """

    n_bits: int
    random_state: Any

    _ranges: ClassVar[dict[str, Any]] = {}
    """The allowed values of the parameters; :func:`~hashlearn.checks.check_parameters` checks them before the data are
    read."""

    _not_saved: tuple[str, ...] = ()
    """Learned attributes that a saved model leaves out."""

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the hash functions from the rows of X.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows
            At least two rows; see the class :class:`Hasher` for what else it may be.
        y : None
            Ignored: labels are never used.

        Returns
        -------
        Hasher
            This object. If learning fails or is interrupted, it is as it was before.
        """
        raise TypeError(f"{type(self).__name__} is not a method; take one of hashlearn.METHODS")

    def decision_function(self, X: ArrayLike) -> NDArray[np.float32]:
        """One score for each bit; a bit is one where its score is above zero.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for ``fit``
            No rows give no scores.

        Returns
        -------
        ndarray of shape (n, n_bits), float32
            A bit is more certain if its score is farther from zero.
        """
        if self._is_small(X):
            return self._small_scores(X).astype(np.float32, copy=False)
        rows = self._rows(X)
        scores = np.empty((len(rows), self.n_bits), np.float32)
        rows = rows.since(0, ENCODE_PARTS)
        scores_from = partial(scores_of_block, scorer=self.scorer(rows.dtype))
        for part, block in self._tracked(map_blocks(rows, scores_from), rows):
            scores[part] = block
        return scores

    def transform(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes, the first bit in the most significant place, padding bits zero.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for ``fit``
            No rows give no codes.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8)), uint8
            After ``set_output(transform="pandas")`` a DataFrame with one column for each byte.
        """
        if self._is_small(X):
            return pack(self._small_scores(X) > 0)
        rows = self._rows(X)
        codes = np.empty((len(rows), bytes_per_code(self.n_bits)), np.uint8)
        for part, block in self.transform_blocks(rows):
            codes[part] = block
        return codes

    def transform_blocks(self, X: Any, first: int = 0) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
        """Packed codes, one block of rows at a time; memory holds a few blocks.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for ``fit``
            No rows give no blocks.
        first : int, default=0
            The row to begin with.

        Returns
        -------
        iterator of (slice, ndarray)
            The rows of a block and their packed codes, in order.
        """
        rows = self._rows(X).since(first, ENCODE_PARTS)
        codes_from = partial(codes_of_block, scorer=self.scorer(rows.dtype))
        return self._tracked(map_blocks(rows, codes_from), rows)

    def transform_into(self, X: Any, path: str | Path, first: int = 0) -> Iterator[slice]:
        """Write packed codes into an npy file, one block of rows at a time.

        Rows on a cluster are encoded and written by its workers, which must see the file under the same path.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for ``fit``
            The rows to encode.
        path : str or Path
            A file of full size, as ``np.lib.format.open_memmap(path, "w+", np.uint8, shape)`` makes it.
        first : int, default=0
            The row to begin with.

        Returns
        -------
        iterator of slice
            The rows of each block, once their codes are written. Nothing is written before you iterate.
        """
        rows = self._rows(X).since(first, ENCODE_PARTS)
        wanted = (len(rows), bytes_per_code(self.n_bits))
        codes = np.lib.format.open_memmap(path, mode="r")
        if codes.shape != wanted or codes.dtype != np.uint8 or not codes.flags.c_contiguous:
            raise ValueError(
                f"{path} must hold an array of uint8 of shape {wanted}, got {codes.dtype} of {codes.shape}"
            )
        codes_from = partial(codes_of_block, scorer=self.scorer(rows.dtype))
        return self._tracked(write_blocks(rows, codes_from, os.path.abspath(path), codes.offset), rows)

    def scorer(self, dtype: np.dtype) -> Callable[[NDArray], NDArray]:
        """The function that scores blocks of rows without checking them; it can be sent to other processes.

        Parameters
        ----------
        dtype : numpy.dtype
            Of the blocks: float32 or float64.

        Returns
        -------
        function
            Gives scores of shape (rows, n_bits) for a block.
        """
        if type(self)._scorer is Hasher._scorer:
            return self._scores  # nothing is prepared; kept below, it would keep this object for ever
        return self._prepared(self._scorer, dtype)

    def _prepared(self, prepare: Callable[[np.dtype], Any], dtype: np.dtype) -> Any:
        """What a method of this hasher prepares for blocks of a type; kept where the learned arrays are read-only."""
        key = prepare.__name__, dtype
        learned = [value for name, value in vars(self).items() if name.endswith("_")]
        made_of, made = _prepared.get(self, {}).get(key, ((), None))
        if made is not None and len(made_of) == len(learned) and all(a is b for a, b in zip(made_of, learned)):
            return made
        made = prepare(dtype)
        if not any(isinstance(value, np.ndarray) and value.flags.writeable for value in learned):
            _prepared.setdefault(self, {})[key] = (learned, made)
        return made

    def fit_codes(self, X: ArrayLike, y: Any = None) -> NDArray[np.uint8]:
        """Learn from the rows of X and return their packed codes, as the method's authors put them in a database.

        For most methods these are the codes of :meth:`transform`. A method that learns the codes of its training rows
        themselves, and hash functions only for rows it has not seen, returns the learned ones.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for ``fit``
            At least two rows.
        y : None
            Ignored: labels are never used.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        """
        return self.fit(X, y).transform(X)

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder (``config.json`` and ``model.safetensors``); :func:`hashlearn.load` reads it.

        Parameters
        ----------
        folder : str or Path
            New, empty, or one that a model was saved to before; its parent exists.
        """
        save_hasher(self, folder)

    def _scorer(self, real: np.dtype) -> Callable[[NDArray], NDArray]:
        """The function that scores blocks of this precision.

        Work that is the same for all blocks is done here, once.
        """
        return self._scores

    def _is_small(self, X: Any) -> bool:
        """Whether X is a plain array with so few rows that checks and threads would take longer than the encoding."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and 0 < len(X) <= SMALL_ROWS
            and X.dtype in SMALL_TYPES
            and getattr(self, "n_features_in_", None) == X.shape[1]
            and not hasattr(self, "feature_names_in_")
        )

    def _small_scores(self, X: Any) -> NDArray:
        return self.scorer(X.dtype)(self._small_rows(X))

    def _small_rows(self, X: Any) -> NDArray:
        """A few rows, which must be finite, as a contiguous array."""
        rows = np.ascontiguousarray(X)
        values = rows.ravel()
        if not isfinite(values @ values):  # the sum tells the common case; it may also overflow
            check_finite(X, 0)
        return rows

    def _scores(self, block: NDArray) -> NDArray:
        """Scores of a block of rows, shape (rows, n_bits)."""
        if type(self)._scorer is Hasher._scorer:
            raise AssertionError(f"{type(self).__name__} does not say how it scores")
        return self._scorer(block.dtype)(block)

    def _tracked(self, blocks: Iterator[Any], rows: RowBlocks) -> Iterator[Any]:
        n = rows.n_blocks
        return blocks if n == 1 else track(blocks, f"{type(self).__name__} encode", n)

    def _rows_to_fit(self, X: Any) -> RowBlocks:
        check_parameters(
            self.get_params(deep=False) | {"n_bits": self.n_bits}, {"n_bits": Range(int, 1), **self._ranges}
        )
        rows = _checkable(X)
        if not isinstance(rows, RowBlocks):
            return RowBlocks(validate_data(self, rows, **_CHECKS, ensure_min_samples=2))
        if len(rows) < 2:
            raise ValueError(f"Found array with {len(rows)} sample(s) while a minimum of 2 is required.")
        self.n_features_in_ = rows.shape[1]
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return rows

    def _sampled(self, rows: RowBlocks, rng: np.random.RandomState) -> RowBlocks:
        """A random sample of ``train_sample`` rows, held in memory; all rows if it is None."""
        count = getattr(self, "train_sample", None)
        if count is None or check_integer("train_sample", count, low=2) >= len(rows):
            return rows
        return RowBlocks(rows.draw(count, rng))

    def _rows(self, X: Any) -> RowBlocks:
        check_is_fitted(self)
        rows = _checkable(X)
        if not isinstance(rows, RowBlocks):
            return RowBlocks(validate_data(self, rows, **_CHECKS, reset=False, ensure_min_samples=0))
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        return rows

    def _rng(self) -> np.random.RandomState:
        return check_random_state(self.random_state)

    def _rounds(self, n: int) -> Iterator[int]:
        """The rounds of a method, at most n; ``n_iter_`` counts those that began."""
        self.n_iter_ = 0
        for done in track(range(n), f"{type(self).__name__} rounds"):
            self.n_iter_ = done + 1
            yield done

    @property
    def _n_features_out(self) -> int:
        """Columns of what ``transform`` returns, for ``get_feature_names_out``."""
        return bytes_per_code(self.n_bits)

    def __sklearn_is_fitted__(self) -> bool:
        return has_learned(self)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _checkable(X: Any) -> Any:
    """X as RowBlocks, or as an array or a frame with names of features, which scikit-learn then checks."""
    if isinstance(X, RowBlocks) or (not isinstance(X, np.ndarray) and is_frame_of_numbers(X)):
        return X
    rows = plain_rows(X)
    if not isinstance(rows, RowBlocks) and rows.dtype.kind != "O":
        check_vectors("X", rows.shape, rows.dtype)
    return rows


class LinearHasher(Hasher):
    """A hasher whose scores are ``(x - mean_) @ projection_``.

    In the published ITQ, SP and CH a score of zero gives the bit one; in other methods it gives zero. ``_zero_is_one``
    says which. Where it gives one, the score is returned as the smallest positive number, so that for every caller a
    bit is one where its score is above zero.
    """

    _zero_is_one = False

    mean_: NDArray[np.float64]
    projection_: NDArray[np.float64]

    def _scorer(self, real):
        mean, projection = self.mean_.astype(real), self.projection_.astype(real)
        if self._zero_is_one:
            return PositiveZeroScorer(mean, projection)
        return LinearScorer(mean, projection, np.zeros(projection.shape[1], real))


class LinearScorer(NamedTuple):
    """``(x - mean) @ projection + intercept`` of the rows of a block."""

    mean: NDArray
    projection: NDArray
    intercept: NDArray

    def __call__(self, block: NDArray) -> NDArray:
        scores = (block - self.mean) @ self.projection
        scores += self.intercept
        return scores


class PositiveZeroScorer(NamedTuple):
    """``(x - mean) @ projection`` of the rows of a block, where a score of zero counts as positive."""

    mean: NDArray
    projection: NDArray

    def __call__(self, block: NDArray) -> NDArray:
        return zeros_made_positive((block - self.mean) @ self.projection)


def scores_of_block(block: NDArray, first: int, scorer: Callable[[NDArray], NDArray]) -> NDArray:
    """The scores of a block, for a pass."""
    return scorer(block)


def codes_of_block(block: NDArray, first: int, scorer: Callable[[NDArray], NDArray]) -> NDArray[np.uint8]:
    """The packed codes of a block, for a pass."""
    return pack(scorer(block) > 0)


def zeros_made_positive(scores: NDArray) -> NDArray:
    """The scores, with the smallest positive number where they are zero; in place."""
    scores[scores == 0] = _SMALLEST
    return scores


def starting_matrix(name: str, value: Any, shape: tuple[int, int | None], draw) -> NDArray[np.float64]:
    """The starting state a parameter names: your array, or ``draw()``."""
    return draw() if value is None else check_matrix(name, value, shape)
