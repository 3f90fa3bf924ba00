"""Folders of pictures and tables of texts as people have them: damaged files, huge files, other formats."""

import io
import struct
import zlib

import numpy as np
import pytest

from hashlearn.features import encoder_named, folder_of_images, load_encoder, save_encoder, texts_of_csv
from hashlearn.features.pictures import read_picture, thumbnail

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path):
    """Two stripes of each direction, and whatever else lies in a folder of photos."""
    stripes = (np.arange(80) // 8 % 2 * 255).astype(np.uint8)
    across, down = np.tile(stripes, (80, 1)), np.tile(stripes[:, None], (1, 80))
    (tmp_path / "trip").mkdir()
    for name, pixels in {"b.png": across, "a.jpg": down, "trip/c.jpeg": across, "trip/d.png": down}.items():
        Image.fromarray(pixels).save(tmp_path / name)
    (tmp_path / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:200])
    (tmp_path / "bomb.png").write_bytes(png_header(60_000, 60_000))
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / ".hidden.png").write_bytes(b"")
    return tmp_path


def png_header(width, height):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def test_readable_pictures_become_rows_and_the_others_are_listed(folder):
    images = folder_of_images(folder)
    assert images.names == ["a.jpg", "b.png", "trip/c.jpeg", "trip/d.png"]
    assert images.vectors.shape == (4, 512)
    reasons = dict(images.skipped)
    assert sorted(reasons) == ["bomb.png", "cut.jpg", "phone.HEIC"]
    assert "convert it" in reasons["phone.HEIC"]
    assert all("\n" not in reason and str(folder) not in reason for reason in reasons.values())
    between = np.linalg.norm(images.vectors[:, None] - images.vectors[None], axis=2)
    assert between[0].argsort()[1] == 3  # stripes of one direction are alike
    assert between[1].argsort()[1] == 2


def test_a_link_out_of_the_folder_is_no_picture_of_it(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("private") / "secret.png"
    Image.new("RGB", (8, 8)).save(outside)
    (folder / "link.png").symlink_to(outside)
    images = folder_of_images(folder)
    assert "link.png" not in images.names
    assert "link.png" in dict(images.skipped)


def test_a_folder_without_pictures_is_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="no images in"):
        folder_of_images(tmp_path)
    with pytest.raises(ValueError, match="folder must be"):
        folder_of_images(tmp_path / "nowhere")


def test_a_picture_is_turned_as_the_camera_was_held():
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:, :30] = 255
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by a quarter
    Image.fromarray(pixels).save(file, "PNG", exif=exif)
    upright = read_picture(file.getvalue())
    assert upright.size == (40, 60)
    assert np.asarray(upright)[:30].min() == 255


def test_a_thumbnail_is_small_and_says_nothing_of_the_camera():
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x010F] = "Maker of cameras"
    Image.new("RGB", (900, 300), "blue").save(file, "JPEG", exif=exif)
    small = Image.open(io.BytesIO(thumbnail(read_picture(file.getvalue()), 150)))
    assert small.size == (150, 50)
    assert not small.getexif()


@pytest.mark.parametrize("kind", ["image", "text"])
def test_a_saved_encoder_encodes_as_before(folder, tmp_path, kind):
    encoder = encoder_named(None, kind)
    items = [read_picture(folder / "a.jpg")] if kind == "image" else ["the red fox", "a brown dog", "blue sky"]
    before = encoder.fit(items).encode(items)
    save_encoder(encoder, tmp_path / "encoder.safetensors")
    again = load_encoder(tmp_path / "encoder.safetensors")
    assert (again.kind, again.name, again.metric) == (encoder.kind, encoder.name, encoder.metric)
    np.testing.assert_array_equal(again.encode(items), before)


def test_texts_about_the_same_are_near():
    texts = ["the cat sat on the mat", "a cat on a mat", "stocks fell in New York", "shares in New York fell sharply"]
    vectors = encoder_named(None, "text").fit(texts).encode(texts)
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -1)
    assert similarity.argmax(axis=1).tolist() == [1, 0, 3, 2]


def test_unknown_and_unfit_encoders_are_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="takes texts"):
        encoder_named("tfidf", "image")
    with pytest.raises(ValueError, match="without any"):
        encoder_named(None, "text").fit(["", "!"])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_encoder(tmp_path / "none")
    (tmp_path / "broken").write_bytes(b"no encoder")
    with pytest.raises(ValueError, match="no encoder, or a damaged one"):
        load_encoder(tmp_path / "broken")


def test_columns_of_a_table(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text('﻿title;plot;year\nFox;"A fox; a dog\nand a crow";1990\nEmpty;;2000\nSky;Clouds;1970;more\n')
    table = texts_of_csv(path, "plot")
    assert table.texts == ["A fox; a dog\nand a crow", "Clouds"]
    assert table.fields == [{"title": "Fox", "year": "1990"}, {"title": "Sky", "year": "1970"}]
    with pytest.raises(ValueError, match=r"films\.csv: no column named 'text'; it has 'title', 'plot', 'year'"):
        texts_of_csv(path, "text")
    path.write_bytes(b"plot\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"films\.csv: not a readable csv file"):
        texts_of_csv(path, "plot")


class TestFastEmbed:
    NAME = "minishlab/potion-base-8M"

    @pytest.fixture
    def model_folder(self, tmp_path):
        """A model of the kind that fastembed calls static: a vector for each of four words."""
        tokenizers = pytest.importorskip("tokenizers")
        pytest.importorskip("fastembed")
        from safetensors.numpy import save_file

        words = {"[UNK]": 0, "cat": 1, "dog": 2, "stock": 3}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        embeddings = np.zeros((4, 256), np.float32)
        embeddings[1, 0], embeddings[2, :2], embeddings[3, 5] = 1, 1, 1
        save_file({"embeddings": embeddings}, tmp_path / "model.safetensors")
        (tmp_path / "config.json").write_text('{"normalize": true}')
        return tmp_path

    def test_a_model_is_read_from_a_folder_and_remembered(self, model_folder, tmp_path):
        encoder = encoder_named(self.NAME, "text", model_folder)
        cat, dog, stock = encoder.encode(["cat", "dog", "stock"])
        assert cat @ dog > 0.5 > cat @ stock
        save_encoder(encoder, tmp_path / "encoder.safetensors")
        np.testing.assert_array_equal(load_encoder(tmp_path / "encoder.safetensors").encode(["cat"]), cat[None])

    def test_a_model_that_is_not_there_is_one_line(self, tmp_path):
        pytest.importorskip("fastembed")
        with pytest.raises(ValueError, match="cannot be read from"):
            encoder_named(self.NAME, "text", tmp_path).encode(["cat"])
        with pytest.raises(ValueError, match="model_folder must be a folder"):
            encoder_named(self.NAME, "text", tmp_path / "none").encode(["cat"])
        with pytest.raises(ValueError, match="model of fastembed"):
            encoder_named("no-such-model", "text")
