"""JPSH, and JSH and PSH within it: what the paper proves, and what a user relies on."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from hashlearn import JPSH, JSH, PSH, unpack
from hashlearn.hashers.jpsh import imbalance, pairwise_loss, pairwise_weights, row_penalty
from hashlearn.hashers.starts import chosen_start, data_local_dimension, effective_directions, signs
from hashlearn.linalg.anchors.graph import AnchorGraph, Spacing
from hashlearn.linalg.personalized import IdentityPenalty, PenaltyRule, anchor_similarity
from hashlearn.linalg.rotations import nearest_rotation
from hashlearn.rows import RowBlocks


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0][:600] / 16


def small(**changes):
    settings = {"n_anchors": 40, "max_iter": 3, "max_imbalance": None, "init": "random", "random_state": 0}
    return JPSH(8, **{**settings, **changes})


@pytest.mark.parametrize("rescale", [True, False])
def test_rotations_and_codes_never_raise_the_objective(digits, rescale):
    summary = small(rescale=rescale).summarize(digits)
    C, sums = summary.anchors_with_bias(), summary.sums["pairwise"].with_bias()
    S, rule = anchor_similarity(summary.anchors, 5), PenaltyRule(1.0, 1.0, 1e-5, 1e-3, True)
    R, V, Q, penalty = np.eye(8), np.eye(8), np.ones(len(sums.XDX)), IdentityPenalty(S)
    B = signs(summary.rng().standard_normal((8, len(C))))

    def objective(B, R, V, P, W):
        fit = ((B - R @ P.responses.T) ** 2).sum() + rule.value(P, S)
        return fit + pairwise_loss(sums, B, V @ W.T @ sums.XA, W, 10.0)

    for _ in range(5):
        P, W = penalty.solve(C, B.T @ R, 1e-5), pairwise_weights(sums, B.T @ V, 10.0 * Q)
        penalty, Q = rule.at(P, S), row_penalty(W, 1e-5)
        values = [objective(B, R, V, P, W)]
        R = nearest_rotation(B @ P.responses)
        values.append(objective(B, R, V, P, W))
        V = nearest_rotation(B @ (W.T @ sums.XA).T)
        values.append(objective(B, R, V, P, W))
        B = signs(R @ P.responses.T + V @ W.T @ sums.XA)
        values.append(objective(B, R, V, P, W))
        assert all(after <= before + 1e-9 * abs(before) for before, after in pairwise(values))


@pytest.mark.parametrize("bias", [True, False])
def test_objective_is_equation_7_written_out(digits, bias):
    hasher = small(
        bias=bias,
        rescale=False,
        solver={"keep_weights": True},
        lambda1=0.7,
        lambda2=0.3,
        lambda3=2.0,
        pairwise_weight=1.0,
    )
    hasher.fit(digits)
    C = hasher.anchors_
    sigma = Spacing.of(RowBlocks(digits), C, hasher.n_neighbors).mean[-1]
    A = AnchorGraph(hasher.n_neighbors, sigma).of(digits, C).toarray()
    S = anchor_similarity(C, hasher.n_anchor_neighbors).toarray()
    B, W, P = hasher.codes_per_round_[-1].astype(float), hasher.pairwise_weights_, hasher.personalized_weights_
    scores = digits @ hasher.projection_ + hasher.intercept_
    wanted = ((B.T - hasher.offsets_) ** 2).sum()
    wanted += (A * ((B.T[None] - scores[:, None]) ** 2).sum(axis=2)).sum()
    penalized = P[:, :-1] if bias else P
    wanted += 0.7 * (np.linalg.norm(penalized, axis=2).sum(axis=1) ** 2).sum()
    wanted += 0.3 * (S * np.linalg.norm((P[:, None] - P[None]).reshape(len(C), len(C), -1), axis=2)).sum()
    wanted += 2.0 * np.linalg.norm(W, axis=1).sum()
    assert hasher.objective_[-1] == pytest.approx(wanted, rel=1e-4)
    assert digits.shape[1] + bias == W.shape[0] == P.shape[1]


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


def test_jsh_has_no_offsets_and_psh_no_projection(digits):
    assert not hasattr(JSH(8, n_anchors=30, random_state=0).fit(digits), "offsets_")
    assert not hasattr(PSH(8, n_anchors=30, random_state=0).fit(digits), "projection_")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"lambda1": 5}, "lambda1"),
        ({"lambda2": 3, "solver": {"tol": 0.1}}, "lambda2, tol"),
        ({"max_imbalance": None}, "max_imbalance"),
        ({"solver": {"solver_tol": 1e-3}}, "solver_tol"),
    ],
)
def test_parameters_that_need_two_rounds_warn_in_one_and_change_nothing(digits, changes, named):
    plain = JPSH(8, n_anchors=40, random_state=0).fit_transform(digits)
    with pytest.warns(UserWarning, match=f"{named} change nothing in one round"):
        changed = JPSH(8, n_anchors=40, random_state=0, **changes).fit_transform(digits)
    np.testing.assert_array_equal(plain, changed)


def clusters_in_many_directions(n=1500, d=60, k=12):
    rng = np.random.default_rng(0)
    return rng.standard_normal((k, d))[rng.integers(0, k, n)] + rng.standard_normal((n, d))


def test_data_of_few_directions_get_one_round_from_a_spectral_start(digits):
    hasher, explicit = (
        JPSH(16, random_state=0, **start).fit(digits)
        for start in ({}, {"init": "spectral", "max_iter": 1, "soft_offsets": 2, "pairwise_weight": 0.1})
    )
    assert (hasher.init_, hasher.n_iter_, hasher.n_blended_) == ("spectral", 1, 2)
    np.testing.assert_array_equal(hasher.transform(digits), explicit.transform(digits))


def test_data_of_many_directions_get_rounds_from_itq_codes():
    X = clusters_in_many_directions()
    hasher, explicit = (
        JPSH(16, random_state=0, **start).fit(X)
        for start in ({}, {"init": "itq", "max_iter": 3, "soft_offsets": 2, "pairwise_weight": 4.0})
    )
    assert (hasher.init_, hasher.n_iter_, hasher.n_blended_) == ("itq", 3, 2)
    np.testing.assert_array_equal(hasher.transform(X), explicit.transform(X))


def test_the_choice_of_a_start_depends_neither_on_the_unit_nor_on_the_basis(digits):
    for X, wanted in ((digits, "spectral"), (clusters_in_many_directions(), "itq")):
        basis = np.linalg.qr(np.random.default_rng(1).standard_normal((X.shape[1], X.shape[1])))[0]
        for moved in (X, 1000 * X + 5, X @ basis):
            for rescale in (True, False):
                assert JPSH(8, rescale=rescale, random_state=0).fit(moved).init_ == wanted


def test_a_bent_surface_of_few_dimensions_gets_a_spectral_start():
    rng = np.random.default_rng(0)
    places, waves = rng.uniform(0, 1, (2000, 2)), rng.standard_normal((2, 100))
    X = np.cos(30 * places @ waves + rng.uniform(0, 6, 100))
    summary = JPSH(8, random_state=0).summarize(X)
    assert effective_directions(summary.sums["pairwise"]) > 50
    assert data_local_dimension(summary) < 5
    assert chosen_start(summary, 8) == "spectral"


def test_noise_around_a_few_directions_gets_a_spectral_start():
    rng = np.random.default_rng(0)
    X = (
        rng.standard_normal((2000, 200))
        + 10 * rng.standard_normal((2000, 5)) @ rng.standard_normal((5, 200)) / 200**0.5
    )
    summary = JPSH(8, random_state=0).summarize(X)
    assert effective_directions(summary.sums["pairwise"]) < data_local_dimension(summary)
    assert chosen_start(summary, 8) == "spectral"


def test_more_bits_than_features_do_not_change_the_start():
    X = clusters_in_many_directions()
    hasher = JPSH(90, random_state=0).fit(X)
    assert (hasher.init_, hasher.n_blended_) == ("itq", 2)
    assert len(np.unique(unpack(hasher.transform(X), 90).T, axis=0)) == 90  # no bit repeats another


def test_white_data_take_the_spectral_start_where_it_keeps_neighbors_together():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2000, 32))
    clusters = np.hstack([10 * rng.standard_normal((9, 8))[rng.integers(0, 9, 2000)], noise[:, :24]])
    clusters[:, :8] += 0.1 * noise[:, 24:]
    white = PCA(whiten=True, random_state=0).fit_transform(clusters)
    for X, wanted in ((white, "spectral"), (noise, "itq")):
        summary = JPSH(8, random_state=0).summarize(X)
        assert effective_directions(summary.sums["pairwise"]) > 0.9 * 32
        assert chosen_start(summary, 8) == wanted
    assert chosen_start(JPSH(32, random_state=0).summarize(white), 32) == "itq"  # ITQ takes all directions


def test_weighted_words_in_their_singular_directions_start_from_itq_codes():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(400, 0.05), 60)
    counts = [rng.multinomial(20, topics[rng.integers(0, 60, 2)].mean(axis=0)) for _ in range(2000)]
    words = TfidfTransformer(sublinear_tf=True).fit_transform(np.stack(counts))
    summary = JPSH(16, random_state=0).summarize(normalize(TruncatedSVD(50, random_state=0).fit_transform(words)))
    assert data_local_dimension(summary) < 2 * 50**0.5  # few, as of data that take the spectral start
    assert chosen_start(summary, 16) == "itq"


def test_what_is_set_wins_over_what_auto_stands_for(digits):
    hasher = JPSH(8, init="itq", max_iter=2, soft_offsets=3, max_imbalance=None, random_state=0).fit(digits)
    assert (hasher.init_, hasher.n_iter_, hasher.n_blended_) == ("itq", 2, 3)
    plain = JPSH(8, init="itq", pairwise_weight=1, random_state=0).fit(digits)
    heavy = JPSH(8, init="itq", random_state=0).fit(digits)
    np.testing.assert_allclose(heavy.projection_, 4 * plain.projection_)


def test_there_are_as_many_anchors_as_the_bits_need(digits):
    assert JPSH(n_bits=1024).n_anchors_for(100_000) == 1025
    assert JPSH(n_bits=64).n_anchors_for(100_000) == 800
    assert JPSH(n_bits=64).n_anchors_for(100) == 65


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
    assert len(small(max_iter=30, solver={"tol": 1e-2}).fit(digits).objective_) < 30
    assert len(small(max_iter=4).fit(digits).objective_) == 4


def test_weights_are_kept_only_on_request(digits):
    assert not hasattr(small().fit(digits), "personalized_weights_")
    assert small(solver={"keep_weights": True}).fit(digits).personalized_weights_.shape == (40, 65, 8)


def test_the_same_seed_gives_the_same_codes(digits):
    codes = [small(random_state=seed).fit_transform(digits) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert (codes[0] != codes[2]).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_anchors": 10_000}, "n_anchors=10000 .* n_samples=600"),
        ({"n_anchors": "many"}, "n_anchors must be one of 'auto'"),
        ({"init": "best"}, "init must be one of 'auto', 'random', 'itq', 'spectral'"),
        ({"init": np.ones((3, 3))}, r"init must have shape \(8, 40\), got \(3, 3\)"),
        ({"anchors": "grid"}, "anchors must be one of 'kmeans', 'random'"),
        ({"anchors": np.ones((5, 3))}, r"anchors must have shape \(any, 64\)"),
        ({"lambda1": -1}, "lambda1 must be at least 0, got -1"),
        ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"solver": {"solver_tol": 0}}, r"solver\['solver_tol'\] must be at least"),
        ({"solver": {"bias": False}}, "solver has no entry 'bias'; it has tol, epsilon"),
        ({"max_imbalance": 2}, "max_imbalance must be at most 1"),
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
