"""The forms in which people hold vectors, ids and payloads: each makes the same rows as the plain array."""

import datetime
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import scipy.sparse

N, WIDTH = 60, 8
X = np.random.default_rng(0).normal(size=(N, WIDTH)).astype(np.float32)
"""Numbers of few digits: bfloat16 and float16 hold them exactly, so every form gives equal results."""
X = np.round(X * 8).astype(np.float32) / 8 + np.float32(0.0625)


class HasArray:
    """What numpy can read by ``__array__`` alone."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype) if dtype is not None else self.values


class HasArrayInterface:
    """What numpy can read by ``__array_interface__`` alone."""

    def __init__(self, values):
        self.values = values
        self.__array_interface__ = values.__array_interface__


class HasDlpack:
    """What numpy can read by DLPack alone."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **arguments):
        return self.values.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class HasArrowArray:
    """What only the Arrow C interface can read, as an array."""

    def __init__(self, array):
        self.array = array

    def __arrow_c_array__(self, requested_schema=None):
        return self.array.__arrow_c_array__(requested_schema)


class HasArrowStream:
    """What only the Arrow C interface can read, as a stream: a table, or the pieces of a column."""

    def __init__(self, stream):
        self.stream = stream

    def __arrow_c_stream__(self, requested_schema=None):
        return self.stream.__arrow_c_stream__(requested_schema)


class TensorOfBfloat16:
    """What torch's tensors of bfloat16 with a gradient do: numpy gets them detached, and as float32 only."""

    def __init__(self, values, dtype="bfloat16", has_gradient=True):
        self.values, self.dtype, self.has_gradient = values, dtype, has_gradient

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def detach(self):
        return TensorOfBfloat16(self.values, self.dtype, has_gradient=False)

    def cpu(self):
        return self

    def float(self):
        return TensorOfBfloat16(self.values, "float32", self.has_gradient)

    def numpy(self):
        if self.has_gradient:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.dtype == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


