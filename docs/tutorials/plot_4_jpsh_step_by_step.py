r"""
JPSH step by step
=================

The equations of the JPSH paper beside the code that computes them, with the matrices drawn. The letters are those of
the paper;
:doc:`/explanation/methods/jpsh` explains them.
"""

# %%
# Data and anchors
# ----------------
# Handwritten digits, sorted by label so that the matrices below can be read. Labels are not used for learning.
# k-means finds the anchors. ``summarize`` goes over the data and leaves all that the algorithm needs of them:
# anchors, distances and sums.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from hashlearn import JPSH
from hashlearn.hashers.jpsh import pairwise_weights, row_penalty
from hashlearn.hashers.starts import signs, starting_codes
from hashlearn.linalg.personalized import IdentityPenalty, PenaltyRule, anchor_similarity
from hashlearn.linalg.rotations import nearest_rotation

X, y = load_digits(return_X_y=True)
order = np.argsort(y, kind="stable")
X, y = X[order], y[order]

n_bits, n_rounds = 16, 4
jpsh = JPSH(n_bits, n_anchors=40, init="random", max_iter=n_rounds, max_imbalance=None, random_state=0)
summary = jpsh.summarize(X)

figure, axes = plt.subplots(2, 10, figsize=(8, 1.8), layout="constrained")
for axis, anchor in zip(axes.flat, summary.anchors_of_data):
    axis.imshow(anchor.reshape(8, 8), cmap="gray_r")
    axis.set(xticks=[], yticks=[])
figure.suptitle("the first 20 anchors")

# %%
# The two graphs: eqs. 2 and 6
# ----------------------------
# :math:`A` ties every sample to its 7 nearest anchors, :math:`S` every anchor to its 5 nearest anchors. Anchors are
# drawn in the order of the label that most of their samples have.

rows = summary.rows.take(np.arange(len(X)))
A = summary.spacing.graph(jpsh.n_neighbors, normalize=False).of(rows, summary.anchors).toarray()  # eq. 2
S = anchor_similarity(summary.anchors, jpsh.n_anchor_neighbors)  # eq. 6

votes = np.stack([A[y == digit].sum(axis=0) for digit in range(10)])
by_digit = np.argsort(votes.argmax(axis=0), kind="stable")
figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
axes[0].imshow(A[:, by_digit], aspect="auto", cmap="Blues", interpolation="nearest")
axes[0].set(title="A, samples to anchors", xlabel="anchor", ylabel="sample, sorted by label")
axes[1].imshow(S.toarray()[by_digit][:, by_digit], cmap="Blues", interpolation="nearest")
axes[1].set(title="S, anchors to anchors", xlabel="anchor", ylabel="anchor")

# %%
# Algorithm 1
# -----------
# The loop of the paper. ``C`` are the anchors with a one at their end (the bias), ``sums`` holds :math:`X D X^\top`
# and :math:`X A`. The personalized weights :math:`P` have one matrix for each anchor; ``P.responses`` is
# :math:`Y^\top P`, all that the other steps need.

C = summary.anchors_with_bias()
sums = summary.sums["pairwise"].with_bias()
solver = jpsh.solver_defaults
rule = PenaltyRule(jpsh.lambda1, jpsh.lambda2, solver.epsilon, solver.graph_ridge, bias=True)

B = starting_codes("random", summary, n_bits)
R, V = np.eye(n_bits), np.eye(n_bits)
penalty, Q = IdentityPenalty(S), np.ones(len(sums.XDX))
codes = [B]
for _ in range(n_rounds):
    P = penalty.solve(C, B.T @ R, tol=1e-5)  # eq. 14
    W = pairwise_weights(sums, B.T @ V, jpsh.lambda3 * Q)  # eq. 16
    Q = row_penalty(W, solver.epsilon)  # eq. 17
    R = nearest_rotation(B @ P.responses)  # eq. 19
    V = nearest_rotation(B @ (W.T @ sums.XA).T)  # eq. 21
    B = signs(R @ P.responses.T + V @ (W.T @ sums.XA))  # eq. 23
    penalty = rule.at(P, S)  # eqs. 11 and 13
    codes.append(B)

# %%
# The codes of the anchors after each round: 16 bits from top to bottom, anchors from left to right. From round to
# round the bits become more alike.

figure, axes = plt.subplots(1, n_rounds + 1, figsize=(9, 2), sharey=True, layout="constrained")
for number, (axis, each) in enumerate(zip(axes, codes)):
    axis.imshow(each[:, by_digit], cmap="gray", aspect="auto", interpolation="nearest")
    axis.set(title=f"round {number}" if number else "start", xticks=[])
axes[0].set_ylabel("bit")

# %%
# ``fit_summary`` is the same loop; it gives the same codes.

jpsh.fit_summary(summary)
np.testing.assert_array_equal(jpsh.codes_per_round_[-1], B)

# %%
# What the weights look like
# --------------------------
# Each column of the projection :math:`W` is one bit, drawn as an image of 8 x 8 pixels (without the bias row).

figure, axes = plt.subplots(2, 8, figsize=(8, 2.2), layout="constrained")
limit = np.abs(W[:-1]).max()
for axis, weights in zip(axes.flat, W[:-1].T):
    axis.imshow(weights.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
    axis.set(xticks=[], yticks=[])
figure.suptitle("W, one image for each bit")

# %%
# From anchors to samples
# -----------------------
# A sample gets the projection of its own pixels plus the offset of its nearest anchor, and the bits where the sum is
# above zero: :math:`V W^\top x + R P_j^\top c_j > 0`. (By default hashlearn takes a mean of the two nearest anchors'
# offsets, and a tenth of the projection.)

paper = JPSH(
    n_bits,
    n_anchors=40,
    init="random",
    max_iter=n_rounds,
    max_imbalance=None,
    soft_offsets=1,
    pairwise_weight=1,
    random_state=0,
).fit(X)
x = np.hstack([rows, np.ones((len(rows), 1))])
nearest = np.argmin(((rows[:, None] - summary.anchors[None]) ** 2).sum(axis=2), axis=1)
scores = x @ W @ V.T + (R @ P.responses.T).T[nearest]
np.testing.assert_allclose(paper.decision_function(X), scores, atol=1e-3)

figure, axis = plt.subplots(figsize=(8, 2.5), layout="constrained")
axis.imshow(scores.T > 0, aspect="auto", cmap="gray", interpolation="nearest")
axis.set(title="codes of all samples, sorted by label", xlabel="sample", ylabel="bit")
