"""KEEP: copies of searches that can be trusted, what a search finds today, and what should be done about it."""

from hashlearn.upkeep.doctor import Finding, examine
from hashlearn.upkeep.snapshots import SnapshotReport, check_search, restore_snapshot, take_snapshot

__all__ = ["Finding", "SnapshotReport", "check_search", "examine", "restore_snapshot", "take_snapshot"]
