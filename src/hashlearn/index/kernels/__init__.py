"""Compiled loops over codes (numba), for :mod:`hashlearn.search` and :mod:`hashlearn.metrics` only.

=============  =====================================================================================
``tiles``      how codes lie in memory: 64 codes to a tile, one word of all 64 after the other
``scan``       every code against every query: the nearest k, or all within a radius
``buckets``    tables of substrings: the codes by the values of their parts
``probe``      look-ups in these tables: the nearest k, or all within a radius, looking at few codes
``histograms`` how many codes, and how many relevant ones, lie at each distance of a query
``asymmetric`` every code against every real query: the nearest k, or all within a distance
``lists``      real queries against the codes of their nearest lists
``rerank``     the nearest of a few candidates, by their vectors
``products``   products of queries with many vectors, 64 vectors at once
``sorting``    sorting of a few hundred keys
``look_up``    the look-ups in tables that these are made of
``rounding``   real queries as tables of small integers, and sums as distances
``simd``       the vector instructions the loops are made of
=============  =====================================================================================

The kernels release the interpreter lock, so that plain threads run them side by side, and check nothing: their
callers do.
"""
