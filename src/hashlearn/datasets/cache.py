"""Where downloads, computed features and splits are kept between sessions."""

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """``HASHLEARN_CACHE``, or the platform's folder for caches; it need not exist yet, and it may be read-only."""
    chosen = os.environ.get("HASHLEARN_CACHE")
    if chosen:
        return Path(os.path.expanduser(chosen))
    folder = Path(platformdirs.user_cache_dir("hashlearn", appauthor=False))
    # A user without a home has no such folder: then a place in which nothing can be found or kept.
    return folder if folder.is_absolute() else Path(os.devnull, "hashlearn")
