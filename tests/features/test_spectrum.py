import io

import numpy as np
import pytest
from scipy.signal.windows import tukey

from hashlearn.features import encoder_named, spectrum
from hashlearn.features.spectrum import N_FEATURES, SpectrumEncoder

image = pytest.importorskip("PIL.Image")
LIMIT = 0.2


def photo(seed, side=64):
    """Smooth noise in color, as photos are: neighboring pixels are alike."""
    coarse = np.random.RandomState(seed).randint(0, 256, (6, 6, 3)).astype(np.uint8)
    return np.asarray(image.fromarray(coarse).resize((side, side), image.Resampling.BICUBIC))


def distance(first, second):
    a, b = SpectrumEncoder().encode([image.fromarray(np.ascontiguousarray(pixels)) for pixels in (first, second)])
    return float(np.linalg.norm(a - b))


def as_jpeg(pixels):
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "JPEG", quality=50)
    return np.asarray(image.open(file))


def clipped(pixels):
    return np.clip(pixels, 0, 255).astype(np.uint8)


COPIES = {
    "moved": lambda pixels: np.pad(pixels, ((2, 0), (0, 0), (0, 0)), mode="edge")[:-2],
    "noisy": lambda pixels: clipped(pixels + 10 * np.random.RandomState(1).standard_normal(pixels.shape)),
    "paler": lambda pixels: clipped(0.8 * pixels + 20),
    "brighter": lambda pixels: clipped(1.2 * pixels),
    "compressed": as_jpeg,
    "enlarged": lambda pixels: np.asarray(image.fromarray(pixels).resize((150, 150))),
    "reduced": lambda pixels: np.asarray(image.fromarray(pixels).resize((40, 40))),
}
OTHERS = {
    "far away": lambda pixels: np.roll(pixels, 24, axis=1),
    "negative": lambda pixels: 255 - pixels,
    "mirrored": lambda pixels: pixels[:, ::-1],
    "in another color": lambda pixels: clipped(pixels * (1.0, 0.4, 0.4)),
}


@pytest.mark.parametrize("change", COPIES)
def test_a_copy_is_near(change):
    assert max(distance(photo(seed), COPIES[change](photo(seed))) for seed in range(10)) < LIMIT


@pytest.mark.parametrize("change", OTHERS)
def test_another_picture_is_not(change):
    assert min(distance(photo(seed), OTHERS[change](photo(seed))) for seed in range(10)) > LIMIT


def test_different_photos_are_far_from_each_other():
    vectors = SpectrumEncoder().encode([image.fromarray(photo(seed)) for seed in range(60)])
    squares = ((vectors[:, None] - vectors) ** 2).sum(axis=-1)
    assert np.sqrt(squares[np.triu_indices(60, 1)].min()) > 1.5 * LIMIT


def test_flat_pictures_are_told_apart_by_brightness_and_color():
    flat = {color: np.asarray(image.new("RGB", (20, 20), color)) for color in ("black", "white", "red", "blue")}
    assert distance(flat["black"], flat["black"]) == 0
    pairs = [(a, b) for a in flat for b in flat if a < b]
    assert min(distance(flat[a], flat[b]) for a, b in pairs) > LIMIT


def test_a_vector_depends_on_its_picture_alone():
    encoder = encoder_named("spectrum", "image")
    pictures = [image.fromarray(photo(seed, side)) for seed, side in enumerate((8, 32, 33, 200))]
    together = encoder.encode(pictures)
    assert together.shape == (4, N_FEATURES)
    np.testing.assert_array_equal(together, np.concatenate([encoder.encode([each]) for each in pictures]))
    assert encoder.encode([]).shape == (0, N_FEATURES)


def test_borders_are_faded_by_a_tukey_window():
    window = tukey(spectrum.SIDE + 2, 0.5)[1:-1]
    np.testing.assert_allclose(spectrum.FADED, window[:, None] * window, atol=1e-12)
