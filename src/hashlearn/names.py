"""The order in which people expect names."""

import re

_Part = tuple[int, int, str]


def natural_key(name: str) -> tuple[list[_Part], str]:
    """A key for sorting: runs of digits go by their value, and a name comes before names that begin with it. Different
    names have different keys.

    Examples
    --------
    >>> sorted(["im10.png", "im2.png", "im2 (1).png", "im2-copy.png", "im.png"], key=natural_key)
    ['im.png', 'im2.png', 'im2 (1).png', 'im2-copy.png', 'im10.png']
    """
    return [_part(part) for part in re.split(r"([0-9]+|[./])", name) if part], name


def _part(part: str) -> _Part:
    """The order of pieces: the end of a name or a folder, then numbers, then text.

    Of two numbers the one with more digits is larger.
    """
    if part in "./":
        return 0, 0, part
    if part[0] in "0123456789":
        digits = part.lstrip("0")
        return 1, len(digits), digits
    return 2, 0, part
