"""The environment of a benchmark, to be set before numpy and faiss are imported."""

import os
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread() -> dict[str, str]:
    """One thread for every library."""
    return dict.fromkeys(THREADS, "1")


def all_instructions() -> dict[str, str]:
    """The instructions that faiss' own BLAS would not choose by itself, where the processor has them."""
    try:
        has_avx512 = "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        has_avx512 = False
    return {"OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "SKYLAKEX")} if has_avx512 else {}


def vector_instructions() -> str:
    """The widest vector instructions that our kernels take here."""
    import llvmlite.binding as llvm

    offered = llvm.get_host_cpu_features()
    kinds = {"AVX-512": "avx512bw", "AVX2": "avx2", "NEON": "neon"}
    return next((kind for kind, feature in kinds.items() if offered.get(feature)), "none")
