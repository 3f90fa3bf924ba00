"""The training that JPSH, JSH and PSH share: one objective (eq. 7), with both of its terms or one of them."""

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_integer, check_matrix, check_number
from hashlearn.hashers.anchored import AnchoredHasher, alternate
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.terms import PairwiseTerm, PersonalizedTerm
from hashlearn.hashers.view import AnchorView, Needs
from hashlearn.linalg.anchor_sums import with_bias
from hashlearn.linalg.graphs import anchor_similarity
from hashlearn.linalg.spectral import spectral_offsets

SPECTRAL_NEIGHBORS = 2
SPECTRAL_ROUNDS = 30


class AlternatingHasher(AnchoredHasher):
    """Alternate over the terms of eq. 7. A subclass says which terms it has and exposes what a user may set.

    The attributes below are the paper's constants; a constructor parameter of the same name takes their place.
    """

    _has_pairwise = True
    _has_personalized = True
    _not_saved = ("pairwise_weights_", "personalized_weights_", "codes_per_round_")

    n_neighbors: int = 7
    n_anchor_neighbors: int = 5
    lambda1: float = 1.0
    lambda2: float = 1.0
    lambda3: float = 10.0
    max_iter: int | str = 10
    tol: float | None = None
    max_imbalance: float | None = None
    epsilon: float = 1e-5
    graph_ridge: float = 1e-3
    bias: bool = True
    normalize_graph: bool = False
    rescale: bool = True
    init: str | NDArray = "random"
    soft_offsets: int = 1
    pairwise_weight: float = 1.0
    solver_tol: float = 1e-5
    keep_weights: bool = False

    codes_per_round_: NDArray[np.int8]
    objective_: list[float]
    pairwise_weights_: NDArray[np.float64]
    personalized_weights_: NDArray[np.float64]

    def _needs(self):
        return Needs(
            blend=self.soft_offsets if self._has_personalized else None,
            regression=self.n_neighbors if self._has_pairwise else None,
            gram=SPECTRAL_NEIGHBORS if isinstance(self.init, str) and self.init == "spectral" else None,
            normalize=self.normalize_graph,
            bias=self.bias,
            rescale=self.rescale,
        )

    def _learn(self, view, rng):
        learned = alternate(
            self._terms(view),
            self._starting_codes(view, rng),
            self._rounds(self._max_iter()),
            tol=self.tol,
            shares=view.spacing.shares,
            max_imbalance=self.max_imbalance,
        )
        self.mean_, self.anchors_ = view.mean, view.anchors_of_data
        self.objective_, self.codes_per_round_ = learned.objective, learned.codes_per_round
        self.n_iter_ = len(learned.objective)
        parts, d = learned.parts, view.rows.shape[1]
        if self._has_pairwise:
            projection = self.pairwise_weight * parts["projection"]
            self.projection_ = projection[:d] / view.scale
            self.intercept_ = projection[d] if self.bias else np.zeros(self.n_bits)
            self.pairwise_weights_ = parts["pairwise_weights"]
        if self._has_personalized:
            self.offsets_ = parts["offsets"]
            self.n_blended_ = min(self.soft_offsets, len(view.anchors))
            self.sigma_ = view.scale * float(view.spacing.mean[self.n_blended_ - 1])
            if self.keep_weights:
                self.personalized_weights_ = parts["personalized_weights"]
        return self

    def _terms(self, view: AnchorView) -> list:
        terms: list = []
        if view.sums.regression is not None:
            terms.append(PairwiseTerm(view.sums.regression, self.n_bits, self.lambda3, self.epsilon))
        if self._has_personalized:
            C = view.anchors.astype(np.float64)
            terms.append(
                PersonalizedTerm(
                    with_bias(C) if self.bias else C,
                    anchor_similarity(C, self.n_anchor_neighbors),
                    self.n_bits,
                    sparsity=self.lambda1,
                    smoothness=self.lambda2,
                    epsilon=self.epsilon,
                    ridge=self.graph_ridge,
                    bias=self.bias,
                    tol=self.solver_tol,
                    keep=self.keep_weights,
                )
            )
        return terms

    def _starting_codes(self, view: AnchorView, rng: np.random.RandomState) -> NDArray:
        """B of round zero, shape (n_bits, m), as ``init`` says."""
        m = len(view.anchors)
        if not isinstance(self.init, str):
            return np.where(check_matrix("init", self.init, (self.n_bits, m)) > 0, 1.0, -1.0)
        if self.init == "random":
            scores = rng.standard_normal((self.n_bits, m)).T
        elif self.init == "itq":
            itq = ITQ(self.n_bits, random_state=rng).fit(view.rows.shifted(None))
            scores = itq.decision_function(view.anchors_of_data)
        else:
            assert view.sums.gram is not None
            rounds = range(SPECTRAL_ROUNDS)
            scores = spectral_offsets(view.sums.gram, view.sample, view.anchors, self.n_bits, rounds, rng)
        return np.where(scores.T > 0, 1.0, -1.0)

    def _max_iter(self) -> int:
        if self.max_iter == "auto":
            return 1 if isinstance(self.init, str) and self.init == "spectral" else 4
        return check_integer("max_iter", self.max_iter, low=1)

    def _check_parameters(self) -> None:
        self._max_iter()
        for name in ("n_neighbors", "n_anchor_neighbors", "soft_offsets"):
            check_integer(name, getattr(self, name), low=1)
        for name in ("lambda1", "lambda2", "lambda3", "epsilon", "graph_ridge", "pairwise_weight"):
            check_number(name, getattr(self, name), low=0)
        check_number("solver_tol", self.solver_tol, low=1e-14, high=0.1)
        if self.tol is not None:
            check_number("tol", self.tol, low=0)
        if self.max_imbalance is not None:
            check_number("max_imbalance", self.max_imbalance, low=0, high=1)
        if isinstance(self.init, str):
            check_choice("init", self.init, ("random", "itq", "spectral"))
