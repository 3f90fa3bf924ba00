"""Decoding of untrusted pictures in a separate process, so that a crash or an attack stays in that process."""

import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

from hashlearn.deadline import check_deadline, remaining_seconds
from hashlearn.extras import require
from hashlearn.features import picture_gate
from hashlearn.features.picture_gate import ANSWERED, ASKED
from hashlearn.rows.formats.problems import FileProblem

MOST_BYTES = 220 * 1024 * 1024
"""Memory that decoding a picture may take. 25 million pixels in color need 200 MB for a moment."""
MOST_SECONDS = 10.0


class PictureDecoder:
    """Decodes one picture at a time in another process, whose memory and time are limited.

    The process starts with the first picture, and again if a picture has ended it. Its memory is limited on Linux only.
    The limits of :mod:`~hashlearn.features.picture_gate` hold on every system.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._one_at_a_time = threading.Lock()

    def decode(self, content: bytes, side: int) -> Any:
        """A picture, upright and in color, as an image of Pillow.

        Parameters
        ----------
        content : bytes
            An image file.
        side : int
            A picture whose shorter side is at least twice this long is made smaller.

        Raises
        ------
        FileProblem
            One line: no picture, a damaged one, or one above the limits for untrusted pictures.
        """
        with self._one_at_a_time:
            check_deadline()
            process = self._running()
            seconds = min(MOST_SECONDS, remaining_seconds())
            too_late = threading.Timer(seconds, process.kill)
            too_late.start()
            try:
                return self._asked(process, content, side)
            except FileProblem:
                raise
            except (OSError, EOFError):
                self.close()
                reason = f"it takes too much memory, or more than {seconds:.0f} s, to decode"
                raise FileProblem("image", reason) from None
            except BaseException:  # after an interrupt, the next picture would get the answer to this one
                self.close()
                raise
            finally:
                too_late.cancel()

    def start(self) -> None:
        """Start the process, so that the first picture does not wait for it."""
        with self._one_at_a_time:
            self._running()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _running(self) -> subprocess.Popen:
        if self._process is None or self._process.poll() is not None:
            self.close()
            require("PIL.Image", "images")
            command = [sys.executable, "-P", str(Path(picture_gate.__file__)), str(MOST_BYTES)]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C stops the server, and the server ends this process
            )
        return self._process

    def _asked(self, process: subprocess.Popen, content: bytes, side: int) -> Any:
        sink, source = process.stdin, process.stdout
        assert sink is not None
        assert source is not None
        sink.write(ASKED.pack(side, len(content)))
        sink.write(content)
        sink.flush()
        is_picture, width, height, length = ANSWERED.unpack(_exactly(source, ANSWERED.size))
        answer = _exactly(source, length)
        if not is_picture:
            raise FileProblem("image", answer.decode("utf-8", "replace"))
        return require("PIL.Image", "images").frombytes("RGB", (width, height), answer)


@cache
def shared_decoder() -> PictureDecoder:
    """The decoder of this process."""
    return PictureDecoder()


def _exactly(source: Any, n: int) -> bytes:
    found = source.read(n)
    if len(found) < n:
        raise EOFError
    return found
