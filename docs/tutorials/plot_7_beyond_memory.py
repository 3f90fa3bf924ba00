"""
Beyond memory and beyond one machine
====================================

Training and encoding read the data in blocks of rows. So a file may be larger than memory, the data may be in several
files or come from a function, and a cluster can do the passes.
"""

# %%
# A file that is not read into memory
# -----------------------------------
# Pass a path instead of an array. An npy file is mapped: the system reads what a block needs, and forgets it again.
# Here the file is small; nothing changes with a large one but the time.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from hashlearn import JPSH, fit_lengths

folder = Path(tempfile.mkdtemp())
digits = load_digits().data.astype(np.float32)
rng = np.random.default_rng(0)
X = np.concatenate([digits + rng.normal(scale=0.5, size=digits.shape) for _ in range(12)]).astype(np.float32)
np.save(folder / "vectors.npy", X)

hasher = JPSH(n_bits=32, n_anchors=100, random_state=0).fit(folder / "vectors.npy")
codes = hasher.transform(folder / "vectors.npy")
print(f"{X.nbytes / codes.nbytes:.0f} times smaller")

# %%
# Several files as one
# --------------------
# A list of paths is one matrix, the files one below the other. The codes are the same.

paths = []
for number, part in enumerate(np.array_split(X, 3)):
    paths.append(folder / f"part-{number}.npy")
    np.save(paths[-1], part)
np.testing.assert_array_equal(JPSH(n_bits=32, n_anchors=100, random_state=0).fit(paths).transform(paths), codes)

# %%
# Rows from a function
# --------------------
# Where the rows come from a database or a network, pass a function without arguments that returns a new iterator over
# blocks of rows. It is called once for every pass.


def blocks():
    for path in paths:
        yield np.load(path)


streamed = JPSH(n_bits=32, n_anchors=100, random_state=0).fit(blocks)
print(f"{np.mean(streamed.transform(X) == codes):.1%} of the bytes are the same")

# %%
# Less reading: a sample for k-means
# ----------------------------------
# k-means reads all rows once in every round, and takes most of the time. ``kmeans_sample`` finds the anchors among
# some of the rows, held in memory. The other passes still read every row.

sampled = JPSH(n_bits=32, n_anchors=100, kmeans_sample=3000, random_state=0).fit(folder / "vectors.npy")

# %%
# Several lengths from one look
# -----------------------------

short, long = fit_lengths(JPSH(n_anchors=140, random_state=0), folder / "vectors.npy", bits=(16, 128))
print(short.n_bits, long.n_bits)

# %%
# Codes block by block
# --------------------
# ``transform`` returns all codes. ``transform_blocks`` returns them block by block, for codes that do not fit into
# memory either.

counts = np.zeros(32)
for _, part in hasher.transform_blocks(folder / "vectors.npy"):
    counts += np.unpackbits(part, axis=1).sum(axis=0)

figure, axis = plt.subplots(figsize=(7, 2.5), layout="constrained")
axis.bar(np.arange(32), counts / len(X))
axis.axhline(0.5, color="black", linewidth=0.8)
axis.set(title="share of ones in each bit", xlabel="bit", ylim=(0, 1))

# %%
# Several machines
# ----------------
# A pass is a function of a block whose results are merged, so Dask can run it where the files are. What travels is
# anchors and sums, never rows:
#
# .. code-block:: python
#
#    from distributed import Client
#    from hashlearn.rows.cluster import on_cluster
#
#    with Client("tcp://scheduler:8786") as client:
#        rows = on_cluster(["part-0.npy", "part-1.npy"], client)
#        hasher = JPSH(random_state=0).fit(rows)
#
# or ``hashlearn fit part-*.npy --cluster tcp://scheduler:8786 --out model/``. See :doc:`/explanation/scaling`.
