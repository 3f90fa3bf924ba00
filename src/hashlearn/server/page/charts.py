"""Drawings of the page: SVG, colored by the style sheet, and one PNG. They contain numbers, and no text of users."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

BITS_PER_LINE = 64
_CELL, _LINE = 10, 16
_WIDTH, _HEIGHT = 640, 200
_LEFT, _RIGHT, _BOTTOM, _TOP = 44, 16, 28, 12


def strip(bits: NDArray[np.uint8], reference: NDArray[np.uint8] | None = None) -> Markup:
    """A code as a strip of cells, dark for bits that are 1. Bits that differ from the reference are marked."""
    differs = np.zeros(len(bits), bool) if reference is None else bits != reference
    groups = {
        "off": (bits == 0) & ~differs,
        "on": (bits == 1) & ~differs,
        "off differs": (bits == 0) & differs,
        "on differs": (bits == 1) & differs,
    }
    paths = "".join(f'<path class="bit {name}" d="{_cells(where)}"/>' for name, where in groups.items() if where.any())
    lines = -(-len(bits) // BITS_PER_LINE)
    width = min(len(bits), BITS_PER_LINE) * _CELL
    return Markup(
        f'<svg class="strip" viewBox="0 0 {width} {lines * _LINE}" height="{lines * _LINE}" preserveAspectRatio="none" '
        f'role="img" aria-label="{_told(bits, differs)}">{paths}</svg>'
    )


def _told(bits: NDArray[np.uint8], differs: NDArray[np.bool_]) -> str:
    ones = f"{len(bits)} bits, {int(bits.sum())} of them 1"
    if not differs.any():
        return ones
    places = np.flatnonzero(differs)
    listed = ", ".join(map(str, places[:16])) + (", ..." if len(places) > 16 else "")
    return f"{ones}; differs from the query in {len(places)}: {listed}"


def _cells(where: NDArray[np.bool_]) -> str:
    return "".join(
        f"M{place % BITS_PER_LINE * _CELL} {place // BITS_PER_LINE * _LINE}h8v13h-8z"
        for place in np.flatnonzero(where).tolist()
    )


def histogram(counts: Sequence[int], radius: int | None, last: int | None) -> Markup:
    """A bar for each distance with the number of items; those within the radius and that of the last result are marked.

    Parameters
    ----------
    counts : list of int
        Of distance 0, 1, ...
    radius : int or None
    last : int or None
        The distance of the last result. Items at the same distance are ordered by id.
    """
    n, most = len(counts), max(counts) or 1
    step = (_WIDTH - _LEFT - _RIGHT) / n
    bars = []
    for distance, count in enumerate(counts):
        height = 0.0 if not count else max(1.5, count / most * (_HEIGHT - _BOTTOM - _TOP))
        within = radius is not None and distance <= radius
        name = "bar" + (" within" if within else "") + (" last" if distance == last else "")
        bars.append(
            f'<rect class="{name}" x="{_LEFT + distance * step:.1f}" y="{_HEIGHT - _BOTTOM - height:.1f}" '
            f'width="{max(1.0, step - 1):.1f}" height="{height:.1f}" data-distance="{distance}">'
            f"<title>distance {distance}: {count:,}</title></rect>"
        )
    ticks = [
        f'<text x="{_LEFT + (distance + 0.5) * step:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{distance}</text>'
        for distance in range(0, n, _tick_step(n - 1))
    ]
    told = f"How many items are at each Hamming distance, 0 to {n - 1}; most, {most:,}, at {int(np.argmax(counts))}"
    return _chart("histogram", told, "".join(bars + ticks) + _side(most))


def bars(values: Sequence[float], told: str, half: bool = True) -> Markup:
    """A bar for each value between 0 and 1, with a line at one half."""
    step = (_WIDTH - _LEFT - _RIGHT) / len(values)
    room = _HEIGHT - _BOTTOM - _TOP
    drawn = [
        f'<rect class="bar" x="{_LEFT + place * step:.1f}" y="{_HEIGHT - _BOTTOM - value * room:.1f}" '
        f'width="{max(1.0, step - 1):.1f}" height="{value * room:.1f}"><title>bit {place}: {value:.3f}</title></rect>'
        for place, value in enumerate(values)
    ]
    ticks = [
        f'<text x="{_LEFT + (place + 0.5) * step:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{place}</text>'
        for place in range(0, len(values), _tick_step(len(values)))
    ]
    middle = _HEIGHT - _BOTTOM - room / 2
    line = f'<line class="guide" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{middle}" y2="{middle}"/>' if half else ""
    return _chart("balance", told, "".join(drawn + ticks) + line + _side(1.0))


def curve(x: Sequence[int], y: Sequence[float], told: str) -> Markup:
    """A line of values between 0 and 1 over counts, which are drawn on a logarithmic scale."""
    places = np.log(np.asarray(x, float))
    span = places[-1] - places[0] or 1.0
    across = _LEFT + 8 + (places - places[0]) / span * (_WIDTH - _LEFT - _RIGHT - 24)
    room = _HEIGHT - _BOTTOM - _TOP
    up = _HEIGHT - _BOTTOM - np.asarray(y) * room
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up))
    dots = "".join(
        f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="4"><title>{count:,} candidates: {value:.3f}</title></circle>'
        f'<text x="{a:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{count:,}</text>'
        for a, b, count, value in zip(across, up, x, y)
    )
    return _chart("curve", told, f'<polyline class="line" points="{points}"/>{dots}' + _side(1.0))


def correlation_png(correlations: NDArray[np.floating], side: int = 512) -> bytes:
    """The matrix as a PNG file: blue below zero, red above, transparent at zero; the diagonal is left out."""
    values = correlations.copy()
    np.fill_diagonal(values, 0)
    pixels = np.zeros((*values.shape, 4), np.uint8)
    pixels[values > 0, :3] = (214, 69, 65)
    pixels[values < 0, :3] = (52, 120, 216)
    # small correlations are the usual ones: the square root makes them visible
    pixels[..., 3] = (np.sqrt(np.abs(values)) * 255).astype(np.uint8)
    times = max(1, side // len(values))
    return _png(pixels.repeat(times, axis=0).repeat(times, axis=1))


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """An RGBA image as a PNG file."""
    height, width = pixels.shape[:2]
    lines = np.zeros((height, 1 + 4 * width), np.uint8)  # each line begins with the filter type 0, "none"
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


def _chart(name: str, told: str, inner: str) -> Markup:
    base = _HEIGHT - _BOTTOM
    axis = f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>'
    return Markup(
        f'<svg class="chart {name}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{told}">{inner}{axis}</svg>'
    )


def _side(top: float) -> str:
    """The numbers at the side: the two ends of the scale."""
    label = f"{top:,}" if isinstance(top, int) else f"{top:g}"
    return (
        f'<text x="{_LEFT - 6}" y="{_TOP + 6}" text-anchor="end">{label}</text>'
        f'<text x="{_LEFT - 6}" y="{_HEIGHT - _BOTTOM}" text-anchor="end">0</text>'
    )


def _tick_step(n: int) -> int:
    return next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if n / step <= 18)


def small_histogram(
    counts: Sequence[float], edges: Sequence[float], limits: tuple[float | None, float | None], n_above: int = 0
) -> Markup:
    """A bar for each part of a range with the number of items in it. Bars between the limits are marked.

    Items above the range, if any, have their own bar at the end.
    """
    width, height = 240, 64
    counts = [*counts, n_above] if n_above else counts
    edges = [*edges, float("inf")] if n_above else edges
    most, step = max(counts) or 1, width / len(counts)
    bars = []
    for place, count in enumerate(counts):
        low, high = edges[place], edges[place + 1]
        inside = (limits[0] is None or high >= limits[0]) and (limits[1] is None or low <= limits[1])
        tall = 0.0 if not count else max(1.5, count / most * (height - 16))
        bars.append(
            f'<rect class="bar{" within" if inside else ""}" x="{place * step:.1f}" y="{height - 14 - tall:.1f}" '
            f'width="{step - 1:.1f}" height="{tall:.1f}">'
            f"<title>{_range_shown(low, high)}: {int(count):,}</title></rect>"
        )
    last = f"over {_shown(edges[-2])}" if n_above else _shown(edges[-1])
    ends = (
        f'<text x="0" y="{height - 1}">{_shown(edges[0])}</text>'
        f'<text x="{width}" y="{height - 1}" text-anchor="end">{last}</text>'
    )
    told = f"Histogram from {_shown(edges[0])} to {last}"
    return Markup(
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{told}">{"".join(bars)}{ends}</svg>'
    )


def _range_shown(low: float, high: float) -> str:
    return f"over {_shown(low)}" if high == float("inf") else f"{_shown(low)} to {_shown(high)}"


def _shown(number: float) -> str:
    """A number with commas between thousands, but none in a year.

    >>> _shown(5635090.0), _shown(2026.0), _shown(0.25), _shown(1e15)
    ('5,635,090', '2026', '0.25', '1e+15')
    """
    if abs(number) >= 1e10:
        return f"{number:.4g}"
    return f"{number:,.0f}" if abs(number) >= 100_000 else f"{number:g}"


def nearness(share: float, said: str) -> Markup:
    """A bar that is longer for nearer items; the number is its title."""
    return Markup(
        '<svg class="near" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="{0}">'
        '<title>{0}</title><rect width="{1:.0f}" height="4"/></svg>'
    ).format(said, max(2.0, 100 * share))
