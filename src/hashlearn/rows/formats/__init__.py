"""The file formats vectors come in."""

from hashlearn.rows.formats.files import SUFFIXES, array_names, check_file, read_array, read_vectors

__all__ = ["SUFFIXES", "array_names", "check_file", "read_array", "read_vectors"]
