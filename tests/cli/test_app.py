"""``hashlearn app``: bad input is one line and exit code 2, before anything is served."""

import socket

import pytest

pytest.importorskip("fastapi")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HASHLEARN_CACHE", str(tmp_path_factory.mktemp("cache")))


def test_what_cannot_be_shown_is_refused(refused, folder):
    (folder / "empty").mkdir()
    (folder / "broken").mkdir()
    (folder / "broken" / "a.png").write_bytes(b"no image")
    (folder / "t.csv").write_text("title\nfox\n")
    Image.new("RGB", (10, 10)).save(folder / "sprite.png")
    port = ("--port", "0")
    assert "no images in empty" in refused("app", "empty", *port)
    assert "no images in broken that can be read (1 could not be read)" in refused("app", "broken", *port)
    assert "not there" in refused("app", "nowhere", *port)
    assert "no column named 'text'; it has 'title'" in refused("app", "t.csv", "--text", "text", *port)
    assert "--text is for" in refused("app", "empty", "--text", "x", *port)
    assert "--labels is for" in refused("app", "--labels", "y.npy", *port)
    assert "--ids is for" in refused("app", "--ids", "t.csv:title", *port)
    assert "a column of the texts" in refused("app", "t.csv", "--text", "title", "--ids", "y.csv:title", *port)
    assert "--texts is for" in refused("app", "t.csv", "--text", "title", "--texts", "t.csv:title", *port)
    assert "leave --header out" in refused("app", "vectors.npy", "--header", "yes", *port)
    assert "no column named 'x'" in refused("app", "vectors.npy", "--payloads", "t.csv:x", *port)
    assert "--encoder is for" in refused("app", "vectors.npy", "--encoder", "gist", *port)
    assert "takes texts" in refused("app", "broken", "--encoder", "tfidf", *port)
    assert "method must be one of" in refused("app", "vectors.npy", "--method", "magic", *port)
    assert "one label for each of the 150 vectors" in refused("app", "vectors.npy", "--labels", "yq.npy", *port)
    assert "square grid" in refused("app", "vectors.npy", "--images", "sprite.png", *port)


def test_a_port_in_use_is_refused_before_the_work(refused):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        message = refused("app", "nowhere", "--port", taken.getsockname()[1])
    assert "port must be free" in message
