"""Hashers of several code lengths from the same passes over the data."""

from collections.abc import Iterable
from typing import Any, TypeVar

from sklearn.base import clone

from hashlearn.codes import check_n_bits
from hashlearn.hashers.anchored import AnchoredHasher
from hashlearn.hashers.base import Hasher
from hashlearn.rows import plain_rows
from hashlearn.rows.forms import is_frame_of_numbers

AnyHasher = TypeVar("AnyHasher", bound=Hasher)


def fit_lengths(hasher: AnyHasher, X: Any, bits: Iterable[int]) -> list[AnyHasher]:
    """Fit one hasher for every code length, with no more passes over the data than one hasher needs.

    The methods with anchors (JPSH, JSH, PSH, SAH, AGH) learn from the anchors and from sums over the rows. These are
    the same for all lengths. Where ``n_anchors="auto"`` depends on the length, the longest code decides. Each hasher is
    the one that its own ``fit`` would give with these anchors. Other methods are fitted one after the other.

    Parameters
    ----------
    hasher : Hasher
        The hasher to fit. It is cloned, and its own ``n_bits`` does not matter. An array whose shape depends on the
        length (``init``) fits one length only.
    X : array, path, paths or function
        As for ``fit``.
    bits : iterable of int
        The lengths.

    Returns
    -------
    list of Hasher
        Fitted, in the order of ``bits``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import JPSH
    >>> X, _ = load_digits(return_X_y=True)
    >>> [hasher.transform(X).shape[1] for hasher in fit_lengths(JPSH(random_state=0), X, (16, 32))]
    [2, 4]
    """
    hashers = [clone(hasher).set_params(n_bits=check_n_bits(n_bits)) for n_bits in bits]
    if not hashers:
        raise ValueError("bits must hold at least one length, got none")
    if not isinstance(hasher, AnchoredHasher):
        rows = X if is_frame_of_numbers(X) else plain_rows(X)
        return [each.fit(rows) for each in hashers]

    longest = max(hashers, key=lambda each: each.n_bits)
    summary = longest.summarize(X)
    for each in hashers:
        each.n_features_in_ = longest.n_features_in_
        if hasattr(longest, "feature_names_in_"):
            each.feature_names_in_ = longest.feature_names_in_
        each.fit_summary(summary)
    return hashers
