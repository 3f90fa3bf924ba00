"""Drawings say what they are given."""

import io
import re

import numpy as np
import pytest

from hashlearn.server.page.charts import correlation_png, curve, histogram, small_histogram, strip


def test_a_strip_marks_every_bit_once_and_tells_what_differs():
    bits, query = np.array([1, 0, 1, 1, 0, 0] * 12), np.array([1, 0, 0, 1, 0, 1] * 12)
    drawn = strip(bits, query)
    cells = {name: path.count("M") for name, path in re.findall(r'class="bit ([a-z ]+)" d="([^"]+)"', drawn)}
    assert cells == {"off": 24, "on": 24, "off differs": 12, "on differs": 12}
    assert "72 bits, 36 of them 1; differs from the query in 24: 2, 5, 8" in drawn


def test_a_histogram_marks_the_radius_and_the_last_result():
    drawn = histogram([0, 2, 5, 9, 4], radius=2, last=3)
    bars = re.findall(r'class="(bar[a-z ]*)".*?data-distance="(\d)"', drawn)
    assert bars == [("bar within", "0"), ("bar within", "1"), ("bar within", "2"), ("bar last", "3"), ("bar", "4")]
    heights = [float(height) for height in re.findall(r' height="([\d.]+)" data', drawn)]
    assert heights[0] == 0
    assert heights[3] == max(heights)


def test_a_small_histogram_has_one_bar_for_all_that_is_above_its_range():
    drawn = small_histogram([4, 2], [0, 10, 20], (None, None), n_above=3)
    assert re.findall(r"<title>(.*?)</title>", drawn) == ["0 to 10: 4", "10 to 20: 2", "over 20: 3"]
    assert re.findall(r"<text.*?>(.*?)</text>", drawn) == ["0", "over 20"]


def test_a_curve_of_one_point_is_drawn():
    assert "5 candidates: 0.500" in curve([5], [0.5], "one point")


def test_the_matrix_is_a_picture_that_others_can_read():
    Image = pytest.importorskip("PIL.Image")
    matrix = np.array([[1, 0.25], [-1, 1]], np.float32)
    pixels = np.asarray(Image.open(io.BytesIO(correlation_png(matrix, side=4))))
    assert pixels.shape == (4, 4, 4)
    assert pixels[0, 0, 3] == 0  # the diagonal
    assert pixels[0, 3].tolist() == [214, 69, 65, 127]
    assert pixels[3, 0].tolist() == [52, 120, 216, 255]
