"""ABH: codes that tell real queries their distances."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import ABH, ITQ, AsymmetricIndex, Corrections, load, unpack
from hashlearn.linalg.abh.levels import Levels
from hashlearn.linalg.projections import unit_rows
from hashlearn.metrics import true_neighbors
from hashlearn.rows import blocks

digits = load_digits().data.astype(np.float32)
X, Q = digits[200:], digits[:200]


def fitted(n_bits=32, **params):
    return ABH(n_bits, random_state=0, **params).fit(X)


def found(hasher, k=10):
    codes = hasher.transform(X)
    index = AsymmetricIndex(hasher.n_bits).add(codes, corrections=hasher.corrections(X, codes))
    return index.search(hasher.query_weights(Q), k).ids


def recall(ids, truth):
    return np.mean([len(np.intersect1d(row, true)) for row, true in zip(ids, truth)]) / truth.shape[1]


def left_out(hasher):
    """The share of the variance that the codes leave out."""
    return ((X - hasher.decode(hasher.transform(X))) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum()


@pytest.fixture(scope="module")
def truth():
    return true_neighbors(X, Q, 10)


def test_it_finds_far_more_true_neighbors_than_itq_with_real_queries(truth):
    itq = ITQ(32, random_state=0).fit(X)
    asymmetric = AsymmetricIndex(32).add(itq.transform(X)).search(-itq.decision_function(Q), 10).ids
    assert recall(found(fitted()), truth) > recall(asymmetric, truth) + 0.1


@pytest.mark.parametrize("n_bits", [8, 64, 200])
def test_more_bits_leave_less_below_and_above_the_number_of_features(n_bits):
    assert left_out(fitted(2 * n_bits)) < 0.8 * left_out(fitted(n_bits))


def test_a_search_takes_codes_of_more_than_4096_bits():
    rows = np.random.default_rng(0).standard_normal((60, 512)).astype(np.float32)
    hasher = ABH(4608, random_state=0).fit(rows)
    codes, corrections = hasher.codes_and_corrections(rows)
    search = AsymmetricIndex().add(codes, corrections=corrections)
    assert search.search(hasher.query_weights(rows), 1).ids.ravel().tolist() == list(range(60))
    with pytest.raises(ValueError, match="n_bits must be at most 16384, got 16385"):
        AsymmetricIndex(16385)


def test_4096_bits_are_learned_and_decode_to_the_rows():
    hasher = ABH(4096, max_iter=1, random_state=0).fit(X[:20, :4])
    decoded = hasher.decode(hasher.transform(X[:20, :4]))
    assert np.abs(decoded - X[:20, :4]).max() < 0.5


def test_an_estimate_is_the_squared_distance_but_for_a_constant_of_the_query():
    """With many bits hardly anything is left out, so the estimates are the distances themselves."""
    hasher = fitted(512, words="signed")
    signs = 2.0 * unpack(hasher.transform(X), 512) - 1
    estimates = hasher.query_weights(Q) @ signs.T + hasher.corrections(X).numbers()
    true = ((Q[:, None] - X) ** 2).sum(axis=2) - ((Q - hasher.mean_) ** 2).sum(axis=1)[:, None]
    assert np.abs(estimates - true).max() < 0.05 * np.ptp(true)


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_each_metric_has_its_own_neighbors(metric):
    rows, queries = (unit_rows(X), unit_rows(Q)) if metric == "cosine" else (X, Q)
    wanted = np.argsort(-queries @ rows.T, axis=1)[:, :10]
    own = recall(found(fitted(64, metric=metric)), wanted)
    assert own > 0.6
    assert own > recall(found(fitted(64)), wanted)


def test_the_length_of_rows_does_not_matter_for_the_angle():
    scales = np.random.default_rng(0).uniform(0.5, 2, (len(X), 1)).astype(np.float32)
    hasher = fitted(metric="cosine")
    assert np.mean(unpack(hasher.transform(scales * X), 32) == unpack(hasher.transform(X), 32)) > 0.999


def test_free_words_find_more_neighbors_than_signed_ones(truth):
    assert recall(found(fitted(words="free")), truth) > recall(found(fitted(words="signed")), truth) + 0.02
    assert left_out(fitted(words="free")) < 0.95 * left_out(fitted(words="signed"))


def test_words_are_free_for_short_codes_with_enough_rows():
    assert fitted(32, max_iter=1).words_.shape == (128, 64)
    for others in (fitted(30, max_iter=1), fitted(72, max_iter=1), fitted(32, max_iter=1, train_sample=500)):
        assert others.words_.shape == (others.n_bits, 64)
    with pytest.raises(ValueError, match="multiple of 4, got 30"):
        fitted(30, words="free")


def test_long_codes_have_levels_which_leave_less_than_signed_words():
    for hasher in (fitted(160), fitted(32, words="levels")):
        assert hasher.words_.shape == (4 * hasher.n_bits, 64)
        assert hasher.level_bits_.sum() == hasher.n_bits
    assert left_out(fitted(256)) < 0.5 * left_out(fitted(256, words="signed", max_iter=1))
    for others in (fitted(772, max_iter=0), fitted(162, max_iter=0)):
        assert others.words_.shape == (others.n_bits, 64)
    for n_bits in (30, 772):
        with pytest.raises(ValueError, match=f"words='levels' needs n_bits .* got {n_bits}"):
            fitted(n_bits, words="levels")


def test_few_directions_with_most_of_the_variance_get_levels_from_fewer_bits_on():
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((500, 64)).astype(np.float32)
    for bits, scales, has_levels in ((128, np.ones(64), False), (128, 0.8 ** np.arange(64), True), (160, 1, True)):
        hasher = ABH(bits, random_state=0, max_iter=0).fit(flat * scales)
        assert hasattr(hasher, "level_bits_") == has_levels
        signed = ABH(bits, random_state=0, max_iter=0, words="signed").fit(flat * scales)
        if not has_levels:
            np.testing.assert_array_equal(hasher.words_, signed.words_)


def test_levels_find_almost_all_neighbors(truth):
    assert recall(found(fitted(512)), truth) > 0.9


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_very_long_codes_keep_the_rest_of_the_correction(truth, metric):
    rows, queries = (unit_rows(part) if metric == "cosine" else part for part in (X, Q))
    hasher = ABH(640, metric=metric, random_state=0).fit(rows)
    assert hasher.level_bits_.sum() == hasher.n_bits - 4
    codes, corrections = hasher.codes_and_corrections(rows)
    assert hasher.corrections(rows, codes).values.tolist() == corrections.values.tolist()
    index = AsymmetricIndex(640).add(codes, corrections=corrections)
    nearest = true_neighbors(rows, queries, 10)
    assert recall(index.search(hasher.query_weights(queries), 10).ids, nearest) > 0.99
    for row in range(20):
        np.testing.assert_array_equal(hasher.transform(rows[row : row + 1]), codes[row : row + 1])


@pytest.mark.parametrize(("n_bits", "metric"), [(160, "euclidean"), (512, "euclidean"), (256, "cosine"), (256, "dot")])
def test_codes_of_levels_are_found_in_the_order_of_their_decoded_rows(n_bits, metric):
    hasher = fitted(n_bits, metric=metric)
    codes = hasher.transform(X)
    corrections = hasher.corrections(X, codes)
    queries = Q / np.linalg.norm(Q, axis=1, keepdims=True) if metric == "cosine" else Q
    factor = -1 if metric == "dot" else -2
    asked = queries if metric == "dot" else queries - hasher.mean_
    estimates = corrections.numbers() + factor * asked @ (hasher.decode(codes) - hasher.mean_).T
    if metric != "dot":
        rest = getattr(hasher, "level_rest_", None)
        squares = Levels(hasher.level_directions_, hasher.level_bits_, hasher.level_values_, rest).squares()
        numbers = unpack(codes, n_bits).reshape(len(X), -1, 4) @ [8, 4, 2, 1]
        estimates += squares.reshape(-1, 16)[np.arange(n_bits // 4), numbers].sum(axis=1)
    found = AsymmetricIndex(n_bits).add(codes, corrections=corrections).search(hasher.query_weights(Q), 50)
    close = 1e-4 * (estimates.max() - estimates.min())
    np.testing.assert_allclose(found.distances, np.sort(estimates, axis=1)[:, :50], atol=close)
    np.testing.assert_allclose(found.distances, np.take_along_axis(estimates, found.ids, axis=1), atol=close)


@pytest.mark.parametrize("n_bits", [100, 200, 388])
def test_a_code_of_levels_stands_for_the_sum_of_its_words(n_bits):
    hasher = fitted(n_bits, words="levels")
    codes = hasher.transform(X[:50])
    numbers = unpack(codes, n_bits).reshape(50, -1, 4) @ [8, 4, 2, 1]
    words = hasher.words_.reshape(-1, 16, 64)
    sums = words[np.arange(n_bits // 4), numbers].sum(axis=1) + hasher.mean_
    np.testing.assert_allclose(hasher.decode(codes), sums, atol=1e-3)


def test_a_row_alone_has_the_levels_that_it_has_among_others():
    hasher = fitted(200)
    codes = hasher.transform(X[:20])
    for row in range(20):
        np.testing.assert_array_equal(hasher.transform(X[row : row + 1]), codes[row : row + 1])


def test_saved_levels_code_as_before(tmp_path):
    hasher = fitted(200)
    hasher.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(X), hasher.transform(X))
    np.testing.assert_array_equal(loaded.corrections(X).values, hasher.corrections(X).values)


def test_a_fit_to_other_words_leaves_no_levels_behind():
    hasher = fitted(32, words="levels").set_params(words="free", max_iter=1).fit(X)
    np.testing.assert_array_equal(hasher.transform(X), fitted(32, words="free", max_iter=1).transform(X))


def test_the_distance_is_the_sum_of_the_weights_of_the_words_that_a_code_chooses():
    hasher = fitted(words="free")
    codes = hasher.transform(X)
    numbers = np.stack([codes >> 4, codes & 15], axis=2).reshape(len(X), -1)
    places = 16 * np.arange(8) + numbers
    np.testing.assert_allclose(
        hasher.decode(codes), hasher.words_[places].sum(axis=1) + hasher.mean_, rtol=1e-4, atol=1e-3
    )
    index = AsymmetricIndex(32).add(codes, corrections=hasher.corrections(X, codes))
    distances, ids = index.search(hasher.query_weights(Q), len(X))
    wanted = hasher.query_weights(Q)[:, places].sum(axis=2) + hasher.corrections(X, codes).numbers()
    np.testing.assert_allclose(distances, np.take_along_axis(wanted, ids, axis=1), atol=0.02 * np.ptp(wanted))


def test_a_model_with_three_weights_of_corrections_still_corrects():
    hasher = fitted(words="signed")
    hasher.correction_weights_ = np.append(hasher.correction_weights_[:3], 0.0)
    numbers = hasher.corrections(X).numbers()
    hasher.correction_weights_ = hasher.correction_weights_[:3]
    np.testing.assert_array_equal(hasher.corrections(X).numbers(), numbers)


def test_the_correction_is_what_finds_neighbors(truth):
    hasher = fitted()
    codes = hasher.transform(X)
    without = AsymmetricIndex(32).add(codes).search(hasher.query_weights(Q), 10).ids
    assert recall(found(hasher), truth) > recall(without, truth) + 0.1


def test_the_correction_is_no_worse_than_the_simple_ones_on_sparse_rows_with_ties():
    rng = np.random.default_rng(0)
    tags = (rng.random((3000, 300)) < 0.3 / np.arange(1, 301) ** 0.6).astype(np.float32)
    rows, queries = tags[300:], tags[:300]
    hasher = ABH(32, words="signed", random_state=0).fit(rows)
    codes, weights = hasher.transform(rows), hasher.query_weights(queries)
    decoded, centered = hasher.decode(codes) - hasher.mean_, rows - hasher.mean_
    norms = [(part**2).sum(axis=1) for part in (decoded, centered)]
    products = weights @ (2.0 * unpack(codes, 32).T - 1)
    distances = (queries**2).sum(axis=1)[:, None] - 2 * queries @ rows.T + (rows**2).sum(axis=1)  # whole numbers
    limit = np.partition(distances, 9, axis=1)[:, 9:10]

    def near(correction):
        first = np.argsort(products + correction, axis=1, kind="stable")[:, :10]
        return np.mean(np.take_along_axis(distances, first, axis=1) <= limit)

    simple = [near(c) for c in (norms[0], norms[1], (norms[0] + norms[1]) / 2)]
    assert near(hasher.corrections(rows, codes).numbers()) > max(simple) - 0.02


def test_rounds_and_restarts_leave_less():
    errors = fitted(max_iter=8).reconstruction_error_
    assert np.all(np.diff(errors) < 1e-4)
    assert errors[-1] < 0.9 * errors[0]
    assert left_out(fitted(restarts=5)) < left_out(fitted())


def test_a_block_at_a_time_gives_what_one_block_gives(monkeypatch):
    whole = fitted(words="signed", train_sample=None)
    codes, corrections = whole.transform(X), whole.corrections(X)
    monkeypatch.setattr(blocks, "MAX_BLOCK_ROWS", 128)
    parts = fitted(words="signed", train_sample=None)
    np.testing.assert_allclose(parts.words_, whole.words_, atol=1e-2 * np.abs(whole.words_).max())
    np.testing.assert_array_equal(whole.transform(X), codes)
    np.testing.assert_array_equal(whole.corrections(X, codes).values, corrections.values)


def test_free_words_of_blocks_code_as_well_as_those_of_one_block(monkeypatch):
    """Rounding decides some choices, and many rounds follow, so the words themselves differ."""
    whole = fitted(words="free", train_sample=None)
    codes, left = whole.transform(X), left_out(whole)
    monkeypatch.setattr(blocks, "MAX_BLOCK_ROWS", 128)
    assert left_out(fitted(words="free", train_sample=None)) == pytest.approx(left, rel=0.03)
    np.testing.assert_array_equal(whole.transform(X), codes)


def test_it_learns_from_a_sample_and_from_files(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    sampled = ABH(32, words="signed", train_sample=500, random_state=0).fit(tmp_path / "rows.npy")
    assert left_out(sampled) < 1.2 * left_out(fitted(words="signed"))
    codes = sampled.transform(tmp_path / "rows.npy")
    np.testing.assert_array_equal(codes, sampled.transform(X))
    np.testing.assert_array_equal(sampled.corrections(tmp_path / "rows.npy").values, sampled.corrections(X).values)


def test_words_may_be_given():
    hasher = fitted(words="signed")
    again = ABH(32, words="signed", init=hasher.words_, max_iter=0, random_state=1).fit(X)
    np.testing.assert_array_equal(again.words_, hasher.words_)
    assert np.mean(unpack(again.transform(X), 32) == unpack(hasher.transform(X), 32)) > 0.999


def test_a_saved_model_corrects_and_weighs_as_before(tmp_path):
    hasher = fitted(metric="cosine")
    hasher.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert isinstance(loaded.corrections(X), Corrections)
    np.testing.assert_array_equal(loaded.corrections(X).values, hasher.corrections(X).values)
    np.testing.assert_array_equal(loaded.query_weights(Q), hasher.query_weights(Q))


def test_one_query_weighs_as_among_many():
    hasher = fitted()
    np.testing.assert_allclose(hasher.query_weights(Q[:1]), hasher.query_weights(Q)[:1], rtol=1e-4, atol=1e-2)
    with pytest.raises(ValueError, match="NaN"):
        hasher.query_weights(np.full((1, 64), np.nan))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "hamming"}, "metric must be"),
        ({"restarts": -1}, "restarts"),
        ({"words": "long"}, "words must be"),
        ({"ridge": -1.0}, "ridge"),
        ({"n_bits": 16385}, "n_bits"),
        ({"train_sample": 1}, "train_sample"),
        ({"init": np.zeros((3, 3))}, "init"),
    ],
)
def test_a_wrong_parameter_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        fitted(**{"n_bits": 8, **changes})


def test_codes_of_other_rows_are_refused():
    hasher = fitted()
    with pytest.raises(ValueError, match="codes must be as many as the rows of X, got 10 for 1597"):
        hasher.corrections(X, hasher.transform(X[:10]))
    with pytest.raises(ValueError, match="codes"):
        hasher.decode(np.zeros((3, 5), np.uint8))


@pytest.mark.parametrize("scale", [1e-30, 1e-19, 1e19, 1e25])
def test_rows_whose_squared_distances_are_no_single_precision_numbers_are_refused(scale):
    with pytest.raises(ValueError, match="X must spread by 1e-15 to 1e\\+15 around its mean, got"):
        ABH(8).fit(X * np.float32(scale))


@pytest.mark.parametrize("scale", [1e-15, 1e13])
def test_codes_do_not_depend_on_the_unit_of_the_data(scale):
    scale = 2.0 ** np.round(np.log2(scale))  # products with powers of two are exact
    hasher = ABH(8, random_state=0).fit(X * np.float32(scale))
    np.testing.assert_array_equal(hasher.transform(X * np.float32(scale)), fitted(8).transform(X))


@pytest.mark.parametrize("words", ["signed", "free"])
def test_the_largest_numbers_have_codes(words):
    largest = np.finfo(np.float32).max * np.where(np.random.default_rng(0).random((50, 64)) < 0.5, -1, 1)
    assert fitted(8, words=words).transform(largest.astype(np.float32)).shape == (50, 1)
