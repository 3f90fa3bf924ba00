"""
Reproduce a table of the paper
==============================

The JPSH paper compares eleven methods on four datasets at six code lengths (its Table 2). hashlearn has that
experiment in it; these two commands run a part of it and print it beside the published numbers:

.. code-block:: console

   $ hashlearn paper run table-2 --datasets mnist --bits 16,64 --runs 3
   $ hashlearn paper show table-2 --datasets mnist --bits 16,64

This needs a download and takes long. Here the same experiment runs on small data, so that you can see how it works
and describe one of your own.
"""

# %%
# An experiment is a TOML file
# ----------------------------
# It names datasets, methods, lengths and the number of runs. A dataset is one that hashlearn knows, or files of your
# own. A method is one of ``hashlearn methods``, with other parameters if you like.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from hashlearn.experiments import ResultFolder, Results, read_experiment, run_experiment
from hashlearn.experiments.results import measure_tables
from hashlearn.experiments.show.text_tables import as_markdown

folder = Path(tempfile.mkdtemp())
X, y = load_digits(return_X_y=True)
np.save(folder / "vectors.npy", X.astype(np.float32) / 16)
np.save(folder / "labels.npy", y)

(folder / "digits.toml").write_text("""
title = "Table 2 on digits"
measures = ["mAP", "precision_at_100", "recall_at_10"]
datasets = ["my-digits"]
methods = ["lsh", "itq", "jsh", "jpsh-paper", "jpsh", "sah"]
bits = [8, 16, 32]
runs = 2
reference = true

[dataset.my-digits]
title = "Digits"
features = "vectors.npy"
labels = "labels.npy"
n_queries = 200
like = "mnist"

[method.jpsh-paper]
title = "JPSH, the paper's settings"
method = "jpsh"
as_published = true
params = { n_anchors = 100 }
""")
experiment = read_experiment(folder / "digits.toml")

# %%
# ``like = "mnist"`` chooses the settings that the paper has for MNIST, and ``as_published`` the paper's algorithm:
# random codes to start from, and ten rounds. ``jpsh`` without it is hashlearn's default: for these data one
# round from a spectral start.
#
# Run it
# ------
# Every measurement is a line in ``results``. If you interrupt the run and start it again, it does only what is
# missing. On the command line: ``hashlearn experiment run digits.toml``.

run_experiment(experiment, folder / "results", workers=1)
results = Results(ResultFolder(folder / "results").lines([dataset.name for dataset in experiment.datasets]))
print(as_markdown(experiment, results))

# %%
# Draw it
# -------

table = measure_tables(experiment, results)[0]
figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
for row in table.rows:
    axis.plot(table.bits, [cell.ours.mean for cell in row.cells], marker="o", label=row.title)
axis.axhline(table.reference, color="black", linestyle=":", label="float vectors")
axis.set(xlabel="bits", ylabel="mAP", xticks=table.bits, title=experiment.title)
axis.legend(fontsize="small")
