"""What a picture would take is known before it is decoded; what goes wrong in decoding stays in another process.

``HASHLEARN_PICTURES=200 pytest tests/features/test_picture_gate.py`` tries more shapes.
"""

import io
import os
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from hashlearn.features.decoder import PictureDecoder
from hashlearn.features.gist_encoder import GistEncoder
from hashlearn.features.own_files import texts_of_csv
from hashlearn.features.pictures import read_picture, square
from hashlearn.rows.formats.problems import FileProblem

N_SHAPES = int(os.environ.get("HASHLEARN_PICTURES", "24"))
MOST_MEGABYTES = 300


def png(width, height, color_type=0, rows=None):
    """A PNG file of one color, written without ever holding its pixels; ``rows`` of them, if not all."""
    packer = zlib.compressobj(9)
    n_bytes = width * {0: 1, 2: 3, 6: 4}[color_type] + 1
    line, parts = b"\0" * n_bytes, []
    many = max(1, (1 << 20) // n_bytes)
    left = height if rows is None else rows
    while left:
        parts.append(packer.compress(line * min(many, left)))
        left -= min(many, left)
    data = b"".join([*parts, packer.flush()])
    header = struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def saved(size, kind, mode="RGB", **options):
    file = io.BytesIO()
    Image.new(mode, size).save(file, kind, **options)
    return file.getvalue()


@pytest.fixture(scope="module")
def decoder():
    decoder = PictureDecoder()
    yield decoder
    decoder.close()


def peak_megabytes(decoder):
    """The most memory that the process of a decoder has had."""
    with open(f"/proc/{decoder._process.pid}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))


def test_the_middle_is_cut_out_before_it_is_resized():
    """A picture of 4 x 4,000 pixels becomes 64 x 64 of its middle, and is never 64 x 64,000."""
    pixels = np.zeros((4000, 4, 3), np.uint8)
    pixels[1998:2002] = 200
    picture = Image.fromarray(pixels)
    resized = []

    class Watched(Image.Image):
        def resize(self, size, *more, **named):
            resized.append(size)
            return super().resize(size, *more, **named)

        def _new(self, im):
            made = super()._new(im)
            made.__class__ = Watched
            return made

    picture.__class__ = Watched
    assert (square(picture, 64) == 200).all()
    assert resized == [(64, 64)]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (png(1, 200_000), "1 x 200000"),
        (png(80_000_000, 1, rows=1), "80000000 x 1"),
        (png(9000, 9000, rows=1), "at most 80,000,000"),
        (png(8000, 8000, 6, rows=1), "bytes when decoded"),
        (b"no picture at all", "not a readable image"),
        (b"", "not a readable image"),
        (png(300, 300)[:60], "not a readable image"),
    ],
    ids=["tall", "wide", "pixels", "bytes", "text", "nothing", "cut"],
)
def test_a_picture_beyond_the_limits_is_one_line(decoder, content, told):
    with pytest.raises(FileProblem, match=told) as problem:
        decoder.decode(content, 256)
    assert "\n" not in str(problem.value)


def test_a_picture_within_the_limits_is_decoded_and_one_beyond_them_is_told_why(decoder):
    """WebP's decoder holds two frames, so half as many pixels are its limit; the reason is the size, not the memory."""
    for size, told in (((4000, 3100), None), ((4000, 3150), "100,800,000 bytes when decoded")):
        for options in ({"lossless": True}, {"quality": 10}):
            content = saved(size, "WEBP", "RGB", method=0, **options)
            if told is None:
                assert 256 <= min(decoder.decode(content, 256).size) < 512
            else:
                with pytest.raises(FileProblem, match=told):
                    decoder.decode(content, 256)


def test_pictures_of_any_shape_take_little_memory(decoder):
    """1 x 1 to 80,000,000 x 1, in every format: the process of the decoder never needs more than it is allowed."""
    rng = np.random.default_rng(0)
    decoder.start()
    answers = {"decoded": 0, "refused": 0}
    for _ in range(N_SHAPES):
        width = int(10 ** rng.uniform(0, 7.9))
        height = max(1, min(int(10 ** rng.uniform(0, 7.9)), 120_000_000 // width))
        color = int(rng.choice([0, 2, 6]))
        # Rows that are not there cost nothing to make: the header alone is what promises them.
        content = png(width, height, color, rows=min(height, 60_000_000 // (4 * width) + 1))
        try:
            picture = decoder.decode(content, 256)
        except FileProblem:
            answers["refused"] += 1
        else:
            answers["decoded"] += 1
            assert GistEncoder().encode([picture]).shape == (1, 512)
        assert peak_megabytes(decoder) < MOST_MEGABYTES
    assert min(answers.values()) > 0


BOMBS = {
    "png": ((5000, 5000), "PNG", "RGBA", {}),
    "gif": ((16000, 5000), "GIF", "P", {}),
    "tiff": ((5000, 5000), "TIFF", "RGB", {"compression": "tiff_lzw"}),
    "fax": ((16000, 5000), "TIFF", "1", {"compression": "group4"}),
    "webp": ((5000, 4900), "WEBP", "RGB", {"lossless": True}),
    "jpeg": ((9000, 8000), "JPEG", "RGB", {"quality": 1, "progressive": True, "subsampling": 0}),
    "bmp": ((5000, 5000), "BMP", "L", {}),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_of_every_format_is_decoded_within_the_limit_or_refused(decoder, bomb):
    size, kind, mode, options = BOMBS[bomb]
    content = saved(size, kind, mode, **options)
    with suppress(FileProblem):
        assert min(decoder.decode(content, 256).size) < 512
    assert peak_megabytes(decoder) < MOST_MEGABYTES
    assert decoder.decode(png(30, 20), 256).size == (30, 20)  # it goes on


def test_a_picture_is_the_same_by_both_ways(decoder):
    pixels = np.random.default_rng(0).integers(0, 255, (700, 1100, 3)).astype(np.uint8)
    for kind in ("PNG", "JPEG"):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, kind)
        ours, theirs = read_picture(file.getvalue(), 128), decoder.decode(file.getvalue(), 128)
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
        assert 128 <= min(ours.size) < 256


@pytest.mark.parametrize(("mode", "color"), [("RGBA", (200, 30, 40, 255)), ("LA", (90, 255)), ("P", 1)])
def test_what_is_transparent_is_white_whatever_the_file_hides_there(mode, color):
    picture = Image.new(mode, (20, 20), 0)  # transparent black
    picture.paste(color, (5, 5, 15, 15))
    file = io.BytesIO()
    picture.save(file, "PNG", **({"transparency": 0} if mode == "P" else {}))
    read = read_picture(file.getvalue())
    assert read.getpixel((0, 0)) == (255, 255, 255)
    assert read.getpixel((10, 10)) != (255, 255, 255)


def test_a_white_drawing_on_nothing_is_seen():
    picture = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    picture.paste((255, 255, 255, 255), (5, 5, 15, 15))
    file = io.BytesIO()
    picture.save(file, "PNG")
    read = np.asarray(read_picture(file.getvalue()).convert("L"), int)
    assert read[10, 10] - read[0, 0] > 100


def test_a_decoder_that_is_killed_is_started_again(decoder):
    decoder.start()
    decoder._process.kill()
    decoder._process.wait()
    assert decoder.decode(png(3, 5), 256).size == (3, 5)


def test_a_field_of_a_table_may_be_long(tmp_path):
    text = "a long article " * 20_000
    (tmp_path / "texts.csv").write_text(f"title,body\nfirst,{text}\n")
    assert texts_of_csv(tmp_path / "texts.csv", "body").texts == [text.strip()]
