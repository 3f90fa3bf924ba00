"""A folder of images as one array."""

import sys

import numpy as np
import pytest

from hashlearn.features import ImageFolder, gist

Image = pytest.importorskip("PIL.Image")


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (12, 20, 20, 3)).astype(np.uint8)


def test_images_come_in_the_order_of_their_numbers(tmp_path, pictures):
    for number, pixels in enumerate(pictures):
        save(tmp_path / f"im{number}.png", pixels)
    (tmp_path / "notes.txt").write_text("no image")
    folder = ImageFolder(tmp_path)
    assert folder.shape == (12, 20, 20, 3)
    np.testing.assert_array_equal(folder[0:12], pictures)
    np.testing.assert_array_equal(folder[3:5], pictures[3:5])
    assert [path.name for path in folder.paths[1:3]] == ["im1.png", "im2.png"]
    np.testing.assert_array_equal(gist(folder), gist(pictures))


def test_the_middle_is_kept_and_mixed_sizes_are_brought_to_one(tmp_path):
    flag = np.zeros((40, 80, 3), np.uint8)
    flag[:, 20:60] = 255
    save(tmp_path / "sub" / "flag.png", flag)
    assert ImageFolder(tmp_path).shape == (1, 40, 40, 3)
    assert (ImageFolder(tmp_path)[0:1] == 255).all()
    save(tmp_path / "grey.png", np.full((10, 15), 80, np.uint8))
    mixed = ImageFolder(tmp_path)
    assert mixed.shape == (2, 256, 256, 3)
    assert (mixed[0:1] == 80).all()
    assert ImageFolder(tmp_path, size=16)[0:2].shape == (2, 16, 16, 3)


def test_problems_are_one_line(tmp_path, pictures):
    with pytest.raises(ValueError, match="no images in"):
        ImageFolder(tmp_path)
    with pytest.raises(ValueError, match="folder must be"):
        ImageFolder(tmp_path / "none")
    (tmp_path / "broken.jpg").write_bytes(b"not an image")
    with pytest.raises(ValueError, match=r"broken\.jpg: not a readable image"):
        ImageFolder(tmp_path)
    (tmp_path / "broken.jpg").unlink()
    save(tmp_path / "cut.png", pictures[0])
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:-400])
    with pytest.raises(ValueError, match=r"cut\.png: not a readable image"):
        ImageFolder(tmp_path)[0:1]


def test_without_pillow_the_install_line_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"pip install 'hashlearn\[images\]'"):
        ImageFolder(tmp_path)
