"""
Find near-duplicates
====================

Training data often hold the same thing twice: a copy, a copy with noise, a picture moved by a pixel. This tutorial
finds such rows, groups them, and says which to keep.
"""

# %%
# Data with planted copies
# ------------------------
# 1,797 images of handwritten digits, and 150 copies: 50 exact ones, and 100 with noise.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from hashlearn import find_duplicates

X = load_digits().data
rng = np.random.RandomState(0)
originals = rng.choice(len(X), 150, replace=False)
copies = X[originals].copy()
copies[50:] += rng.normal(scale=0.5, size=(100, 64))
rows = np.concatenate([X, copies])

# %%
# Pairs by distance
# -----------------
# A duplicate is what is within a distance of the vectors. Search with a large one first: smaller ones then cost
# nothing.

found = find_duplicates(rows, max_distance=8, metric="euclidean")
print(found)
print(found.plan)
planted = set(zip(originals.tolist(), range(len(X), len(rows))))

distances = np.linspace(0, 8, 33)
recall, precision = [], []
for distance in distances:
    pairs = found.at(distance).pairs
    hits = len(planted & set(zip(pairs.first.tolist(), pairs.second.tolist())))
    recall.append(hits / len(planted))
    precision.append(hits / max(1, len(pairs.first)))

fig, ax = plt.subplots()
ax.plot(distances, recall, label="planted pairs that are found")
ax.plot(distances, precision, label="found pairs that are planted")
ax.set_xlabel("max_distance")
ax.legend()
plt.show()

# %%
# Without planted copies you do not have these lines. Let the rows choose the distance, or judge a few pairs and pass
# them as ``labeled_pairs``. ``reason`` says why the distance is what it is.

print(find_duplicates(rows, "auto", metric="euclidean").reason)
labels = [(int(a), len(X) + b, True) for b, a in enumerate(originals[:10])] + [(i, i + 1, False) for i in range(10)]
print(find_duplicates(rows, labeled_pairs=labels, metric="euclidean").reason)

# %%
# Groups and decisions
# --------------------
# Every member of a group is within the distance of the row that is kept.

duplicates = found.at(5.0)
print(f"{len(duplicates.kept)} to keep, {len(duplicates.dropped)} to drop, {duplicates.n_copies} exact copies")

fig, axes = plt.subplots(3, 3, figsize=(5, 5))
for line, group in zip(axes, duplicates.groups[:3]):
    for ax, row in zip(line, [group.kept, *group.members[:2]]):
        ax.imshow(rows[row].reshape(8, 8), cmap="gray_r")
        ax.set_title("kept" if row == group.kept else "dropped", fontsize=9)
    for ax in line:
        ax.axis("off")
plt.show()

# %%
# You may know better. What you decide is remembered, and what you judge to be different is never found again. The
# review page (:func:`hashlearn.duplicates.write_review`) shows all groups and makes such decisions.

group = duplicates.groups[0]
duplicates.decide([(int(group.members[-1]), "different", group.kept)])
print(f"{len(duplicates.dropped)} to drop")

# %%
# New rows
# --------
# A result can be asked about new rows, and take them in.

new = np.concatenate([X[:3] + 0.1, rng.uniform(0, 16, size=(2, 64))])
print(duplicates.check(new).is_new)
print(len(duplicates.add(new)))
