"""Compiled loops over ids, payloads and kept vectors, for :mod:`hashlearn.search` only.

===========  =====================================================================================
``texts``    strings that lie one behind the other in one array: digests, look-up, fields of JSON;
             sums of what words are worth
``records``  checksums of the records of a vector file, and distances of queries to records
``pairs``    distances of pairs of vectors
===========  =====================================================================================
"""
