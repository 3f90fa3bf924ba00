"""The check of every picture before it is decoded: its header tells how much memory it would take.

An untrusted picture may be damaged or another kind of file, or its header may declare far more pixels than the file has
bytes. Formats that can contain programs are not opened.

Run as a script, this file decodes the pictures that its standard input brings, in a process whose memory is limited
(:class:`~hashlearn.features.decoder.PictureDecoder`). It imports nothing but Pillow, so that the process is small.
"""

import io
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_ORIENTATION = 0x0112
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""EXIF's orientation -> the constant of Pillow's ``transpose`` that makes the picture upright."""
_PALE, _DARK_GROUND = 225, "#39424f"
_SEE_THROUGH = ("RGBA", "LA", "PA", "RGBa", "La")
_ONE_BYTE_MODES = frozenset({"1", "L", "P"})
_MOST_SHOWN = 8
"""If an untrusted picture is longer than 8 times its shorter side, only its middle is decoded: encoders use no more."""


class PictureLimits(NamedTuple):
    """Limits for a picture.

    Attributes
    ----------
    pixels : int
        Width times height. Pillow warns above 89 million.
    ratio : int
        The longer side in shorter sides.
    decoded_bytes : int
        The memory that the decoder needs at once. A JPEG file that is decoded at a fraction of its size counts as this
        fraction.
    """

    pixels: int = 80_000_000
    ratio: int = 1000
    decoded_bytes: int = 640_000_000


OWN_FILES = PictureLimits()
FROM_STRANGERS = PictureLimits(ratio=100, decoded_bytes=100_000_000)


class PictureRefusal(ValueError):
    """A picture that is not decoded, and why, in one line."""


@contextmanager
def opened(source: Any, limits: PictureLimits) -> Iterator[Any]:
    """The image in a file, of which only the header has been read, once it is known to be within the limits."""
    from PIL import Image

    try:
        image = Image.open(source, formats=FORMATS)
    except Image.UnidentifiedImageError:
        raise PictureRefusal(f"not a readable image file; these are read: {', '.join(FORMATS)}") from None
    except Image.DecompressionBombError:
        raise PictureRefusal(f"too many pixels, at most {limits.pixels:,} are read") from None
    with image:
        width, height = image.size
        if width * height > limits.pixels:
            raise PictureRefusal(f"{width} x {height} pixels, at most {limits.pixels:,} are read")
        if max(image.size) > limits.ratio * min(image.size):
            raise PictureRefusal(
                f"{width} x {height} pixels, the longer side must be at most {limits.ratio} shorter ones"
            )
        yield image


def decoded(image: Any, side: int | None, limits: PictureLimits) -> Any:
    """An opened picture, upright and in color.

    If the shorter side is at least twice ``side``, the picture is made smaller. A JPEG file is decoded at a fraction of
    its size, which is many times faster; other pictures are reduced after decoding.
    """
    if side is not None:
        scale = side / min(image.size)
        image.draft("RGB", (round(image.width * scale), round(image.height * scale)))
    n_bytes = image.width * image.height * _bytes_of_pixel(image)
    if n_bytes > limits.decoded_bytes:
        raise PictureRefusal(f"{n_bytes:,} bytes when decoded, at most {limits.decoded_bytes:,} are read")
    image.load()
    mode = "RGBA" if _is_see_through(image) else "RGB"
    picture = image if image.mode == mode else image.convert(mode)
    if side is not None and min(picture.size) >= 2 * side:
        picture = picture.reduce(min(picture.size) // side)
    if mode == "RGBA":
        picture = _on_ground(picture)
    turn = _TURNS.get(image.getexif().get(_ORIENTATION))
    if turn is not None:
        return picture.transpose(turn)
    return picture.copy() if picture is image else picture


def _is_see_through(image: Any) -> bool:
    return image.mode in _SEE_THROUGH or "transparency" in image.info


def _on_ground(image: Any) -> Any:
    """A picture in color. Transparent parts become white, or dark if all visible parts are nearly white."""
    from PIL import Image, ImageStat

    statistics = ImageStat.Stat(image.convert("L"), mask=image.getchannel("A").point(lambda alpha: alpha > 0 and 255))
    is_pale = statistics.count[0] > 0 and statistics.mean[0] > _PALE
    ground = Image.new("RGB", image.size, _DARK_GROUND if is_pale else "white")
    ground.paste(image, mask=image)
    return ground


def _bytes_of_pixel(image: Any) -> int:
    if image.format == "WEBP" or _is_see_through(image):
        return 8  # two frames in the decoder of WebP; a second picture, with the ground, of a transparent one
    return 1 if image.mode in _ONE_BYTE_MODES else 4


def middle(picture: Any, most_ratio: float = 1) -> tuple[int, int, int, int]:
    """The middle of a picture as a box whose sides do not differ by more than the given ratio."""
    shortest = min(picture.size)
    width, height = (min(length, int(shortest * most_ratio)) for length in picture.size)
    left, top = (picture.width - width) // 2, (picture.height - height) // 2
    return left, top, left + width, top + height


# -- as a process of its own ------------------------------------------------------------------------------------------

ASKED = struct.Struct("<IQ")  # side, length of the file that follows
ANSWERED = struct.Struct("<?IIQ")  # is a picture, width, height, length of the pixels or of the reason that follow


def _serve(source: BinaryIO, sink: BinaryIO, most_bytes: int) -> None:
    """Answer each picture with its pixels, or with the reason why it has none, until the input ends."""
    from PIL import Image

    Image.preinit()
    Image.init()
    _limit_memory(most_bytes)
    while len(head := source.read(ASKED.size)) == ASKED.size:
        side, length = ASKED.unpack(head)
        is_picture, size, answer = _answer(source.read(length), side)
        sink.write(ANSWERED.pack(is_picture, *size, len(answer)) + answer)
        sink.flush()


def _answer(content: bytes, side: int) -> tuple[bool, tuple[int, int], bytes]:
    try:
        with opened(io.BytesIO(content), FROM_STRANGERS) as image:
            picture = decoded(image, side, FROM_STRANGERS)
        picture = picture.crop(middle(picture, _MOST_SHOWN))
        return True, picture.size, picture.tobytes()
    except PictureRefusal as refusal:
        return False, (0, 0), str(refusal).encode()
    except MemoryError:
        return False, (0, 0), b"it takes too much memory to decode"
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        return False, (0, 0), f"not a readable image file ({reason})".encode()


def _limit_memory(most_bytes: int) -> None:
    """Limit the memory of this process to its present size plus the given bytes, on Linux."""
    try:
        import resource

        with open("/proc/self/status") as status:
            held = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (held + most_bytes, held + most_bytes))
    except (ImportError, OSError, ValueError, StopIteration):
        pass


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]))
