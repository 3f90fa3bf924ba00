"""Datasets with the paper's splits, and the file formats vectors come in."""

from hashlearn.data.cache import cache_folder
from hashlearn.data.dataset import Dataset
from hashlearn.data.download import DownloadError
from hashlearn.data.formats import array_names, read_array, read_vectors
from hashlearn.data.load import DATASETS, load
from hashlearn.data.splits import SplitRule

__all__ = [
    "DATASETS",
    "Dataset",
    "DownloadError",
    "SplitRule",
    "array_names",
    "cache_folder",
    "load",
    "read_array",
    "read_vectors",
]
