"""Statistics of the bits of codes: how often each is one, how alike two of them are, and what each tells about labels.

A good bit is one for half of the rows (entropy 1) and does not repeat another bit (correlation 0). In codes by meaning
a good bit also tells the classes apart (mutual information with the labels).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from hashlearn.codes import check_codes, unpack
from hashlearn.metrics.relevance import label_array

_BLOCK_ROWS = 1 << 16
_SHOWN_BITS = 10


@dataclass(frozen=True, eq=False)
class CodeStatistics:
    """What the bits of codes say.

    Attributes
    ----------
    n_codes, n_bits : int
    n_distinct : int
        Number of different codes.
    code_entropy : float
        Entropy of whole codes, in bits: log2(n_codes) if all are different, 0 if all are the same.
    shares : ndarray of shape (n_bits,)
        The share of the rows for which a bit is one.
    entropy : ndarray of shape (n_bits,)
        Entropy of a bit: 1 if it is one for half of the rows, 0 if it is constant.
    correlation : ndarray of shape (n_bits, n_bits)
        Pearson correlation of two bits; 0 where a bit is constant, and 1 on the diagonal.
    label_entropy : float or None
        Entropy of the labels, in bits: the most that codes can tell. Of several labels a row, the mean over the labels.
    label_information : ndarray of shape (n_bits,) or None
        Mutual information of a bit and the labels, in bits: 0 if the bit tells nothing, at most 1.
        Of several labels a row, the mean over the labels.
    """

    n_codes: int
    n_bits: int
    n_distinct: int
    code_entropy: float
    shares: NDArray[np.float64]
    entropy: NDArray[np.float64]
    correlation: NDArray[np.float64]
    label_entropy: float | None = None
    label_information: NDArray[np.float64] | None = None

    @property
    def mean_imbalance(self) -> float:
        """Mean over the bits of ``|share of ones - share of zeros|``: 0 for balanced bits, 1 for constant ones."""
        return float(np.abs(2 * self.shares - 1).mean())

    @property
    def mean_correlation(self) -> float:
        """Mean of ``|correlation|`` over the pairs of different bits; 0 with a single bit."""
        pairs = self.n_bits * (self.n_bits - 1)
        return float((np.abs(self.correlation).sum() - self.n_bits) / pairs) if pairs else 0.0

    def most_informative(self, count: int = _SHOWN_BITS) -> NDArray[np.int64]:
        """The numbers of the bits that tell most: about the labels, or by their own entropy without labels."""
        value = self.entropy if self.label_information is None else self.label_information
        return np.argsort(-value, kind="stable")[:count]

    def to_dict(self) -> dict[str, Any]:
        """All values as plain numbers and lists."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"mean_imbalance": self.mean_imbalance, "mean_correlation": self.mean_correlation}
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}

    def to_json(self, indent: int | None = 2) -> str:
        """:meth:`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def table(self, count: int = _SHOWN_BITS) -> str:
        """The numbers as plain text, then the ``count`` bits that tell most."""
        lines = [
            ("codes", f"{self.n_codes}"),
            ("different codes", f"{self.n_distinct}"),
            ("entropy of the codes", f"{self.code_entropy:.2f} bits of {min(self.n_bits, np.log2(self.n_codes)):.2f}"),
            ("mean entropy of a bit", f"{self.entropy.mean():.3f}"),
            ("mean imbalance of a bit", f"{self.mean_imbalance:.3f}"),
            ("mean correlation of two bits", f"{self.mean_correlation:.3f}"),
        ]
        if self.label_information is not None:
            lines += [
                ("entropy of the labels", f"{self.label_entropy:.3f}"),
                ("mean information of a bit about them", f"{self.label_information.mean():.3f}"),
            ]
        width = max(len(name) for name, _ in lines)
        return "\n".join([*(f"{name:<{width}}  {value}" for name, value in lines), "", *self._bit_lines(count)])

    def _bit_lines(self, count: int) -> list[str]:
        others = np.abs(self.correlation - np.eye(self.n_bits))
        about_labels = self.label_information is not None
        head = f"{'bit':>5}  {'ones':>6}  {'entropy':>7}  most correlated with"
        lines = [head + ("  information about the labels" if about_labels else "")]
        for bit in self.most_informative(count):
            partner = int(others[bit].argmax())
            line = f"{bit:>5}  {self.shares[bit]:>6.3f}  {self.entropy[bit]:>7.3f}  "
            line += f"{f'bit {partner} ({self.correlation[bit, partner]:+.2f})':<20}"
            if self.label_information is not None:
                line += f"  {self.label_information[bit]:.3f}"
            lines.append(line.rstrip())
        return lines


def explain_codes(codes: ArrayLike, n_bits: int, labels: ArrayLike | None = None) -> CodeStatistics:
    """Balance, correlation and entropy of the bits of codes, and what they tell about labels.

    Parameters
    ----------
    codes : array-like of uint8, shape (n, ceil(n_bits / 8))
        Packed codes, at least one.
    n_bits : int
    labels : array-like of shape (n,) or (n, n_labels), optional
        One class for each row (numbers or strings), or a 0/1 matrix with a column for each label.

    Returns
    -------
    CodeStatistics

    Examples
    --------
    >>> from hashlearn import pack
    >>> codes = pack([[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1]])
    >>> found = explain_codes(codes, 3, labels=["cat", "cat", "dog", "dog"])
    >>> found.label_information.tolist()
    [1.0, 1.0, 0.0]
    >>> found.correlation[0, 1]
    np.float64(-1.0)
    """
    codes = check_codes(codes, n_bits, "codes")
    n = len(codes)
    if n == 0:
        raise ValueError("codes must hold at least one code, got none")
    truths = None if labels is None else label_array(labels, "labels")
    if truths is not None and len(truths) != n:
        raise ValueError(f"labels must be as many as the codes, got {len(truths)} for {n}")

    ones = np.zeros(n_bits)
    both = np.zeros((n_bits, n_bits))
    for bits in _blocks_of_bits(codes, n_bits):
        ones += bits.sum(axis=0, dtype=np.float64)
        both += bits.T @ bits
    counts = np.unique(codes, axis=0, return_counts=True)[1]
    shares = ones / n
    found = CodeStatistics(
        n_codes=n,
        n_bits=n_bits,
        n_distinct=len(counts),
        code_entropy=_entropy(counts / n),
        shares=shares,
        entropy=_binary_entropy(shares),
        correlation=_correlation(both / n, shares),
    )
    if truths is None:
        return found
    entropy, information = (
        _about_classes(codes, shares, truths) if truths.ndim == 1 else _about_labels(codes, shares, truths)
    )
    return replace(found, label_entropy=entropy, label_information=information)


def _blocks_of_bits(codes: NDArray[np.uint8], n_bits: int) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(codes), _BLOCK_ROWS):
        yield unpack(codes[start : start + _BLOCK_ROWS], n_bits).astype(np.float32)  # counts below 2^24 are exact


def _ones_by_group(codes: NDArray[np.uint8], n_bits: int, groups: scipy.sparse.csr_array) -> NDArray[np.float64]:
    """How often each bit is one in each group of rows, shape (groups, n_bits); ``groups`` is n x groups of 0 and 1."""
    total = np.zeros((groups.shape[1], n_bits))
    for number, bits in enumerate(_blocks_of_bits(codes, n_bits)):
        total += groups[number * _BLOCK_ROWS : number * _BLOCK_ROWS + len(bits)].T @ bits
    return total


def _about_classes(codes: NDArray, shares: NDArray, classes: NDArray) -> tuple[float, NDArray[np.float64]]:
    """H(class), and I(bit; class) = H(bit) - sum_c p(c) H(bit | c)."""
    n, names = len(codes), np.unique(classes, return_inverse=True)[1].ravel()
    sizes = np.bincount(names).astype(np.float64)
    groups = scipy.sparse.csr_array((np.ones(n, np.float32), names, np.arange(n + 1)), (n, len(sizes)))
    ones = _ones_by_group(codes, len(shares), groups)
    conditional = (sizes / n) @ _binary_entropy(ones / sizes[:, None])
    return _entropy(sizes / n), np.maximum(_binary_entropy(shares) - conditional, 0)


def _about_labels(codes: NDArray, shares: NDArray, truths: NDArray[np.bool_]) -> tuple[float, NDArray[np.float64]]:
    """The means over the labels of H(label) and of I(bit; label)."""
    n, groups = len(codes), scipy.sparse.csr_array(truths.astype(np.float32))
    sizes = truths.sum(axis=0, dtype=np.float64)[:, None]
    ones = _ones_by_group(codes, len(shares), groups)
    with_label = _binary_entropy(ones / np.maximum(sizes, 1))
    without = _binary_entropy((shares * n - ones) / np.maximum(n - sizes, 1))
    conditional = (sizes * with_label + (n - sizes) * without) / n
    information = np.maximum(_binary_entropy(shares) - conditional, 0).mean(axis=0)
    return float(_binary_entropy(sizes / n).mean()), information


def _entropy(shares: NDArray[np.float64]) -> float:
    """Entropy in bits of a distribution without zeros."""
    return float(abs(shares @ np.log2(shares)))


def _binary_entropy(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Entropy in bits of an event with this probability."""
    share = np.clip(share, 0, 1)
    return (entr(share) + entr(1 - share)) / np.log(2)


def _correlation(both: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson correlation of bits, from the shares of rows in which two bits, or one, are one."""
    spread = np.sqrt(shares * (1 - shares))
    scale = np.outer(spread, spread)
    correlation = np.where(scale > 0, (both - np.outer(shares, shares)) / np.where(scale > 0, scale, 1), 0)
    np.fill_diagonal(correlation, 1)
    return np.clip(correlation, -1, 1)
