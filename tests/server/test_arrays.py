"""Numbers of a request become the arrays that the kernels were compiled for."""

import numpy as np
import pytest

from hashlearn.server.arrays import code_matrix, vector_matrix


@pytest.mark.parametrize(
    ("code", "encoding"), [("01ff", "hex"), ("Af8=", "base64"), ([1, 255], "base64")], ids=["hex", "base64", "list"]
)
def test_codes_are_arrays_for_which_no_kernel_is_compiled_anew(code, encoding):
    matrix = code_matrix("code", [code, code], 16, encoding)
    np.testing.assert_array_equal(matrix, [[1, 255], [1, 255]])
    assert matrix.flags.writeable  # numba compiles for read-only arrays apart
    assert matrix.flags.c_contiguous


def test_vectors_are_writable_float32():
    matrix = vector_matrix("vector", [[1.0, 2.0], "AACAPwAAAEA="], 2)
    np.testing.assert_array_equal(matrix, [[1, 2], [1, 2]])
    assert matrix.dtype == np.float32
    assert matrix.flags.writeable
