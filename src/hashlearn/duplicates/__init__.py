"""Near-duplicates: pairs by the distance of the vectors, groups, what to keep, increments, a page to review them."""

from hashlearn.duplicates.answers import Checked, DuplicatePairs, Group
from hashlearn.duplicates.find import find_duplicate_texts, find_duplicates
from hashlearn.duplicates.result import Duplicates
from hashlearn.duplicates.review import write_review
from hashlearn.duplicates.threshold import distance_by_chance
from hashlearn.duplicates.verify import Curve

__all__ = [
    "Checked",
    "Curve",
    "DuplicatePairs",
    "Duplicates",
    "Group",
    "distance_by_chance",
    "find_duplicate_texts",
    "find_duplicates",
    "write_review",
]
