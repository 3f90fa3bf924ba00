"""Codes in databases, behind one contract.

LanceDB, PostgreSQL with pgvector, Milvus, SQLite with sqlite-vec, DuckDB and parquet files; and export to faiss,
usearch and numpy. Every database is an extra: ``pip install 'hashlearn[lance]'``, ``[pgvector]``, ``[milvus]``,
``[sqlite]``, ``[duckdb]``.
"""

from hashlearn.stores.base import Block, CorrectionScale, Description, StoreEngine, StoreRecord
from hashlearn.stores.export import to_faiss, to_numpy, to_parquet, to_usearch
from hashlearn.stores.loading import load_codes
from hashlearn.stores.store import Store
from hashlearn.stores.uri import open_store

__all__ = [
    "Block",
    "CorrectionScale",
    "Description",
    "Store",
    "StoreEngine",
    "StoreRecord",
    "load_codes",
    "open_store",
    "to_faiss",
    "to_numpy",
    "to_parquet",
    "to_usearch",
]
