"""What became of tests that run in a process of their own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]


class Outcome(NamedTuple):
    """How many tests ran, how many of them passed, the reasons of those that were left out, and the name of each."""

    n_tests: int
    n_passed: int
    left_out: list[str]
    names: list[str]


def outcome_of(tests: Sequence[str], environment: Mapping[str, str] | None = None) -> Outcome:
    """Run tests, which are named as pytest names them, from the folder of the repository."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **(environment or {})}, check=False)
        cases = [*ElementTree.parse(report).getroot().iter("testcase")]
    skipped = [case.find("skipped") for case in cases]
    left_out = [each.get("message", "") for each in skipped if each is not None]
    n_failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    return Outcome(
        len(cases), len(cases) - len(left_out) - n_failed, left_out, [case.get("name", "") for case in cases]
    )