def fixed_size(values: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def with_other_columns(vectors: Any) -> dict[str, Any]:
    return {"id": [f"row {row}" for row in range(len(X))], "embedding": vectors, "year": list(range(len(X)))}


def object_array(values: np.ndarray) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array


def pieces(values: np.ndarray) -> pa.ChunkedArray:
    return pa.chunked_array([fixed_size(values[:7]), fixed_size(values[7:])])


VECTORS: dict[str, Callable[[np.ndarray], Any]] = {
    "float64": lambda X: X.astype(np.float64),
    "float16": lambda X: X.astype(np.float16),
    "Fortran order": np.asfortranarray,
    "list of lists": lambda X: X.tolist(),
    "tuple of tuples": lambda X: tuple(map(tuple, X.tolist())),
    "list of arrays": list,
    "object array of arrays": object_array,
    "object array of lists": lambda X: object_array(X.tolist()) if len(X) else object_array(X),
    "sparse": scipy.sparse.csr_array,
    "sparse dok": scipy.sparse.dok_array,
    "list of sparse rows": lambda X: [scipy.sparse.csr_array(row[None]) for row in X],
    "values of a dict": lambda X: dict(enumerate(X)).values(),
    "pandas wide": pd.DataFrame,
    "pandas wide, nullable": lambda X: pd.DataFrame(X).astype("Float32"),
    "pandas Series of arrays": lambda X: pd.Series(list(X), index=np.arange(len(X))[::-1]),
    "pandas Series of lists": lambda X: pd.Series(X.tolist()),
    "pandas Series, Arrow": lambda X: pd.Series(fixed_size(X), dtype=pd.ArrowDtype(fixed_size(X).type)),
    "pandas frame with a column": lambda X: pd.DataFrame(with_other_columns(list(X))),
    "polars wide": lambda X: pl.DataFrame(X),
    "polars Array": lambda X: pl.Series(X),
    "polars List": lambda X: pl.Series(X.tolist(), dtype=pl.List(pl.Float32)),
    "polars frame with a column": lambda X: pl.DataFrame(with_other_columns(X.tolist())),
    "pyarrow FixedSizeList": fixed_size,
    "pyarrow FixedSizeList, a part": lambda X: fixed_size(np.vstack([X[:1], X, X[:2]]))[1:-2],
    "pyarrow List": lambda X: pa.array(X.tolist(), pa.list_(pa.float32())),
    "pyarrow List, a part": lambda X: pa.array([[9.0] * WIDTH, *X.tolist(), [7.0] * WIDTH], pa.list_(pa.float32()))[
        1:-1
    ],
    "pyarrow LargeList": lambda X: pa.array(X.tolist(), pa.large_list(pa.float64())),
    "pyarrow tensors": lambda X: pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(X)),
    "pyarrow in pieces": pieces,
    "pyarrow table with a column": lambda X: pa.table(with_other_columns(fixed_size(X))),
    "pyarrow table in pieces": lambda X: pa.concat_tables(
        pa.table({"embedding": fixed_size(part)}) for part in (X[:5], X[5:6], X[6:])
    ),
    "pyarrow table, wide": lambda X: pa.table({f"f{place}": X[:, place] for place in range(X.shape[1])}),
    "pyarrow struct": lambda X: pa.table({f"f{place}": X[:, place] for place in range(X.shape[1])}).to_struct_array(),
    "pyarrow dataset": lambda X: pa.dataset.dataset(pa.table(with_other_columns(fixed_size(X)))),
    "memoryview": memoryview,
    "datasets.Dataset": lambda X: datasets.Dataset.from_dict(with_other_columns(X)),
    "datasets.Dataset, a part": lambda X: datasets.Dataset.from_dict(with_other_columns(X[::-1])).select(
        range(len(X) - 1, -1, -1)
    ),
    "datasets column": lambda X: datasets.Dataset.from_dict(with_other_columns(X))["embedding"],
    "datasets.Dataset, numpy format": lambda X: datasets.Dataset.from_dict(with_other_columns(X)).with_format("numpy"),
    "datasets column, numpy format": lambda X: datasets.Dataset.from_dict(with_other_columns(X)).with_format("numpy")[
        "embedding"
    ],
    "a tensor of bfloat16": TensorOfBfloat16,
    "__array__": HasArray,
    "__array_interface__": HasArrayInterface,
    "__dlpack__": HasDlpack,
    "__arrow_c_array__": lambda X: HasArrowArray(fixed_size(X)),
    "__arrow_c_stream__": lambda X: HasArrowStream(pieces(X)),
    "__arrow_c_stream__ of a table": lambda X: HasArrowStream(pa.table(with_other_columns(fixed_size(X)))),
}
"""Each makes its form of a float32 matrix."""

if find_spec("torch") is not None:  # not among the test's packages: 540 MB
    import torch

    VECTORS |= {
        "torch": lambda X: torch.tensor(X),
        "torch with a gradient": lambda X: torch.tensor(X, requires_grad=True),
        "torch half": lambda X: torch.tensor(X).half(),
        "torch transposed": lambda X: torch.tensor(np.ascontiguousarray(X.T)).T,
        "datasets.Dataset, torch format": lambda X: datasets.Dataset.from_dict(with_other_columns(X)).with_format(
            "torch"
        ),
        "datasets column, torch format": lambda X: datasets.Dataset.from_dict(with_other_columns(X)).with_format(
            "torch"
        )["embedding"],
        "pandas Series of tensors": lambda X: pd.Series(list(torch.tensor(X))),
        "torch bfloat16": lambda X: torch.tensor(X).bfloat16(),
        "list of torch rows": lambda X: [torch.tensor(row, requires_grad=True) for row in X],
    }

