"""Optional dependencies, imported when they are first needed."""

from importlib import import_module
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """The module; if it is not installed, an ImportError with the line that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        package = (missing.name or module).partition(".")[0]
        raise ImportError(f"this needs {package}, which is not installed: pip install 'hashlearn[{extra}]'") from None
