"""JPSH, and JSH and PSH within it: what the paper proves, and what a user relies on."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from hashlearn import JPSH, JSH, PSH, unpack
from hashlearn.hashers.anchored import imbalance
from hashlearn.linalg.anchor_sums import with_bias
from hashlearn.linalg.anchors import AnchorGraph, Spacing
from hashlearn.linalg.graphs import anchor_similarity
from hashlearn.rows import RowBlocks


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0][:600] / 16


def small(**changes):
    settings = {"n_anchors": 40, "max_iter": 3, "max_imbalance": None, "init": "random", "random_state": 0}
    return JPSH(8, **{**settings, **changes})


def terms_of(hasher, X):
    rng = hasher._rng()
    view = hasher._look(X, rng)
    B = np.where(rng.standard_normal((hasher.n_bits, len(view.anchors))) > 0, 1.0, -1.0)
    return hasher._terms(view), B


@pytest.mark.parametrize("rescale", [True, False])
def test_rotations_and_codes_never_raise_the_objective(digits, rescale):
    terms, B = terms_of(small(rescale=rescale), digits)
    for _ in range(5):
        for term in terms:
            term.solve(B)
        for term in terms:
            before = term.loss(B)
            term.rotate(B)
            assert term.loss(B) <= before + 1e-9 * abs(before)
        before = sum(term.loss(B) for term in terms)
        B = np.where(sum(term.target() for term in terms) > 0, 1.0, -1.0)
        after = sum(term.loss(B) for term in terms)
        assert after <= before + 1e-9 * abs(before)


@pytest.mark.parametrize("bias", [True, False])
def test_objective_is_equation_7_written_out(digits, bias):
    hasher = small(
        bias=bias, rescale=False, keep_weights=True, lambda1=0.7, lambda2=0.3, lambda3=2.0, pairwise_weight=1.0
    )
    hasher.fit(digits)
    C = hasher.anchors_
    X, anchors = (with_bias(digits), with_bias(C)) if bias else (digits, C)
    sigma = Spacing.of(RowBlocks(digits), C, hasher.n_neighbors).mean[-1]
    A = AnchorGraph(hasher.n_neighbors, sigma).of(digits, C).toarray()
    S = anchor_similarity(C, hasher.n_anchor_neighbors).toarray()
    B, W, P = hasher.codes_per_round_[-1].astype(float), hasher.pairwise_weights_, hasher.personalized_weights_
    scores = digits @ hasher.projection_ + hasher.intercept_
    wanted = ((B.T - hasher.offsets_) ** 2).sum()
    wanted += (A * ((B.T[None] - scores[:, None]) ** 2).sum(axis=2)).sum()
    wanted += 0.7 * (np.linalg.norm(P, axis=2).sum(axis=1) ** 2).sum()
    wanted += 0.3 * (S * np.linalg.norm((P[:, None] - P[None]).reshape(len(C), len(C), -1), axis=2)).sum()
    wanted += 2.0 * np.linalg.norm(W, axis=1).sum()
    assert hasher.objective_[-1] == pytest.approx(wanted, rel=1e-4)
    assert X.shape[1] == W.shape[0] == P.shape[1] == anchors.shape[1]


@pytest.mark.parametrize("method", [JPSH, JSH, PSH])
def test_the_unit_and_the_origin_of_the_features_do_not_matter(digits, method):
    make = lambda: method(16, random_state=0)  # noqa: E731
    codes = make().fit_transform(digits)
    moved = digits * 1000 + np.linspace(-500, 500, digits.shape[1])
    np.testing.assert_array_equal(make().fit_transform(moved), codes)


def test_without_rescaling_the_unit_matters(digits):
    codes = [small(rescale=False).fit_transform(digits * unit) for unit in (1, 1000)]
    assert (codes[0] != codes[1]).any()


def test_the_papers_settings_are_the_papers():
    mnist, flickr = JPSH.paper("mnist", n_bits=16), JPSH.paper("flickr25k", lambda3=5)
    assert (mnist.n_bits, mnist.n_anchors, mnist.n_neighbors, mnist.max_iter, mnist.init) == (
        16,
        800,
        7,
        10,
        "random",
    )
    assert (mnist.rescale, mnist.soft_offsets, mnist.pairwise_weight, mnist.max_imbalance) == (False, 1, 1.0, None)
    assert (flickr.n_anchors, flickr.lambda1, flickr.lambda3, flickr.n_anchor_neighbors) == (500, 10, 5, 7)
    with pytest.raises(ValueError, match=r"dataset must be one of 'mnist', .* got 'imagenet'"):
        JPSH.paper("imagenet")


def test_random_anchors_are_rows_of_the_data(digits):
    anchors = small(anchors="random").fit(digits).anchors_
    gaps = np.abs(anchors[:, None] - digits[None]).max(axis=2).min(axis=1)
    np.testing.assert_allclose(gaps, 0, atol=1e-12)


def test_psh_gives_a_cluster_one_code(digits):
    hasher = PSH(16, n_anchors=20, random_state=0).fit(digits)
    nearest = ((digits[:, None] - hasher.anchors_) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(unpack(hasher.transform(digits), 16), hasher.offsets_[nearest] > 0)


def test_jsh_is_jpsh_without_offsets(digits):
    assert JSH(8, n_anchors=30, random_state=0).fit(digits).offsets_ is None
    assert PSH(8, n_anchors=30, random_state=0).fit(digits).projection_ is None


def test_rounds_end_before_the_bits_lose_their_balance(digits):
    free = small(init="itq", max_iter=8).fit(digits)
    shares = np.bincount(((digits[:, None] - free.anchors_) ** 2).sum(axis=2).argmin(axis=1), minlength=40) / len(
        digits
    )
    drift = [imbalance(B.astype(float), shares) for B in free.codes_per_round_]
    limit = (drift[2] + max(drift[3:])) / 2
    kept = small(init="itq", max_iter=8, max_imbalance=limit).fit(digits)
    n_kept = len(kept.codes_per_round_)
    assert 1 <= n_kept < 8
    np.testing.assert_array_equal(kept.codes_per_round_, free.codes_per_round_[:n_kept])
    assert imbalance(kept.codes_per_round_[-1].astype(float), shares) <= limit


def test_a_tolerance_ends_the_rounds_early(digits):
    assert len(small(max_iter=30, tol=1e-2).fit(digits).objective_) < 30
    assert len(small(max_iter=4).fit(digits).objective_) == 4


def test_weights_are_kept_only_on_request(digits):
    assert not hasattr(small().fit(digits), "personalized_weights_")
    assert small(keep_weights=True).fit(digits).personalized_weights_.shape == (40, 65, 8)


def test_the_same_seed_gives_the_same_codes(digits):
    codes = [small(random_state=seed).fit_transform(digits) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert (codes[0] != codes[2]).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_anchors": 10_000}, "n_anchors=10000 .* n_samples=600"),
        ({"n_anchors": "many"}, "n_anchors must be one of 'auto'"),
        ({"init": "best"}, "init must be one of 'random', 'itq', 'spectral'"),
        ({"init": np.ones((3, 3))}, r"init must have shape \(8, 40\), got \(3, 3\)"),
        ({"anchors": "grid"}, "anchors must be one of 'kmeans', 'random'"),
        ({"anchors": np.ones((5, 3))}, r"anchors must have shape \(any, 64\)"),
        ({"lambda1": -1}, "lambda1 must be at least 0, got -1"),
        ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"solver_tol": 0}, "solver_tol must be at least"),
        ({"max_imbalance": 2}, "max_imbalance must be at most 1"),
        ({"n_bits": 100, "init": "itq"}, "n_bits=100 .* n_features=64"),
    ],
)
def test_a_wrong_parameter_is_named(digits, changes, message):
    with pytest.raises(ValueError, match=message):
        small().set_params(**changes).fit(digits)


@pytest.mark.parametrize("penalties", [{"lambda1": 0, "lambda2": 0}, {"lambda3": 0}, {"lambda2": 0}])
def test_penalties_may_be_zero(digits, penalties):
    hasher = small(**penalties).fit(digits)
    assert np.isfinite(hasher.offsets_).all()
    assert np.isfinite(hasher.projection_).all()


def test_more_bits_than_anchors_or_features_work(digits):
    assert JPSH(100, n_anchors=30, random_state=0).fit_transform(digits).shape == (600, 13)
