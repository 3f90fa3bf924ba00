"""ABH: additive binary hashing, our own method for codes by neighborhood.

A row is a sum of signed words, one word d_j for every bit::

    min_{B, D}  ||X - 1 mean' - B D||_F^2     B in {-1, +1}^{n x b},  D in R^{b x d}

For given bits, least squares gives the words D. For given words, a search finds the bits of a row. Short codes have
free words instead, 16 for each four bits (:mod:`hashlearn.linalg.abh.words`). They start as all sums of the four signed
words. B then has a one for each word that is chosen, and D has four times as many rows. Long codes have levels of
orthogonal directions (:mod:`hashlearn.linalg.abh.levels`). Levels are free words too, and their bits need no search.
Queries are not encoded. With R = b D, the row that a code stands for, and t = -2 D (q - mean), the numbers of a
query::

    ||q - x||^2 - ||q - mean||^2   ~   c + sum_j t_j b_j

The correction c is one number for every code, kept in one byte. It removes the part of the error x - R that can be
predicted for the queries near x (:mod:`hashlearn.linalg.abh.near_queries`)::

    c = w_1 |x|^2 + w_2 |R|^2 + (w_3 E[q | x] + w_4 R).(x - R),      x and q seen from the mean

The weights w are chosen so that held-out rows of the sample find most of their true neighbors.
"""

from copy import deepcopy
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hashlearn.checks import Range
from hashlearn.codes import Corrections, bytes_per_code, check_codes, pack, unpack
from hashlearn.hashers.base import ENCODE_PARTS, Hasher, all_or_nothing, starting_matrix
from hashlearn.linalg.abh.levels import MOST_BITS, Levels, LevelSearch, bits_of_directions, squares_of
from hashlearn.linalg.abh.near_queries import MetricGeometry, NearQueries, best_weights
from hashlearn.linalg.abh.signs import SignSearch, WordSums, signs_of, starting_words
from hashlearn.linalg.abh.words import GROUP_BITS, GROUP_WORDS, WordSearch, coefficients_of, combined, relative_weights
from hashlearn.linalg.neighbors import nearest_of
from hashlearn.linalg.projections import unit_rows
from hashlearn.progress import track
from hashlearn.rows import RowBlocks, added, fold, map_blocks

START_ROWS = 20_000
"""The largest number of rows used to learn the start and the correction."""

START_ROUNDS = 20
HELD_OUT = 500
N_NEIGHBORS = 10
PLACES = (10, 100)

FREE_BITS = 64
"""The longest code that has free words. Longer codes gain little from them and take longer to search for."""

LEVEL_BITS = 2.25
"""The smallest mean number of bits of the directions that have any, in a code that has levels."""

FEW_BITS = 8
"""Codes with less than one bit for each 8 features have no levels, unless they are asked for."""

LEARNED_LEVELS = ("level_directions_", "level_bits_", "level_values_", "level_rest_")
"""Attributes that a fit deletes when it uses another kind of words."""

ROWS_PER_WORD = 8
"""The smallest number of training rows for each free word. Signed words need fewer."""

FREE_ROUNDS = 4
"""Rounds with free words, for each round with signed words."""

BYTE_RANGE = (0.001, 0.999)
"""The range of the byte covers the sample's corrections between these two quantiles."""

REST_RANGE = (0.0, 1.0)
"""As BYTE_RANGE, for codes whose last bits hold the rest of the correction. Their steps are small. If the correction of
a row were cut off, the row would be found instead of nearer ones."""

PATIENCE = 20
"""Flips without a lower error after which the search for a row's bits ends."""


SPREADS = (1e-15, 1e15)
"""Limits for the distance of the farthest row from the mean, because squared distances are single precision."""


