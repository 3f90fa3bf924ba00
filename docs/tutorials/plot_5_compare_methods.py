"""
Compare methods on your data
============================

Which method is best depends on the data. This tutorial measures all of them on yours, and draws the curves.
"""

# %%
# Data
# ----
# Vectors and labels; some of the rows are queries. If you have no labels, leave them out of ``evaluate`` and pass the
# vectors instead: then it measures how many true neighbors the codes find.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from hashlearn import METHODS, evaluate, evaluate_vectors

X, y = load_digits(return_X_y=True)
database, queries, labels, query_labels = X[:-200], X[-200:], y[:-200], y[-200:]

# %%
# All methods in ten lines
# ------------------------
# ``METHODS`` has every method by its name. RSSH takes much longer than the others and is left out.

n_bits, results = 32, {}
for name, Method in METHODS.items():
    if name == "rssh":
        continue
    hasher = Method(n_bits=n_bits, random_state=0)
    codes = hasher.fit_codes(database)
    results[Method.__name__] = evaluate(
        codes, hasher.transform(queries), n_bits, labels=labels, query_labels=query_labels
    )
results["float vectors"] = evaluate_vectors(database, queries, labels=labels, query_labels=query_labels)

for name, result in sorted(results.items(), key=lambda item: -item[1].mAP):
    print(f"{name:14} mAP {result.mAP:.3f}   precision@100 {result.precision_at_100:.3f}")

# %%
# The last row of the loop ranks by the float vectors: what you would have without codes. Methods that look at
# clusters can be better than that, because labels often follow clusters.
#
# Curves
# ------

best = sorted(results, key=lambda name: -results[name].mAP)[:6]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for name in best:
    result = results[name]
    left.plot(result.positions, result.precision_at, label=name)
    if result.radius_curve is not None:
        right.plot(result.radius_curve.recall, result.radius_curve.precision, label=name)
left.set(xlabel="first N results", ylabel="precision", title="precision among the first N")
right.set(xlabel="recall", ylabel="precision", title="precision and recall by radius")
left.legend(fontsize="small")

# %%
# Be fair
# -------
# - Equal distances: codes of 32 bits have 33 distances, so many items are equally far. ``ties="expected"``, the
#   default, takes the mean over all their orders. Papers often print ``ties="stable"``.
# - Randomness: repeat with several values of ``random_state``, and look at the spread.
# - Queries must not be in the training data.
#
# ``hashlearn experiment run`` does all of this for any number of datasets, methods, lengths and seeds, and goes on
# where it was interrupted. The next tutorial uses it.
