"""
Search by meaning and by neighborhood
=====================================

Codes can do two jobs, and no method is best at both:

- **by meaning**: things of the same kind should have near codes;
- **by neighborhood**: the nearest vectors should have the nearest codes.

This tutorial shows the difference, and how to choose.
"""

# %%
# Data
# ----
# 1,797 images of handwritten digits, 64 pixels each. The last 200 are queries, the others are the database. With your
# own data, ``X`` is an array of vectors and ``y`` says of which kind each is.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from hashlearn import ITQ, SAH, HammingIndex, HasherUnion, evaluate

X, y = load_digits(return_X_y=True)
database, queries = X[:-200], X[-200:]
labels, query_labels = y[:-200], y[-200:]

# %%
# Two methods and their union
# ---------------------------
# SAH looks at clusters: it gives codes by meaning. ITQ keeps the shape of the data: it gives codes by neighborhood. A
# union takes half of the bits from each.

n_bits = 64
hashers = {
    "SAH": SAH(n_bits, random_state=0),
    "ITQ": ITQ(n_bits, random_state=0),
    "union": HasherUnion([SAH(n_bits // 2, random_state=0), ITQ(n_bits // 2, random_state=0)]),
}

# %%
# Two measures
# ------------
# ``evaluate`` measures both jobs. With labels it computes the mean average precision (mAP); with the vectors it
# computes recall@10, the share of the ten nearest vectors that are among the ten nearest codes.

by_meaning, by_neighborhood = {}, {}
for name, hasher in hashers.items():
    codes = hasher.fit(database).transform(database)
    result = evaluate(
        codes,
        hasher.transform(queries),
        n_bits,
        labels=labels,
        query_labels=query_labels,
        vectors=database,
        query_vectors=queries,
    )
    by_meaning[name] = result.mAP
    by_neighborhood[name] = result.to_dict()["neighbor_recall"]
    print(f"{name:6} mAP {by_meaning[name]:.3f}   recall@10 {by_neighborhood[name]:.3f}")

# %%
# SAH is best by meaning, ITQ by neighborhood.

figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for axis, values, title in zip(axes, (by_meaning, by_neighborhood), ("by meaning: mAP", "by neighborhood: recall@10")):
    axis.bar(list(values), list(values.values()), color=["#4c72b0", "#dd8452", "#55a868"])
    axis.set(title=title, ylim=(0, 1))

# %%
# What the difference looks like
# ------------------------------
# The ten nearest codes of one query. In red: digits of another kind.

query = int(np.argmax(query_labels == 8))
figure, axes = plt.subplots(2, 11, figsize=(9, 2.2), layout="constrained")
for row, name in zip(axes, ("SAH", "ITQ")):
    index = HammingIndex(n_bits).add(hashers[name].transform(database))
    _, ids = index.search(hashers[name].transform(queries[query : query + 1]), k=10)
    images = [queries[query], *database[ids[0]]]
    for axis, image, is_same in zip(row, images, [True, *(labels[ids[0]] == query_labels[query])]):
        axis.imshow(image.reshape(8, 8), cmap="gray_r" if is_same else "Reds")
        axis.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
    row[0].set_title("query")

# %%
# Which one to take
# -----------------
# - You look for things of the same kind, and the kinds form clusters: SAH or JPSH.
# - You look for the nearest vectors: ABH or ITQ, and rerank the candidates by the vectors, as below. ABH needs real
#   queries (the first tutorial uses it); ITQ compares codes with codes.
# - Some of both: the union, from 64 bits on.
#
# Reranking finds the true neighbors almost always: take 100 candidates by their codes, and sort them by the vectors.

index = HammingIndex(n_bits).add(hashers["ITQ"].transform(database))
_, candidates = index.search(hashers["ITQ"].transform(queries), k=100)
distances = np.linalg.norm(database[candidates] - queries[:, None], axis=2)
best = np.take_along_axis(candidates, np.argsort(distances, axis=1)[:, :10], axis=1)
truth = np.argsort(np.linalg.norm(database[None] - queries[:, None], axis=2), axis=1)[:, :10]
recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(best, truth)])
print(f"recall@10 after reranking 100 candidates: {recall:.3f}")
assert recall > by_neighborhood["ITQ"]
