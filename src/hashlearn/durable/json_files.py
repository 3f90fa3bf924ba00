"""JSON of others, read without surprises; and the digest of JSON values."""

import hashlib
import json
from pathlib import Path
from typing import Any

from hashlearn.checks import check_regular


def read_json(path: str | Path) -> Any:
    """The value in a JSON file, or a ValueError of one line."""
    try:
        return parsed_json(check_regular(path).read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{path} is truncated, damaged or no JSON") from None


def parsed_json(text: str | bytes) -> Any:
    """As json.loads, with a ValueError for what is nested too deeply too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_digest(*values: Any) -> str:
    """SHA-256 of JSON values; layout and order of the keys do not matter."""
    canonical = [json.dumps(value, sort_keys=True, separators=(",", ":")) for value in values]
    return hashlib.sha256("\0".join(canonical).encode()).hexdigest()
