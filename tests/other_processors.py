"""Kernels in processes of their own: for other processors than this one, or in a package of kernels alone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from forked import run_forked

import hashlearn

_BEGIN = """
import sys
import llvmlite.binding as llvm
import numpy as np
from numba import njit
triple, cpu, *more = sys.argv[1:]
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
rename = lambda text: text
"""
_EMIT = """
for text in kernel.inspect_llvm().values():
    module = llvm.parse_assembly(rename(text))
    module.triple = triple
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2)
    module.data_layout = str(machine.target_data)
    assert machine.emit_object(module)
    print(machine.emit_assembly(module))
"""


def copy_kernels(folder: Path) -> Path:
    """A package ``hashlearn`` in the folder with the kernels of ``index`` alone, which imports little; its path."""
    original, package = Path(hashlearn.__file__).parent, folder / "hashlearn"
    nothing_compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(original / "index" / "kernels", package / "index" / "kernels", ignore=nothing_compiled)
    shutil.copy(original / "compiled.py", package)
    for room in (package, package / "index"):
        (room / "__init__.py").touch()
    return package


def run_python(script, *arguments, **environment):
    """A process of its own, which sees these variables when it begins."""
    source = str(Path(hashlearn.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": source, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def output_of_python(script, *arguments, **environment):
    """What such a process prints."""
    done = run_python(script, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cross_compiled(script, triple, cpu, *more):
    """The assembly of the ``kernel`` that a script compiles here, for another processor."""
    command = [sys.executable, "-c", _BEGIN + script + _EMIT, triple, cpu, *more]
    done = run_forked(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
