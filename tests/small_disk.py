"""A disk of a few megabytes that a program of its own can fill."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = str(Path(__file__).resolve().parent)


def _can_mount():
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_mount = pytest.mark.skipif(not _can_mount(), reason="needs the right to mount: run it as root of Linux")


def run_on_small_disk(megabytes, code, folder, *arguments):
    """Run Python code that sees a disk at ``folder``; it gets the folder and the arguments. Returns what it printed."""
    command = f'mount -t tmpfs -o size={megabytes}m tmpfs "$2" && exec "$0" -c "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command, sys.executable, code, *map(str, (folder, *arguments))],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([TESTS, *sys.path])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
