"""Codes and the vectors behind them, for the commands that rerank."""

from typing import Any

from hashlearn.cli.support.arrays import read_matrix
from hashlearn.cli.support.code_files import CodeFile, read_sidecar
from hashlearn.cli.support.model_files import check_features, naming

VECTORS = "the vectors behind the codes, in any format, or a .hlv file"
METRIC = "Distance of vectors: euclidean, cosine or dot."


def read_behind(place: str, codes: CodeFile, hasher: Any, header: str | None = None) -> Any:
    """The vectors behind codes: a matrix, or an opened vector file."""
    from hashlearn.search import VectorFile

    vectors: Any = VectorFile.open(place).view if place.endswith(".hlv") else read_matrix(place, header=header)
    check_features(hasher, vectors, place)
    if vectors.shape[0] != len(codes.codes):
        raise ValueError(f"{place} has {vectors.shape[0]} vectors, {codes.place} has {len(codes.codes)} codes")
    return vectors


def read_queries(place: str, hasher: Any, array: str | None = None, header: str | None = None) -> Any:
    """The vectors of queries. Codes are refused, because nothing can be reranked by them."""
    if array is None and read_sidecar(place) is not None:
        raise ValueError(f"{place} holds codes; reranking needs the vectors of the queries")
    vectors = read_matrix(place, array, header)
    check_features(hasher, vectors, place)
    return vectors


def search_with(hasher: Any, codes: CodeFile, vectors: Any, place: str, metric: str) -> Any:
    """A search of the codes that reranks by the vectors in ``place``."""
    from hashlearn.checks import check_choice
    from hashlearn.rows import RowBlocks
    from hashlearn.search import VectorView
    from hashlearn.search.code_search import CodeSearch
    from hashlearn.search.rerank import METRICS

    check_choice("--metric", metric, METRICS)
    with naming(place):
        rows = RowBlocks(vectors) if isinstance(vectors, VectorView) else vectors
        return CodeSearch.of(hasher, rows, codes.codes, metric)
