"""Near-duplicates: pairs by distance or by words, groups, rows to keep, new rows, pages to review groups."""

from hashlearn.duplicates.find import check_against, check_texts_against, find_duplicate_texts, find_duplicates
from hashlearn.duplicates.result import Duplicates
from hashlearn.duplicates.review import write_review
from hashlearn.duplicates.state import Checked, DuplicatePairs, Group
from hashlearn.duplicates.threshold import distance_by_chance
from hashlearn.duplicates.variety import FarRows, most_varied, outliers, representatives
from hashlearn.duplicates.verify import Curve

__all__ = [
    "Checked",
    "Curve",
    "DuplicatePairs",
    "Duplicates",
    "FarRows",
    "Group",
    "check_against",
    "check_texts_against",
    "distance_by_chance",
    "find_duplicate_texts",
    "find_duplicates",
    "most_varied",
    "outliers",
    "representatives",
    "write_review",
]
