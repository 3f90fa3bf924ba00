"""Where downloads, computed features and splits are kept between sessions."""

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """``HASHLEARN_CACHE``, or the platform's folder for caches; it need not exist yet, and it may be read-only."""
    chosen = os.environ.get("HASHLEARN_CACHE")
    if chosen:
        return Path(os.path.expanduser(chosen))
    # A user without a home has no such folder, so this path is one that cannot be read or written.
    nowhere = Path(os.devnull, "hashlearn")
    try:
        folder = Path(platformdirs.user_cache_dir("hashlearn", appauthor=False))
    except RuntimeError:  # some versions of platformdirs raise, others give a path with "~"
        return nowhere
    return folder if folder.is_absolute() else nowhere
