"""What the neighbors benchmark times: scans of a million codes, encoding and training, in turns within one process."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import faiss
import numpy as np
from search import take_turns

from hashlearn import ABH, AsymmetricIndex, Corrections

N_QUERIES = 100
K = 100


class Ratio(NamedTuple):
    """How many times the seconds of ``ours`` the peer needs, or we need of its seconds where less is better."""

    what: str
    ratio: float
    seconds: dict[str, float]


SCANS = (64, 128, 512)
"""Bits of the codes that are scanned."""


def scans(n_bits: int, n_codes: int, rounds: int) -> Iterator[Ratio]:
    """Signs of Gaussian rows with corrections against the 4-bit codes of the same rows, for the same queries."""
    rows, queries = gaussians(n_codes, n_bits)
    index = AsymmetricIndex(n_bits).add(np.packbits(rows > 0, axis=1), corrections=byte_corrections(n_codes))
    peer = trained(faiss.IndexPQFastScan(n_bits, n_bits // 4, 4), rows)
    what = f"scan of {n_codes:.0e} codes, {n_bits} bits"
    yield against(f"{what}, 100 queries, against PQFastScan", index, peer, queries, rounds)
    if n_bits == 64:
        # A short call, and the machine's speed moves: many rounds.
        yield against(f"{what}, 1 query, against PQFastScan", index, peer, queries[:1], 20 * rounds)
        yield share_of_reading(f"{what}, 1 query, share of the speed of reading", index, queries[:1], 20 * rounds)
    if n_bits == 512:
        peer = trained(faiss.IndexRaBitQFastScan(n_bits), rows)
        yield against(f"{what}, 100 queries, against RaBitQFastScan", index, peer, queries, rounds)


def trained(peer, rows: np.ndarray):
    """The index of faiss, with the rows in it."""
    peer.train(rows[:20_000])
    peer.add(rows)
    return peer


def against(what: str, index: AsymmetricIndex, peer, queries: np.ndarray, rounds: int) -> Ratio:
    calls: dict[str, Callable] = {
        "hashlearn": lambda: index.search(-queries, K),
        "faiss": lambda: peer.search(queries, K),
    }
    seconds = take_turns(calls, rounds, time.process_time)
    return Ratio(what, seconds["faiss"] / seconds["hashlearn"], seconds)


def share_of_reading(what: str, index: AsymmetricIndex, queries: np.ndarray, rounds: int) -> Ratio:
    """A search of one query against reading as many bytes as it must, those of codes and corrections."""
    content = np.ones(len(index) * (index.n_bits // 8 + 1) // 8, np.uint64)
    calls: dict[str, Callable] = {"hashlearn": lambda: index.search(-queries, K), "numpy.max": content.max}
    seconds = take_turns(calls, rounds, time.process_time)
    return Ratio(what, seconds["numpy.max"] / seconds["hashlearn"], seconds)


def gaussians(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and queries."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d), dtype=np.float32), rng.standard_normal((N_QUERIES, d), dtype=np.float32)


def byte_corrections(n: int) -> Corrections:
    values = np.random.default_rng(1).normal(128, 30, n).clip(0, 255).astype(np.uint8)
    return Corrections(values, scale=0.02, offset=0.0)


def encoding(X: np.ndarray, rounds: int) -> Ratio:
    """Codes of 128 bits against the product of the rows with the words alone."""
    hasher = ABH(128, random_state=0).fit(X)
    words = np.ascontiguousarray(hasher.words_.T)
    calls: dict[str, Callable] = {"hashlearn": lambda: hasher.transform(X), "GEMM": lambda: X @ words}
    seconds = take_turns(calls, rounds, time.process_time)
    what = f"encode at 128 bits, {X.shape[0]} x {X.shape[1]}, against the product X D'"
    return Ratio(what, seconds["hashlearn"] / seconds["GEMM"], seconds)


def training(X: np.ndarray) -> Ratio:
    """A fit at 128 bits against faiss' OPQ16 with PQ16, once each."""
    peer = faiss.index_factory(X.shape[1], "OPQ16,PQ16")
    seconds = {
        "hashlearn": once(lambda: ABH(128, random_state=0).fit(X)),
        "faiss": once(lambda: peer.train(X)),
    }
    what = f"train at 128 bits, {X.shape[0]} x {X.shape[1]}, against OPQ16"
    return Ratio(what, seconds["faiss"] / seconds["hashlearn"], seconds)


def once(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
