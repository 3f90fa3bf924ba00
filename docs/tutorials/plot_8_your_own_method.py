"""
Write your own method
=====================

A method is a class with a ``fit``. This tutorial writes one, measures it beside the published methods, and enters it
into the registry of methods.
"""

# %%
# The idea
# --------
# Project the data onto their principal components, and cut each at its *median* instead of its mean: every bit is
# then one for half of the data.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from hashlearn import ITQ, LSH, METHODS, Hasher, evaluate, unpack
from hashlearn.hashers.base import all_or_nothing
from hashlearn.linalg.moments import Moments
from hashlearn.linalg.projections import principal_directions, projected

# %%
# The class
# ---------
# - ``__init__`` only assigns its arguments: this is scikit-learn's rule.
# - ``fit`` opens the data with ``_rows_to_fit`` (which also checks them) and sets attributes that end in ``_``.
# - ``@all_or_nothing`` leaves the hasher as it was if ``fit`` fails or is interrupted.
# - ``_scores`` gives one score for each bit of a block of rows. A bit is one where its score is above zero.
#
# ``Moments.of`` goes over the data in blocks, so the data may be a file that does not fit into memory.


class MedianPCA(Hasher):
    """Codes from principal components, cut at their medians."""

    def __init__(self, n_bits=64, random_state=None):
        self.n_bits = n_bits
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        rows = self._rows_to_fit(X)
        moments = Moments.of(rows)
        self.mean_ = moments.mean
        self.projection_ = principal_directions(moments, self.n_bits)
        self.medians_ = np.median(projected(rows.shifted(self.mean_), self.projection_), axis=0)
        return self

    def _scores(self, block):
        return (block - self.mean_) @ self.projection_ - self.medians_


# %%
# It can do what every hasher can
# -------------------------------
# Reading files, encoding block by block, packing, pipelines: all of that comes from ``Hasher``.

X, y = load_digits(return_X_y=True)
database, queries, labels, query_labels = X[:-200], X[-200:], y[:-200], y[-200:]
hasher = MedianPCA(n_bits=16).fit(database)
print(hasher.transform(queries).shape, hasher.decision_function(queries).shape)

shares = unpack(hasher.transform(database), 16).mean(axis=0)
np.testing.assert_allclose(shares, 0.5, atol=0.1)

# %%
# Beside the others
# -----------------

lengths = (8, 16, 32)
figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
for Method in (LSH, ITQ, MedianPCA):
    scores = []
    for n_bits in lengths:
        each = Method(n_bits=n_bits, random_state=0).fit(database)
        judged = evaluate(
            each.transform(database), each.transform(queries), n_bits, labels=labels, query_labels=query_labels
        )
        scores.append(judged.mAP)
    axis.plot(lengths, scores, marker="o", label=Method.__name__)
axis.set(xlabel="bits", ylabel="mAP", xticks=lengths)
axis.legend()

# %%
# In the registry
# ---------------
# In this process, a method in ``METHODS`` is known to everything that takes the name of a method: saving and loading,
# experiments, the demo. The command line is another process and does not know it.

METHODS["median-pca"] = MedianPCA
print(METHODS)
del METHODS["median-pca"]

# %%
# To make it part of hashlearn, and of the command line, put the class into a file of ``hashlearn/hashers``, add one
# line to the registry, and write its page and its test: :doc:`/contributing` says how. The contract tests then run on
# it, scikit-learn's own checks among them.
