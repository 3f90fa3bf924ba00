"""Where downloads, computed features and splits are kept between sessions."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """``HASHLEARN_CACHE``, or the platform's folder for caches; it need not exist yet, and it may be read-only."""
    chosen = os.environ.get("HASHLEARN_CACHE")
    if chosen:
        return Path(os.path.expanduser(chosen))
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local") / "hashlearn" / "Cache"
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "hashlearn"
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "hashlearn"


def _home() -> Path:
    """The user's folder; where there is none, a place in which nothing can be found or kept."""
    home = Path(os.path.expanduser("~"))
    return home if home.is_absolute() else Path(os.devnull)
