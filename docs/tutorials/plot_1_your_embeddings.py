"""
Ten minutes with your embeddings
================================

You have vectors of texts or images and an id for each. This tutorial makes them small and searchable: it learns codes,
finds neighbors by cosine, checks how many of the true neighbors are found, and saves the result so that other
programs, or a server, can use it.
"""

# %%
# Texts, ids and vectors
# ----------------------
# The texts are the first paragraphs of the documentation of numpy and scipy: they are on your disk already. The id of a
# text is the name of its function. The vectors come from ``tfidf``, an encoder that needs no download. With
# ``pip install 'hashlearn[embed]'`` a model of fastembed takes its place; vectors that you have already need none.

import inspect
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.signal
import scipy.special

from hashlearn import ABH, ITQ, SimilaritySearch
from hashlearn.features import encoder_named

texts, payloads = {}, {}
for module in (np, np.linalg, np.fft, scipy.linalg, scipy.signal, scipy.special):
    for name in dir(module):
        text = inspect.getdoc(getattr(module, name)) if callable(getattr(module, name)) else None
        if not name.startswith("_") and text and len(text) > 200:
            texts[f"{module.__name__}.{name}"] = text[:500]
            payloads[f"{module.__name__}.{name}"] = {"module": module.__name__}
ids = sorted(texts)
encoder = encoder_named("tfidf", "text").fit([texts[id] for id in ids])
vectors = encoder.encode([texts[id] for id in ids])
print(f"{len(ids)} texts, vectors of {vectors.shape[1]} numbers")

# %%
# Learn, add, search
# ------------------
# ``ABH`` gives codes by neighborhood: what you want of embeddings, as a rule. ``metric="cosine"`` says how vectors are
# compared; you need not scale them. ``keep_vectors="int8"`` keeps a small copy of the vectors, by which the
# candidates that the codes find are put in order.

search = SimilaritySearch(ABH(n_bits=128, random_state=0), metric="cosine", keep_vectors="int8")
search.fit(vectors).add(vectors, ids=ids, payloads=[payloads[id] for id in ids])

question = encoder.encode(["singular values of a matrix"])
for distance, id in zip(*[result[0] for result in search.search(question, k=5)]):
    print(f"{distance:.2f}  {id}")

# %%
# A filter looks at the payloads, and the rows can change at any time.

found = search.search(question, k=3, filter={"module": "scipy.linalg"})
print(found.ids[0])
search.upsert(encoder.encode(["The singular values, and nothing else."]), ids=["my.note"])
print("my.note" in search, len(search))
search.remove(["my.note"])

# %%
# How good is it?
# ---------------
# ``tune`` measures, on your data, how many candidates the codes must bring for a wanted recall: the share of the ten
# truly nearest vectors among the ten results. Later searches use what it found.

tuning = search.tune(k=10, target_recall=0.95)
print(tuning)

# %%
# Another method for comparison: ITQ, searched by its codes alone, and by real queries. The figure shows the recall of
# the ten nearest before any reranking.

true = search.search(vectors[:200], k=10, candidates=len(search)).ids
recall = {}
for name, hasher, query in (
    ("ITQ, codes", ITQ(n_bits=128, random_state=0), "code"),
    ("ITQ, real query", ITQ(n_bits=128, random_state=0), "real"),
    ("ABH", ABH(n_bits=128, random_state=0), "real"),
):
    other = SimilaritySearch(hasher, metric="cosine", query=query).fit(vectors).add(vectors, ids=ids)
    found = other.search(vectors[:200], k=10).ids
    recall[name] = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, true)])

fig, axes = plt.subplots(figsize=(6, 2.5))
axes.barh(list(recall), list(recall.values()))
axes.set_xlim(0, 1)
axes.set_xlabel("recall of the 10 nearest among 10 results, 128 bits, not reranked")
fig.tight_layout()

# %%
# Save and serve
# --------------
# ``save`` gives the search a folder. From then on every change is on the disk when its call returns; see
# :doc:`/howto/searches`.

folder = Path(tempfile.mkdtemp()) / "functions"
search.save(folder)
opened = SimilaritySearch.open(folder)
assert opened.search(question, k=1).ids[0, 0] == search.search(question, k=1).ids[0, 0]

# %%
# On the command line, ``hashlearn serve functions/`` answers the same searches over HTTP, with a page to look at the
# codes; see :doc:`/howto/serving`.
