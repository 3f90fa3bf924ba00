"""The order in which people expect names."""

import re


def natural_key(name: str) -> tuple[list[tuple[int, str]], str]:
    """A key that orders runs of digits by their value, and a name before those that continue it; no two are equal.

    Examples
    --------
    >>> sorted(["im10.png", "im2.png", "im2 (1).png", "im2-copy.png"], key=natural_key)
    ['im2.png', 'im2 (1).png', 'im2-copy.png', 'im10.png']
    """
    # What separates a name from its suffix and from its folder stands before everything else.
    plain = name.replace("/", "\0").replace(".", "\1")
    return [_part(part) for part in re.split(r"([0-9]+)", plain) if part], name


def _part(part: str) -> tuple[int, str]:
    """Of two numbers the one with more digits is larger, whatever their length."""
    digits = part.lstrip("0")
    return (len(digits), digits) if part[0] in "0123456789" else (-1, part)
