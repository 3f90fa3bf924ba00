"""Only what was indexed is served."""

import io

import numpy as np
import pytest

from hashlearn.server.page.pictures import ArrayPictures, FolderPictures

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "photos").mkdir()
    for name in ("photos/a.png", "photos/later.png", "secret.png"):
        Image.new("RGB", (300, 200), "green").save(tmp_path / name)
    return tmp_path / "photos"


@pytest.mark.parametrize("name", ["later.png", "../secret.png", "/etc/passwd", "", "a.png\0", None, 0])
def test_names_that_were_not_indexed_have_no_picture(folder, name):
    pictures = FolderPictures(folder, ["a.png"])
    assert pictures.thumbnail("a.png") is not None
    assert pictures.thumbnail(name) is None


def test_a_file_that_became_a_link_or_went_away_has_no_picture(folder):
    pictures = FolderPictures(folder, ["a.png", "later.png"])
    (folder / "a.png").unlink()
    (folder / "a.png").symlink_to(folder.parent / "secret.png")
    (folder / "later.png").unlink()
    assert pictures.thumbnail("a.png") is None
    assert pictures.thumbnail("later.png") is None


def test_tiles_of_a_sprite_are_the_pictures_of_the_rows(tmp_path):
    tiles = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3)).astype(np.uint8)
    sprite = np.zeros((12, 18, 3), np.uint8)
    for row, tile in enumerate(tiles):
        sprite[row // 3 * 4 :][:4, row % 3 * 6 :][:, :6] = tile
    Image.fromarray(sprite).save(tmp_path / "sprite.png")
    pictures = ArrayPictures.of_sprite(tmp_path / "sprite.png", 5)
    for row, tile in enumerate(tiles):
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(pictures.thumbnail(row)))), tile)
    assert pictures.thumbnail(5) is None
    with pytest.raises(ValueError, match="a square grid of 4 x 4 tiles for 10 vectors"):
        ArrayPictures.of_sprite(tmp_path / "sprite.png", 10)