class ABH(Hasher):
    """Learn codes from which a real-valued query estimates its distances.

    Compare these codes with :meth:`query_weights` of a query, not with each other: their Hamming distances mean little.

    Parameters
    ----------
    n_bits : int (1 to 16384), default=64
        Length of a code, 1 to 16384; it may be more or less than the number of features.
    metric : {"euclidean", "cosine", "dot"}, default="euclidean"
        What is near: a small Euclidean distance, a small angle, or a large inner product.
    words : {"auto", "signed", "free", "levels"}, default="auto"
        "signed": a signed word for each bit. "free": 16 free words for each four bits; they fit clusters better, and
        take longer to learn and to search for. "levels": up to 4096 levels for each of some orthogonal directions;
        fast, for long codes of up to 12 bits for each feature. With "free" and "levels" n_bits must be a multiple of 4.
        "auto" is "levels" if n_bits allows it, ``init`` is None, and the directions that get bits get at least 2.25 on
        average: from 2.25 bits for each feature on, and from fewer on where few directions hold most of the variance.
        Codes of up to 64 bits have levels only from 2.25 bits for each feature on. "auto" is "free" for other codes of
        up to 64 bits if there are at least 32 * n_bits rows to learn from, and "signed" otherwise.
    max_iter : int (at least 0), default=5
        The largest number of rounds of the alternation between words and bits. The alternation ends when the error
        rises, which can happen with more bits than features. Free words get four times as many rounds after these.
    ridge : float (at least 0), default=1e-4
        Added to B'B, times the number of rows, in the least squares of the words.
    restarts : int (at least 0), default=0
        How often the search for the bits of a row starts again from the best bits with some of them flipped. Every
        restart costs as much time as the first search and gains a little recall.
    init : ndarray of shape (n_bits, n_features) or None, default=None
        The signed words to start from; those of ITQ's bits if None.
    train_sample : int (at least 2) or None, default=20000
        Number of rows, drawn at random and held in memory, to learn from; None for all, a block at a time.
    random_state : int, RandomState instance or None, default=None
        Determines the samples and the rotation that ITQ starts from.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    words_ : ndarray of shape (n_bits, n_features) or (4 * n_bits, n_features)
        D. Free words are in the order of the groups of four bits; within a group the four bits, the first the highest,
        are the number of their word.
    reconstruction_error_ : list of float
        The share of the variance that the codes of the training rows do not represent: one number for each round with
        signed words, measured with the words at its start. For levels it is one number, measured on a sample.
    level_directions_, level_bits_, level_values_ : ndarray
        Only with "levels": the directions, shape (n_features, k), the number of bits of each, and the levels of the
        first direction, then of the second, and so on.
    level_rest_ : float
        Only where the last four bits of a code are a part of its correction: what one of the 16 steps adds.
    directions_ : ndarray of shape (n_features, n_directions)
        The leading principal directions.
    shrinkage_ : ndarray of shape (n_directions + 1,)
        How much of a row's component in each of these directions, and in all others, the queries near it share.
    correction_weights_ : ndarray of shape (4,)
        w; older models have the first three.
    correction_scale_, correction_offset_ : float
        A correction is ``correction_offset_ + correction_scale_ * byte``.

    Examples
    --------
    >>> from hashlearn import AsymmetricIndex
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> hasher = ABH(n_bits=32, random_state=0).fit(X[100:])
    >>> codes = hasher.transform(X[100:])
    >>> index = AsymmetricIndex(n_bits=32).add(codes, corrections=hasher.corrections(X[100:], codes))
    >>> _, ids = index.search(hasher.query_weights(X[:100]), k=10)
    >>> nearest = ((X[:100, None] - X[100:]) ** 2).sum(axis=2).argmin(axis=1)
    >>> bool((ids == nearest[:, None]).any(axis=1).mean() > 0.9)
    True
    """

    _ranges: ClassVar[dict[str, Any]] = {
        "n_bits": Range(int, 1, 16384),
        "metric": Range(words=("euclidean", "cosine", "dot")),
        "words": Range(words=("auto", "signed", "free", "levels")),
        "max_iter": Range(int, 0),
        "ridge": Range(float, 0),
        "restarts": Range(int, 0),
        "train_sample": Range(int, 2, none=True),
    }

    def __init__(
        self,
        n_bits=64,
        *,
        metric="euclidean",
        words="auto",
        max_iter=5,
        ridge=1e-4,
        restarts=0,
        init=None,
        train_sample=20_000,
        random_state=None,
    ):
        self.n_bits = n_bits
        self.metric = metric
        self.words = words
        self.max_iter = max_iter
        self.ridge = ridge
        self.restarts = restarts
        self.init = init
        self.train_sample = train_sample
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rng = self._rng()
        rows = self._sampled(self._rows_to_fit(X), rng)
        sample = rows.draw(START_ROWS, rng)
        view = CenteredView.around_mean(sample, is_unit=self.metric == "cosine")
        sample = view(sample)
        _check_spread(sample)

        mean_square = float(np.einsum("ij,ij->", sample, sample) / len(sample))
        for name in LEARNED_LEVELS:
            self.__dict__.pop(name, None)
        if self._takes_levels(sample, view.mean, rng):
            D = self._learn_levels(sample, view.mean, mean_square, rng)
        else:
            D = self._signed_words(rows, view, sample, rng)
            if self._takes_free_words(len(rows)):
                D = self._free_words(rows, view, combined(D), mean_square)
        self.mean_, self.words_ = view.mean.astype(np.float64), D.astype(np.float32)
        self._learn_correction(sample, rng)
        return self

    def _takes_levels(self, sample: NDArray, mean: NDArray, rng: np.random.RandomState) -> bool:
        n_features = sample.shape[1]
        fits = self.n_bits % GROUP_BITS == 0 and self.n_bits <= MOST_BITS * n_features
        if self.words == "levels" and not fits:
            raise ValueError(
                f"words='levels' needs n_bits that are a multiple of {GROUP_BITS} and at most {MOST_BITS} for each of "
                f"the {n_features} features, got {self.n_bits}"
            )
        if self.words != "auto" or self.init is not None or not fits:
            return self.words == "levels"
        if self.n_bits >= LEVEL_BITS * n_features:
            return True
        if self.n_bits <= max(FREE_BITS, n_features // FEW_BITS):
            return False
        # A copy: the words of a code do not depend on whether levels were considered.
        differences = self._near_differences(sample, mean, deepcopy(rng))[1]
        bits = bits_of_directions(sample, differences, self.n_bits)[1]
        return bool(bits[bits > 0].mean() >= LEVEL_BITS)

    def _near_differences(
        self, sample: NDArray, mean: NDArray, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray]:
        """Rows near others that stand for queries, and the differences of these from them."""
        queries, nearest = _held_out(sample, MetricGeometry.named(self.metric, mean), rng)
        return nearest.ravel(), (sample[queries][:, None] - sample[nearest]).reshape(-1, sample.shape[1])

    def _learn_levels(self, sample: NDArray, mean: NDArray, mean_square: float, rng: np.random.RandomState) -> NDArray:
        """The words of levels; their directions and levels are kept, for the bits of rows."""
        nearest, differences = self._near_differences(sample, mean, rng)
        levels = Levels.of(sample, differences, self.n_bits, rng)
        if self.metric != "dot":
            levels = levels.with_rest(sample, nearest, differences, rng)
        self.n_iter_ = 1
        self.level_directions_, self.level_bits_, self.level_values_, rest = levels
        if rest is not None:
            self.level_rest_ = rest
        bits = LevelSearch(levels)(sample) > 0
        error = sample - levels.components(bits, sample.dtype) @ levels.directions.T.astype(sample.dtype)
        left_out = float(np.einsum("ij,ij->", error, error) / len(sample))
        self.reconstruction_error_ = [left_out / (mean_square or 1.0)]
        return levels.words()

    def _signed_words(
        self, rows: RowBlocks, view: "CenteredView", sample: NDArray, rng: np.random.RandomState
    ) -> NDArray:
        """Signed words by rounds of search and of least squares, until the error rises."""
        shape = (self.n_bits, rows.shape[1])
        D = starting_matrix(
            "init", self.init, shape, lambda: starting_words(sample, self.n_bits, self.ridge, START_ROUNDS, rng)
        )
        self.reconstruction_error_, before = [], D
        for _ in self._rounds(self.max_iter):
            sums = WordSums(*fold(rows, _sums_of_block, added, CodeScorer(view, SignSearch(D, 0, 0, rows.dtype))))
            self.reconstruction_error_.append(sums.error(D))
            if self.reconstruction_error_[-1] > min(self.reconstruction_error_):
                D = before
                break
            D, before = sums.words(self.ridge), D
        return D

    def _takes_free_words(self, n_rows: int) -> bool:
        fits = self.n_bits % GROUP_BITS == 0
        if self.words == "free" and not fits:
            raise ValueError(f"words='free' needs n_bits that are a multiple of {GROUP_BITS}, got {self.n_bits}")
        enough = n_rows >= ROWS_PER_WORD * GROUP_BITS * self.n_bits
        return self.words == "free" or (self.words == "auto" and fits and enough and self.n_bits <= FREE_BITS)

    def _free_words(self, rows: RowBlocks, view: "CenteredView", D: NDArray, mean_square: float) -> NDArray:
        """Free words by rounds of search and of least squares in which each row counts by the inverse of its error."""
        for _ in track(range(FREE_ROUNDS * self.max_iter), "ABH free words"):
            scorer = CodeScorer(view, WordSearch(D, 0, rows.dtype))
            sums = fold(rows, _weighted_sums_of_block, added, scorer, D, mean_square or 1.0)
            D = WordSums(*sums).words(self.ridge)
        return D

    def _learn_correction(self, X: NDArray, rng: np.random.RandomState) -> None:
        """Learn E[q | x], the weights w and the range of the byte from a centered sample."""
        geometry = MetricGeometry.named(self.metric, self.mean_)
        queries, truth = _held_out(X, geometry, rng)
        near = NearQueries.of(X, queries, truth, geometry.origin)
        self.directions_, self.shrinkage_ = near.directions, np.append(near.factors, near.rest)

        parts = self._parts(X.dtype)
        bits = self._search_in(X.dtype)(X) > 0
        words, coefficients = parts.words, parts.coefficients(bits)
        terms = near.terms(X, coefficients, words)
        products = geometry.products(X[queries], words) @ coefficients.T
        products[np.arange(len(queries)), queries] = np.inf  # a row is not its own neighbor
        places = np.unique(np.minimum(PLACES, len(X) - 1)).tolist()
        self.correction_weights_ = best_weights(products, terms, truth, geometry.starts, places)
        covered = REST_RANGE if hasattr(self, "level_rest_") else BYTE_RANGE
        low, high = np.quantile(terms @ self.correction_weights_ - parts.squares(bits), covered)
        self.correction_offset_, self.correction_scale_ = float(low), float(high - low) / 255 or 1.0
        if hasattr(self, "level_rest_"):
            self.level_rest_ = self.correction_scale_ / GROUP_WORDS

    def corrections(self, X: ArrayLike, codes: ArrayLike | None = None) -> Corrections:
        """The number that is added to every distance estimated from a code, kept in one byte.

        The scale and the offset of the bytes are learned, so corrections of different rows go into one index.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for ``fit``
            The rows that the codes are of.
        codes : array of shape (n, ceil(n_bits / 8)), uint8, or None
            The codes of these rows, if you have them already; if None, :meth:`transform` computes them.

        Returns
        -------
        Corrections
            For :meth:`hashlearn.AsymmetricIndex.add`; their ``numbers()`` are the corrections as floats.
        """
        rows = self._rows(X)
        known = check_codes(self.transform(X) if codes is None else codes, self.n_bits)
        if len(known) != len(rows):
            raise ValueError(f"codes must be as many as the rows of X, got {len(known)} for {len(rows)}")
        numbers = np.empty(len(rows))
        rows = rows.since(0, ENCODE_PARTS)
        corrector = self._prepared(self._corrector, rows.dtype)
        for part, block in self._tracked(map_blocks(rows, _corrections_of_block, corrector, known), rows):
            numbers[part] = block
        return Corrections.of(numbers, self.correction_scale_, self.correction_offset_)

    def codes_and_corrections(self, X: Any) -> tuple[NDArray[np.uint8], Corrections]:
        """What :meth:`transform` and :meth:`corrections` return, from one pass over the rows.

        Parameters
        ----------
        X : array of shape (n, n_features), or another source of rows as for ``fit``
            The rows to encode.

        Returns
        -------
        codes : ndarray of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        corrections : Corrections
            One for every code.
        """
        if self._is_small(X):
            codes, numbers = _encoded_block(self._small_rows(X), 0, *self._encoders(X.dtype))
        else:
            rows = self._rows(X)
            codes, numbers = np.empty((len(rows), bytes_per_code(self.n_bits)), np.uint8), np.empty(len(rows))
            rows = rows.since(0, ENCODE_PARTS)
            for part, block in self._tracked(map_blocks(rows, _encoded_block, *self._encoders(rows.dtype)), rows):
                codes[part], numbers[part] = block
        return codes, Corrections.of(numbers, self.correction_scale_, self.correction_offset_)

    def query_weights(self, Q: Any) -> NDArray[np.float32]:
        """The weights that a query gives to the words of the codes it is compared with.

        Signed words: the estimate of a distance is the sum of weights times bits (+1 or -1), plus the code's
        correction. Free words: the four bits of a group choose one of its 16 weights, and the chosen weights are added
        up. Terms that are the same for all codes are left out. For the squared Euclidean distance (for "cosine", of
        rows of length one) this is the query's squared distance to ``mean_``; for the negative inner product it is the
        one with ``mean_``.

        Parameters
        ----------
        Q : array of shape (n, n_features), or another source of rows as for ``fit``
            Queries.

        Returns
        -------
        ndarray of shape (n, n_bits) or (n, 4 * n_bits), float32
            For :meth:`hashlearn.AsymmetricIndex.search`.
        """
        if self._is_small(Q):
            weigher = self._prepared(self._weigher, Q.dtype)
            return weigher(self._small_rows(Q)).astype(np.float32, copy=False)
        rows = self._rows(Q)
        weights = np.empty((len(rows), len(self.words_)), np.float32)
        for part, block in map_blocks(rows, _weights_of_block, self._prepared(self._weigher, rows.dtype)):
            weights[part] = block
        return weights

    def decode(self, codes: ArrayLike) -> NDArray[np.float32]:
        """The vectors that codes stand for.

        Parameters
        ----------
        codes : array of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.

        Returns
        -------
        ndarray of shape (n, n_features), float32
            For "cosine" they are of length one, nearly.
        """
        check_is_fitted(self)
        bits = unpack(check_codes(codes, self.n_bits), self.n_bits)
        parts = self._parts(np.dtype(np.float32))
        decoded = parts.coefficients(bits) @ parts.words
        return decoded + self.mean_.astype(np.float32)

    def _view(self, real: np.dtype) -> "CenteredView":
        return CenteredView(self.mean_.astype(real), self.metric == "cosine")

    @property
    def _levels(self) -> Levels | None:
        if len(self.words_) == self.n_bits or not hasattr(self, "level_bits_"):
            return None
        rest = getattr(self, "level_rest_", None)
        return Levels(self.level_directions_, self.level_bits_, self.level_values_, rest)

    def _parts(self, real: np.dtype) -> "RowParts":
        levels = self._levels
        words = self.words_ if levels is None else levels.directions.T
        squares = None if levels is None or self.metric == "dot" else levels.squares()
        return RowParts(words.astype(real, copy=False), levels, squares)

    def _search_in(self, real: np.dtype) -> "SignSearch | WordSearch | LevelSearch | RestSearch":
        levels = self._levels
        if levels is not None:
            search = LevelSearch(levels)
            if not levels.rest:
                return search
            corrector = self._corrector(np.dtype(np.float64))
            return RestSearch(search, corrector, self.correction_scale_, self.correction_offset_)
        if len(self.words_) > self.n_bits:
            return WordSearch(self.words_, self.restarts, real)
        return SignSearch(self.words_, PATIENCE, self.restarts, real)

    def _scorer(self, real):
        return CodeScorer(self._view(real), self._search_in(real))

    def _weigher(self, real: np.dtype) -> "Weigher":
        if self.metric == "dot":
            return Weigher(
                CenteredView(np.zeros_like(self.mean_, real), is_unit=False), -self.words_.astype(real).T, None
            )
        squares = self._parts(real).word_squares
        added = None if squares is None else squares.astype(real)
        return Weigher(self._view(real), -2 * self.words_.astype(real).T, added)

    def _encoders(self, real: np.dtype) -> tuple["CodeScorer", "Corrector"]:
        return self.scorer(real), self._prepared(self._corrector, real)  # type: ignore[return-value]

    def _corrector(self, real: np.dtype) -> "Corrector":
        origin = MetricGeometry.named(self.metric, self.mean_).origin
        near = NearQueries(origin, self.directions_, self.shrinkage_[:-1], float(self.shrinkage_[-1]))
        return Corrector(self._view(real), near, self._parts(real), self.n_bits, self.correction_weights_)


class CenteredView(NamedTuple):
    """Rows as the method uses them: centered, and before that scaled to length one if the metric is the angle."""

    mean: NDArray
    is_unit: bool

    @classmethod
    def around_mean(cls, X: NDArray, is_unit: bool) -> "CenteredView":
        rows = unit_rows(X) if is_unit else X
        return cls(rows.mean(axis=0, dtype=np.float64).astype(X.dtype), is_unit)

    def __call__(self, block: NDArray) -> NDArray:
        return (unit_rows(block) if self.is_unit else block) - self.mean


class RowParts(NamedTuple):
    """The vectors whose sums stand for rows: words, or the directions of levels, which need fewer products for the same
    result.

    ``word_squares`` is added to the products to give the weights of words; None adds nothing. With levels and distances
    it is the part that a word adds to the squared length of a row. Corrections leave this part out, so they are small,
    and one byte is exact enough for long codes.
    """

    words: NDArray
    levels: Levels | None
    word_squares: NDArray | None

    def coefficients(self, bits: NDArray) -> NDArray:
        """B with B @ words the rows that bits stand for, seen from the mean."""
        real = self.words.dtype
        if self.levels is not None:
            return self.levels.components(bits, real)
        if len(self.words) == bits.shape[1]:
            return 2 * bits.astype(real) - 1
        return coefficients_of(bits, len(self.words), real)

    def squares(self, bits: NDArray) -> NDArray | float:
        """The sums of the squares of the words that bits choose."""
        if self.word_squares is None:
            return 0.0
        return squares_of(self.word_squares, bits)


class CodeScorer(NamedTuple):
    """Scores of the rows of a block."""

    view: CenteredView
    search: "SignSearch | WordSearch | LevelSearch | RestSearch"

    def __call__(self, block: NDArray) -> NDArray:
        return self.search(self.view(block))


class Weigher(NamedTuple):
    """Weights of the queries of a block: -2 (q - mean).d_j, or -q.d_j, and what is added to each."""

    view: CenteredView
    projection: NDArray
    added: NDArray | None

    def __call__(self, block: NDArray) -> NDArray:
        weights = self.view(block) @ self.projection
        return weights if self.added is None else weights + self.added


class Corrector(NamedTuple):
    """Corrections of the rows of a block, whose codes are known."""

    view: CenteredView
    near: NearQueries
    parts: RowParts
    n_bits: int
    weights: NDArray

    def __call__(self, block: NDArray, codes: NDArray[np.uint8]) -> NDArray:
        return self.of_bits(self.view(block), unpack(codes, self.n_bits))

    def of_bits(self, X: NDArray, bits: NDArray) -> NDArray:
        """As this object, of rows that are seen from the mean."""
        terms = self.near.terms(X, self.parts.coefficients(bits), self.parts.words)
        return terms[:, : len(self.weights)] @ self.weights - self.parts.squares(bits)


class RestSearch(NamedTuple):
    """Finds the bits of levels, and then the bits of the last group, which hold the rest of the correction.

    It computes in double precision. The bits of a row then depend on the row alone.
    """

    search: LevelSearch
    corrector: Corrector
    scale: float
    offset: float

    def __call__(self, X: NDArray) -> NDArray:
        scores = self.search(X)
        numbers = self.corrector.of_bits(X.astype(np.float64), scores > 0)
        steps = np.clip((numbers - self.offset) / self.scale, 0, 255)
        rest = np.minimum((steps - np.floor(steps)) * GROUP_WORDS, GROUP_WORDS - 1).astype(np.intp)
        bits = rest[:, None] >> np.arange(GROUP_BITS)[::-1] & 1
        least = np.finfo(X.dtype).tiny
        return np.hstack([scores, np.where(bits == 1, least, -least).astype(X.dtype)])


def _held_out(X: NDArray, geometry: MetricGeometry, rng: np.random.RandomState) -> tuple[NDArray, NDArray]:
    """Numbers of some rows that stand for queries, and of the nearest other rows of each."""
    queries = np.sort(rng.choice(len(X), min(HELD_OUT, len(X)), replace=False))
    return queries, nearest_of(X, queries, min(N_NEIGHBORS, len(X) - 1), geometry)


def _check_spread(X: NDArray) -> None:
    """Refuse centered rows whose squared distances would overflow or vanish in single precision."""
    farthest = float(max(X.max(), -X.min()))
    if farthest > 0 and not SPREADS[0] <= farthest <= SPREADS[1]:
        low, high = SPREADS
        raise ValueError(
            f"X must spread by {low:g} to {high:g} around its mean, got {farthest:.3g}: multiply X by a constant"
        )


def _sums_of_block(block: NDArray, first: int, scorer: CodeScorer) -> WordSums:
    X = scorer.view(block)
    return WordSums.of(X, signs_of(scorer.search(X)))


def _weighted_sums_of_block(block: NDArray, first: int, scorer: CodeScorer, D: NDArray, mean_square: float) -> WordSums:
    X, words = scorer.view(block), D.astype(block.dtype)
    coefficients = coefficients_of(scorer.search(X) > 0, len(words), X.dtype)
    return WordSums.weighted(X, coefficients, relative_weights(X, coefficients, words, mean_square))


def _corrections_of_block(block: NDArray, first: int, corrector: Corrector, codes: NDArray[np.uint8]) -> NDArray:
    return corrector(block, codes[first : first + len(block)])


def _encoded_block(
    block: NDArray, first: int, scorer: CodeScorer, corrector: Corrector
) -> tuple[NDArray[np.uint8], NDArray]:
    X = scorer.view(block)
    bits = scorer.search(X) > 0
    return pack(bits), corrector.of_bits(X, bits)


def _weights_of_block(block: NDArray, first: int, weigher: Weigher) -> NDArray:
    return weigher(block)
