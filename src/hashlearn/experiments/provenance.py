"""What a number was made with: versions, the commit of a checkout, the processor, the date."""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import hashlearn

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def provenance(packages: Sequence[str] = PACKAGES) -> dict[str, Any]:
    """What a result says of its origin, as JSON keeps it.

    Parameters
    ----------
    packages : names of distributions whose versions matter; those that are not installed are left out

    Returns
    -------
    dict
        ``versions``, ``commit`` (None outside a git checkout), ``processor``, ``cores`` and ``date``.
    """
    return {
        "versions": {"hashlearn": hashlearn.__version__, "python": platform.python_version(), **_installed(*packages)},
        "commit": commit(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "date": datetime.now(UTC).date().isoformat(),
    }


@cache
def commit() -> str | None:
    """The commit of the checkout that the package is imported from, with "-dirty" where its source differs from it."""
    root = Path(hashlearn.__file__).parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    name = _git(root, "rev-parse", "--short=12", "HEAD")
    changed = _git(root, "status", "--porcelain", "--", "src")
    return f"{name}-dirty" if name and changed else name or None


def _git(root: Path, *arguments: str) -> str:
    """What git prints; nothing where it fails."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


@cache
def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@cache
def _installed(*packages: str) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
