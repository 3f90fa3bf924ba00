"""Where downloads, computed features and splits are kept between sessions."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """``HASHLEARN_CACHE``, or the platform's folder for caches; it need not exist yet."""
    chosen = os.environ.get("HASHLEARN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "hashlearn" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "hashlearn"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hashlearn"
