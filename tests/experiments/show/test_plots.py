"""Drawings: valid SVG, in the page's colors, saying what the numbers say."""

import re
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from hashlearn.experiments.show import need_report_packages
from hashlearn.experiments.show.pictures import Picture, Retrieval, bit_strips, png_uri, retrieval_grid
from hashlearn.experiments.show.plots import FigureAxes, PlotLine, by_bits_figure, line_figure, precision_recall_figure
from hashlearn.experiments.show.styles import styles_for

NAMES = [f"M{i}" for i in range(16)]


def svg_of(curves, styles, **options):
    return line_figure(curves, styles, FigureAxes("A < B", "x", "y", **options))


def test_every_method_has_a_style_of_its_own():
    styles = styles_for(NAMES, strong=["M3", "absent"], reference="floats")
    assert len({(style.color, style.dashes) for style in styles.values()}) == 17
    assert styles["M3"].width > styles["M0"].width
    assert styles["floats"].css == "currentColor"
    assert "absent" not in styles


def test_colours_are_the_style_sheet_s():
    styles = styles_for(["a", "b"], reference="r")
    svg = svg_of([PlotLine(name, [0, 1], [0, 1]) for name in styles], styles)
    ElementTree.fromstring(svg)
    assert {"var(--series-0)", "var(--series-1)", "currentColor", "var(--line)"} <= set(
        re.findall(r"var\(--[a-z0-9-]+\)|currentColor", svg)
    )
    assert not re.findall(r"#[0-9a-f]{6}", svg.replace("#000000", ""))
    assert "A &lt; B" in svg


def test_a_figure_is_the_same_every_time():
    styles = styles_for(["a"])
    assert svg_of([PlotLine("a", [0, 1], [0, 1])], styles) == svg_of([PlotLine("a", [0, 1], [0, 1])], styles)


def test_radii_that_retrieve_nothing_have_no_precision():
    whole = SimpleNamespace(recall=np.array([0.0, 0.0, 0.5, 1.0]), precision=np.array([0.0, 0.0, 0.9, 0.1]))
    found = SimpleNamespace(recall=whole.recall[2:], precision=whole.precision[2:])
    drawn, wanted = (
        precision_recall_figure({"a": SimpleNamespace(radius_curve=curve)}, styles_for(["a"]))
        for curve in (whole, found)
    )
    assert drawn == wanted


def test_lengths_are_the_ticks():
    svg = by_bits_figure({"a": {64: 0.5, 16: 0.25}}, styles_for(["a"], reference="r"), reference=("r", 0.4))
    words = [node.text for node in ElementTree.fromstring(svg).iter("text")]
    assert {"16", "64", "bits", "mAP"} <= set(words)
    assert "32" not in words


def test_frames_say_what_is_right():
    image = np.arange(4).reshape(2, 2)
    found = [Picture(image, "3"), Picture(image, "5", is_match=False), Picture(image, "3")]
    grid = retrieval_grid([Retrieval(Picture(image, "3"), found)])
    assert re.findall(r'class="(query|hit|miss)"', grid) == ["query", "hit", "miss", "hit"]
    assert grid.count("data:image/png;base64,") == 4
    assert 'alt="5"' in grid


def test_color_images_can_be_shown():
    assert png_uri(np.zeros((2, 2, 3), np.uint8)) != png_uri(np.full((2, 2, 3), 255, np.uint8))


def test_strips_draw_exactly_the_ones():
    bits = np.random.RandomState(0).randint(0, 2, (5, 13))
    path = re.search(r'<path d="([^"]*)"', bit_strips({"group": bits}))[1]
    drawn = np.zeros_like(bits)
    for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)", path):
        drawn[int(y), int(x) : int(x) + int(length)] = 1
    np.testing.assert_array_equal(drawn, bits)


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_without_a_package_the_error_says_what_to_install(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs {package}.* pip install 'hashlearn\[report\]'"):
        need_report_packages()


def test_one_length_is_drawn_as_bars_with_the_names_of_the_methods():
    values, styles = {"a": {64: 0.5}, "b": {64: 0.25}}, styles_for(["a", "b"], reference="r")
    svg = by_bits_figure(values, styles, reference=("r", 0.4))
    assert [svg.index(f">{name}</text>") > 0 for name in ("a", "b", "mAP, 64 bits")] == [True] * 3
    widths = widths_of_bars(svg)
    assert widths[0] == pytest.approx(2 * widths[1], rel=1e-3)


def test_long_names_leave_half_of_the_drawing_to_the_bars():
    names = ["as the paper: random start, ten rounds, nearest anchor, weight 1", "projection with weight 1"] * 8
    values = {f"{name} {number}": {64: 0.5} for number, name in enumerate(names)}
    svg = by_bits_figure(values, styles_for(list(values)), title="A set of data with a long name: mean precision")
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])
    assert min(widths_of_bars(svg)) > 0.45 * width


def widths_of_bars(svg):
    """The width of each bar, first on top."""
    paths = re.findall(r'<path d="([^"]*)"[^>]*style="fill: var\(--series', svg)
    sides = [[float(x) for x in re.findall(r"[ML] ([\d.]+) ", path)] for path in paths]
    return [max(each) - min(each) for each in sides]
