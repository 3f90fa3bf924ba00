"""The file formats vectors come in."""

from hashlearn.data.formats import array_names, read_array, read_vectors

__all__ = ["array_names", "read_array", "read_vectors"]
