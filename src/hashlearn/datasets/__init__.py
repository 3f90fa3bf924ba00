"""Datasets with labels and the paper's splits."""

from hashlearn.datasets.cache import cache_folder
from hashlearn.datasets.dataset import Dataset
from hashlearn.datasets.download import DownloadError
from hashlearn.datasets.load import DATASETS, load
from hashlearn.datasets.splits import SplitRule

__all__ = [
    "DATASETS",
    "Dataset",
    "DownloadError",
    "SplitRule",
    "cache_folder",
    "load",
]
