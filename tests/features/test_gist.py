"""GIST: the numbers of the literature's parameters, and what the descriptor must not depend on."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hashlearn import progress
from hashlearn.features import gist

SAMPLE = Path(__file__).parent / "cifar10_gist512_32.npz"


@pytest.fixture(scope="module")
def sample():
    with np.load(SAMPLE, allow_pickle=False) as file:
        return file["images"], file["gist512"]


def test_the_numbers_of_32_images_of_cifar10(sample):
    images, expected = sample
    got = gist(images)
    assert got.shape == (32, 512)
    assert got.dtype == np.float32
    for block in np.split(np.arange(512), 32):  # a filter's 16 cells
        assert np.corrcoef(got[:, block].ravel(), expected[:, block].ravel())[0, 1] > 0.999
    np.testing.assert_allclose(got, expected, atol=1e-5)


def direct_gist(image):
    """One grey image, step by step with whole transforms: slow and plain."""
    image = image.astype(float)
    image = (image - image.min()) / (image.max() - image.min()) * 255
    side = len(image)

    def frequencies(n):
        line = np.fft.fftfreq(n, 1 / n)
        return line[None, :] + 0 * line[:, None], line[:, None] + 0 * line[None, :]

    x = np.pad(np.log(image + 1), (5, 5 + side % 2), mode="symmetric")
    fx, fy = frequencies(len(x))
    low = np.exp(-(fx**2 + fy**2) / (4 / np.sqrt(np.log(2))) ** 2)
    highs = x - np.fft.ifft2(np.fft.fft2(x) * low).real
    x = (highs / (0.2 + np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(highs**2) * low)))))[5 : 5 + side, 5 : 5 + side]

    spectrum = np.fft.fft2(np.pad(x, 32, mode="symmetric"))
    fx, fy = frequencies(side + 64)
    features = []
    for scale in range(4):
        for orientation in range(8):
            theta = np.angle(np.exp(1j * (np.arctan2(fy, fx) + np.pi * orientation / 8)))
            radius = np.hypot(fx, fy) / (side + 64)
            gain = np.exp(-3.5 * (radius / (0.3 / 1.85**scale) - 1) ** 2 - 2 * np.pi * theta**2)
            energy = np.abs(np.fft.ifft2(spectrum * gain))[32:-32, 32:-32]
            edges = np.floor(np.linspace(0, side, 5)).astype(int)
            for left, right in pairwise(edges):
                for top, bottom in pairwise(edges):
                    features.append(energy[top:bottom, left:right].mean())
    return np.array(features)


@pytest.mark.parametrize("side", [8, 30, 31, 49])
def test_any_size_agrees_with_the_plain_computation(side):
    images = np.random.default_rng(side).integers(0, 256, (2, side, side)).astype(np.uint8)
    np.testing.assert_allclose(gist(images), [direct_gist(image) for image in images], atol=2e-5)


def test_batches_do_not_change_the_numbers(sample, monkeypatch):
    images, _ = sample
    at_once = gist(images)
    monkeypatch.setattr(sys.modules["hashlearn.features.gist"], "BATCH_PIXELS", 3 * 96 * 96)
    np.testing.assert_allclose(gist(images), at_once, atol=1e-6)


def test_brightness_and_contrast_do_not_matter(sample):
    grey = sample[0].mean(axis=-1)
    np.testing.assert_allclose(gist(grey * 0.25 + 40), gist(grey), atol=1e-4)


def test_a_rectangle_is_cut_to_the_square_in_its_middle(sample):
    images = sample[0][:4]
    wide = np.concatenate([images[:, :, :6], images, images[:, :, :6]], axis=2)
    np.testing.assert_array_equal(gist(wide), gist(images))
    np.testing.assert_array_equal(gist(wide.transpose(0, 2, 1, 3)), gist(images.transpose(0, 2, 1, 3)))


def test_a_flat_image_has_no_energy():
    assert np.abs(gist(np.full((1, 32, 32), 7))).max() < 1e-6


def test_stripes_answer_at_their_orientation():
    """Vertical stripes have their energy at the filter along x, horizontal ones a quarter of the circle on."""
    stripes = np.tile(np.where(np.arange(64) // 2 % 2, 255, 0), (64, 1))
    energy = gist(np.stack([stripes, stripes.T])).reshape(2, 4, 8, 16).sum(axis=(1, 3))
    assert energy[0].argmax() == 0
    assert energy[1].argmax() == 4


def test_progress_is_reported(sample, monkeypatch):
    monkeypatch.setattr(sys.modules["hashlearn.features.gist"], "BATCH_PIXELS", 8 * 96 * 96)
    calls = []
    with progress.reporting(lambda *call: calls.append(call)):
        gist(sample[0])
    assert calls == [("GIST", done, 4) for done in range(5)]


@pytest.mark.parametrize("shape", [(32, 32), (2, 3, 3), (1, 2, 3, 4, 5)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="images must"):
        gist(np.zeros(shape))


def test_nan_is_refused():
    with pytest.raises(ValueError, match="images must be finite"):
        gist(np.full((1, 8, 8), np.nan))
