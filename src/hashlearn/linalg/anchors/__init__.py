"""Anchors, a few hundred centers that stand for the data: search, k-means, the graph of eq. 2, sums over it."""