ONE_VECTOR: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda x: x,
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()),
    "pandas Series": pd.Series,
    "polars Series": pl.Series,
    "pyarrow array": pa.array,
    "pyarrow row of a column": lambda x: fixed_size(x[None])[0],
    "memoryview": memoryview,
    "__array__": HasArray,
    "__dlpack__": HasDlpack,
}
"""Each makes its form of one vector, shape (n_features,)."""

INTEGERS: dict[str, Callable[[list[int]], Any]] = {
    "list": lambda ids: ids,
    "tuple": tuple,
    "array": np.array,
    "uint32": lambda ids: np.array(ids, np.uint32),
    "object array": lambda ids: np.array(ids, object),
    "pandas Series": lambda ids: pd.Series(ids, index=ids[::-1]),
    "pandas Index": pd.Index,
    "pandas nullable": lambda ids: pd.Series(ids, dtype="Int64"),
    "pandas Arrow": lambda ids: pd.Series(ids, dtype=pd.ArrowDtype(pa.int32())),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "pyarrow in pieces": lambda ids: pa.chunked_array([ids[:1], ids[1:]]),
    "datasets column": lambda ids: datasets.Dataset.from_dict({"id": ids})["id"],
    "generator": iter,
}

STRINGS: dict[str, Callable[[list[str]], Any]] = {
    "list": lambda ids: ids,
    "tuple": tuple,
    "array": np.array,
    "object array": lambda ids: np.array(ids, object),
    "numpy strings": lambda ids: np.array(ids, np.dtypes.StringDType()),
    "pandas Series": lambda ids: pd.Series(ids, index=range(len(ids), 0, -1)),
    "pandas Index": pd.Index,
    "pandas categories": lambda ids: pd.Series(ids, dtype="category"),
    "pandas Arrow": lambda ids: pd.Series(ids, dtype=pd.ArrowDtype(pa.string())),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "pyarrow large": lambda ids: pa.array(ids, pa.large_string()),
    "pyarrow in pieces": lambda ids: pa.chunked_array([ids[:1], ids[1:]]),
    "datasets column": lambda ids: datasets.Dataset.from_dict({"id": ids})["id"],
    "dict keys": lambda ids: dict.fromkeys(ids).keys(),
}

PLAIN_PAYLOADS: list[dict[str, Any]] = [
    {"n": 3, "x": 0.5, "t": "a", "when": "2024-02-29T00:00:00"},
    {"n": 4, "x": None, "t": None, "when": "2025-01-01T12:30:00"},
]
_WHEN = [datetime.datetime(2024, 2, 29), datetime.datetime(2025, 1, 1, 12, 30)]
_COLUMNS: dict[str, list[Any]] = {"n": [3, 4], "x": [0.5, None], "t": ["a", None], "when": _WHEN}

PAYLOADS: dict[str, Callable[[], Any]] = {
    "list of dicts": lambda: PLAIN_PAYLOADS,
    "numpy values": lambda: [
        {"n": np.int64(3), "x": np.float32(0.5), "t": np.str_("a"), "when": np.datetime64("2024-02-29T00:00:00")},
        {"n": np.uint8(4), "x": np.float64("nan"), "t": None, "when": np.datetime64("2025-01-01T12:30:00")},
    ],
    "pandas values": lambda: [
        {"n": 3, "x": 0.5, "t": "a", "when": pd.Timestamp("2024-02-29")},
        {"n": 4, "x": pd.NA, "t": pd.NaT, "when": pd.Timestamp("2025-01-01 12:30")},
    ],
    "pandas": lambda: pd.DataFrame(_COLUMNS),
    "pandas Series of dicts": lambda: pd.Series(PLAIN_PAYLOADS, index=[5, 3]),
    "polars": lambda: pl.DataFrame(_COLUMNS),
    "pyarrow": lambda: pa.table(_COLUMNS),
    "pyarrow structs": lambda: pa.array(PLAIN_PAYLOADS),
    "datasets": lambda: datasets.Dataset.from_dict(_COLUMNS),
}
"""Each makes the two payloads of PLAIN_PAYLOADS."""
