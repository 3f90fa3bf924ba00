"""What holds for every method of the registry: scikit-learn's rules, and ours about codes and input."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from hashlearn import METHODS, SimilaritySearch, load, pack, unpack
from hashlearn.rows import blocks

SMALL = {
    # Over the twenty anchors of so little data a smoothness of one makes all of them agree: a single code.
    "psh": {"lambda2": 0.1},
    # Five of the twenty anchors tie nearly all rows together: with some seeds all of them get a single code.
    "jsh": {"n_neighbors": 2, "lambda3": 1.0},
    "och": {"max_iter": 60},
}
"""Parameters, by name of a method, that make it fit for a few dozen rows of a few features."""

AT_MOST_N_FEATURES = {"itq", "knnh"}
"""Methods that have no more bits than the data have directions."""

NEEDS_DIFFERENT_ROWS = {"agh"}
"""Methods that find no hash function where all rows are alike."""

X = load_digits().data[:200, 18:38].astype(np.uint8)
VARIANTS = [("agh", {"n_bits": 2, "n_layers": 2}), ("abh", {"n_bits": 4, "words": "levels"})]

every_method = pytest.mark.parametrize("name", METHODS)


def make(name, n_bits=8, **params):
    return METHODS[name](**{"n_bits": n_bits, "random_state": 0, **SMALL.get(name, {}), **params})


def bits(hasher, rows):
    return unpack(hasher.transform(rows), hasher.n_bits)


@parametrize_with_checks(
    [make(name, n_bits=2, random_state=None) for name in METHODS]
    + [make(name, random_state=None, **params) for name, params in VARIANTS]
)
def test_scikit_learn_rules(estimator, check):
    check(estimator)


@every_method
def test_the_same_seed_gives_the_same_codes(name):
    codes = make(name).fit_transform(X)
    np.testing.assert_array_equal(make(name).fit_transform(X), codes)
    np.testing.assert_array_equal(clone(make(name).fit(X[:100])).fit(X).transform(X), codes)


@every_method
@pytest.mark.parametrize("n_bits", [1, 8, 12])
def test_a_bit_is_a_score_above_zero(name, n_bits):
    hasher = make(name, n_bits=n_bits).fit(X)
    scores = hasher.decision_function(X)
    assert scores.shape == (len(X), n_bits)
    assert scores.dtype == np.float32
    codes = hasher.transform(X)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, pack(scores > 0))


@every_method
def test_bits_differ_from_row_to_row_and_from_each_other(name):
    found = bits(make(name, n_bits=8).fit(X), X)
    assert len(np.unique(found, axis=0)) > 8
    assert len(np.unique(found, axis=1).T) > 4


@every_method
def test_it_works_in_a_pipeline_and_under_grid_search(name):
    def balance(estimator, rows, y=None):
        return -np.abs(bits(estimator, rows).mean(axis=0) - 0.5).mean()

    search = GridSearchCV(make(name), {"n_bits": [3, 5]}, scoring=balance, cv=2, error_score="raise").fit(X)
    assert search.best_params_["n_bits"] in (3, 5)
    codes = make_pipeline(StandardScaler(), make(name)).fit_transform(X.astype(float))
    assert codes.shape == (len(X), 1)


def as_frame(rows):
    return pd.DataFrame(rows, columns=[f"pixel{i}" for i in range(rows.shape[1])])


@every_method
@pytest.mark.parametrize(
    "convert",
    [
        *(np.dtype(name).type for name in ("float64", "float32", "float16", "int64", "int8")),
        scipy.sparse.csr_array,
        scipy.sparse.csc_matrix,
        as_frame,
        np.ndarray.tolist,
        np.asfortranarray,
    ],
    ids=lambda convert: convert.__name__,
)
def test_the_type_of_the_input_does_not_matter(name, convert):
    given = convert(X)
    assert make(name).fit(given).transform(given).shape == (len(X), 1)
    hasher = make(name).fit(X)
    encoded = bits(hasher, given.to_numpy() if convert is as_frame else given)
    # In another precision a bit may differ where a score is next to zero.
    assert np.mean(encoded == bits(hasher, X)) > 0.999


@every_method
def test_booleans_are_zeros_and_ones(name):
    rows = X > 8
    hasher = make(name).fit(rows)
    np.testing.assert_array_equal(hasher.transform(rows), make(name).fit(rows.astype(np.uint8)).transform(rows))


@every_method
def test_rows_are_encoded_one_by_one(name, monkeypatch):
    hasher = make(name).fit(X)
    whole = bits(hasher, X)
    monkeypatch.setattr(blocks, "MAX_BLOCK_ROWS", 64)
    assert np.mean(bits(hasher, X) == whole) > 0.999
    assert np.mean(np.vstack([bits(hasher, row[None]) for row in X[:20]]) == whole[:20]) > 0.99


@every_method
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(name, bad):
    rows = X.astype(float)
    rows[3, 4] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        make(name).fit(rows)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        make(name).fit(X).transform(rows)


@every_method
def test_one_row_is_too_few_to_learn_from(name):
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        make(name).fit(X[:1])


@every_method
def test_the_number_of_features_stays(name):
    hasher = make(name).fit(X)
    with pytest.raises(ValueError, match=r"X has 19 features.*expecting 20"):
        hasher.transform(X[:, :19])


@every_method
@pytest.mark.parametrize("n_bits", [0, -8, 2.5, "8", None, True])
def test_n_bits_is_a_positive_whole_number(name, n_bits):
    with pytest.raises((TypeError, ValueError), match="n_bits"):
        make(name, n_bits=n_bits).fit(X)


@every_method
def test_more_bits_than_features_work_or_are_refused_by_name(name):
    if name in AT_MOST_N_FEATURES:
        with pytest.raises(ValueError, match=r"n_bits=24.*n_features=20"):
            make(name, n_bits=24).fit(X)
    else:
        assert len(np.unique(bits(make(name, n_bits=24).fit(X), X), axis=0)) > 8


@every_method
def test_constant_features_do_not_matter_much(name):
    rows = np.hstack([X, np.full((len(X), 2), 7, np.uint8)])
    hasher = make(name).fit(rows)
    assert np.isfinite(hasher.decision_function(rows)).all()
    assert np.ptp(bits(hasher, rows), axis=0).sum() > 4


@every_method
def test_duplicate_rows_get_equal_codes(name):
    rows = np.repeat(X[:50], 4, axis=0)
    hasher = make(name, n_bits=4).fit(rows)
    assert np.isfinite(hasher.decision_function(rows)).all()
    codes = hasher.transform(rows).reshape(50, 4, -1)
    np.testing.assert_array_equal(codes, np.broadcast_to(codes[:, :1], codes.shape))


@every_method
def test_rows_that_are_all_alike_give_one_code_or_an_error(name):
    rows = np.full((30, 5), 3.0)
    if name in NEEDS_DIFFERENT_ROWS:
        with pytest.raises(ValueError, match="n_bits=2"):
            make(name, n_bits=2).fit(rows)
    else:
        assert len(np.unique(make(name, n_bits=2).fit_transform(rows), axis=0)) == 1


@every_method
def test_the_data_are_left_as_they_are(name):
    rows = X.astype(np.float64)
    before = rows.copy()
    make(name).fit(rows).transform(rows)
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("name", METHODS)
def test_codes_do_not_depend_on_the_number_of_threads(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 40)).astype(np.float32) + 3 * rng.integers(0, 2, (9000, 1))
    parameters = METHODS[name]().get_params()
    fewer = {"n_anchors": 60, "kmeans_max_iter": 3, "rank": 10, "max_iter": 3, "factor_max_iter": 5, "n_bases": 100}
    settings = {key: value for key, value in fewer.items() if key in parameters}
    codes = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            codes.append(METHODS[name](n_bits=16, random_state=0).set_params(**settings).fit_transform(X))
    np.testing.assert_array_equal(codes[0], codes[1])


@every_method
def test_a_learned_array_that_is_changed_in_place_changes_the_codes_as_in_a_saved_copy(name, tmp_path):
    rows = X.astype(np.float32)
    hasher = make(name).fit(rows)
    before = hasher.transform(rows), hasher.transform(rows[:3])
    for learned, value in vars(hasher).items():
        if learned.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            value *= -1.5
    hasher.save(tmp_path / "model")
    saved = load(tmp_path / "model")
    for some, old in zip((rows, rows[:3]), before):
        np.testing.assert_array_equal(hasher.transform(some), saved.transform(some))
        assert (hasher.transform(some) != old).any()


@every_method
def test_a_fit_that_is_interrupted_leaves_the_hasher_as_it_was(name):
    def interrupted():
        yield X[:150].astype(np.float32)
        raise KeyboardInterrupt

    hasher = make(name).fit(X)
    learned, codes = dict(vars(hasher)), hasher.transform(X)
    with pytest.raises(KeyboardInterrupt):
        hasher.fit(interrupted)
    assert vars(hasher) == learned
    np.testing.assert_array_equal(hasher.transform(X), codes)


def test_the_hasher_of_a_search_cannot_be_changed_in_place():
    rows = X.astype(np.float32)
    hasher = make("itq").fit(rows)
    SimilaritySearch(hasher).add(rows)
    with pytest.raises(ValueError, match="read-only"):
        hasher.projection_ *= -1
