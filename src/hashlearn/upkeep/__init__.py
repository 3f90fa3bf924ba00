"""Upkeep of searches: checked copies, measured recall, drift, and the doctor."""

from hashlearn.upkeep.doctor import Finding, examine
from hashlearn.upkeep.snapshots import SnapshotReport, check_search, restore_snapshot, take_snapshot

__all__ = ["Finding", "SnapshotReport", "check_search", "examine", "restore_snapshot", "take_snapshot"]
