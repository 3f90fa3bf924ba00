"""The file formats vectors come in."""

from hashlearn.rows.formats.problems import FileProblem
from hashlearn.rows.formats.read import (
    SUFFIXES,
    array_names,
    check_file,
    describe_file,
    has_known_suffix,
    is_place_of_file,
    path_and_name,
    read_array,
    read_place,
    read_records,
    read_vectors,
)

__all__ = [
    "SUFFIXES",
    "FileProblem",
    "array_names",
    "check_file",
    "describe_file",
    "has_known_suffix",
    "is_place_of_file",
    "path_and_name",
    "read_array",
    "read_place",
    "read_records",
    "read_vectors",
]
