"""Where a dataset is found, in which order, and with which split."""

import hashlib
import sys
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import originals
import pytest
import scipy.io

from hashlearn.datasets import DATASETS, SplitRule, cache_folder, load
from hashlearn.datasets.catalog import CATALOG
from hashlearn.datasets.download import DownloadError, RemoteFile
from hashlearn.features import gist

RANDOM = np.random.default_rng(0)
DIGITS = RANDOM.integers(0, 256, (1100, 4, 4)).astype(np.uint8)
LABELS = (np.arange(1100) % 10).astype(np.uint8)
PICTURES = RANDOM.integers(0, 256, (60, 32, 32, 3)).astype(np.uint8)
CLASSES = (np.arange(60) % 10).astype(np.uint8)
FEW = SplitRule(per_class=2)


def test_every_name_is_known_in_any_case():
    assert set(DATASETS) == {
        "mnist",
        "fashion-mnist",
        "cifar-10",
        "cifar-10-cnn",
        "ag-news-minilm",
        "flickr25k",
        "nus-wide",
        "digits",
    }
    assert load("Digits").name == "digits"


def test_digits():
    data = load("digits")
    assert data.features.shape == (1797, 64)
    assert data.images.shape == (1797, 8, 8)
    assert np.bincount(data.query_labels).tolist() == [20] * 10


def test_the_papers_splits():
    assert CATALOG["mnist"].rule == SplitRule(per_class=100)
    assert CATALOG["cifar-10"].rule == SplitRule(per_class=100)
    assert CATALOG["flickr25k"].rule == SplitRule(total=1000)
    assert CATALOG["nus-wide"].rule == SplitRule(per_class=100, database=100_000)


class TestPrepared:
    @pytest.mark.parametrize(
        ("name", "file", "labels"),
        [
            ("mnist", "mnist.npz", {"y": LABELS}),
            ("cifar-10", "cifar10_gist512.npz", {"y": LABELS}),
            ("flickr25k", "flickr25k_tags1386.npz", {"Y": np.eye(10, dtype=np.uint8)[LABELS]}),
        ],
    )
    def test_npz_with_its_split(self, tmp_path, monkeypatch, name, file, labels):
        query = np.array([5, 3, 900])
        np.savez(tmp_path / file, X=DIGITS.reshape(1100, 16), query=query, **labels)
        monkeypatch.setenv("HASHLEARN_DATA", str(tmp_path))
        data = load(name)
        np.testing.assert_array_equal(data.features, DIGITS.reshape(1100, 16))
        np.testing.assert_array_equal(data.query, query)
        np.testing.assert_array_equal(data.labels, next(iter(labels.values())))
        assert data.source == str(tmp_path / file)
        redrawn = load(name, split=SplitRule(per_class=4))
        assert len(redrawn.query) == 40

    def test_features_of_a_network_kept_in_bytes(self, tmp_path):
        V = RANDOM.integers(0, 256, (30, 6), dtype=np.uint8)
        np.savez(tmp_path / "cifar10_cnn1280.npz", V=V, y=LABELS[:30], query=np.arange(5))
        data = load("cifar-10-cnn", folder=tmp_path)
        np.testing.assert_allclose(data.features, 6 * (V / 255) ** 2, rtol=1e-5)
        assert (data.features.dtype, len(data.query)) == (np.float32, 5)

    @pytest.mark.parametrize("write", ["v5", "v7.3"])
    @pytest.mark.parametrize("several", [False, True])
    def test_mat_of_the_official_demo(self, tmp_path, write, several):
        X = RANDOM.normal(size=(30, 6))
        ground = np.eye(10)[LABELS[:30]] if several else LABELS[:30, None].astype(float)
        arrays = {"traindata": X[:20], "testdata": X[20:], "traingnd": ground[:20], "testgnd": ground[20:]}
        if write == "v5":
            scipy.io.savemat(tmp_path / "nus-wide.mat", arrays)
        else:
            h5py = pytest.importorskip("h5py")
            with h5py.File(tmp_path / "nus-wide.mat", "w", userblock_size=512) as file:
                file.update({name: values.T for name, values in arrays.items()})
        data = load("nus-wide", folder=tmp_path)
        np.testing.assert_array_equal(data.database, X[:20])
        np.testing.assert_array_equal(data.queries, X[20:])
        np.testing.assert_array_equal(data.labels, ground if several else LABELS[:30])
        assert data.labels.dtype.kind in "ui"
        assert data.multilabel == several

    def test_mat_whose_parts_do_not_fit(self, tmp_path):
        arrays = {"traindata": np.zeros((4, 3)), "testdata": np.zeros((2, 2))}
        scipy.io.savemat(tmp_path / "a.mat", arrays)
        with pytest.raises(ValueError, match=r"a\.mat: traindata has 3 columns and testdata 2"):
            load(tmp_path / "a.mat")
        arrays = {"traindata": np.zeros((4, 3)), "testdata": np.zeros((2, 3)), "traingnd": np.ones((3, 1))}
        scipy.io.savemat(tmp_path / "a.mat", {**arrays, "testgnd": np.ones((2, 1))})
        with pytest.raises(ValueError, match="traingnd and testgnd do not have a row for every row"):
            load(tmp_path / "a.mat")
        scipy.io.savemat(tmp_path / "a.mat", {**arrays, "traingnd": np.full((4, 1), 0.5), "testgnd": np.ones((2, 1))})
        with pytest.raises(ValueError, match="labels must be whole numbers"):
            load(tmp_path / "a.mat")

    def test_vectors_may_have_the_name_of_labels(self, tmp_path):
        X = np.arange(8.0).reshape(4, 2) + 0.5
        np.savez(tmp_path / "a.npz", x=X, y=-X)
        data = load(tmp_path / "a.npz", array="y")
        assert sorted(np.vstack([data.database, data.queries]).tolist()) == sorted((-X).tolist())
        with pytest.raises(ValueError, match=r"a\.npz: labels must be whole numbers .* in 'y'"):
            load(tmp_path / "a.npz", array="x")

    def test_keras_npz(self, tmp_path):
        parts = {"x_train": DIGITS[:1000], "x_test": DIGITS[1000:], "y_train": LABELS[:1000], "y_test": LABELS[1000:]}
        np.savez(tmp_path / "mnist.npz", **parts)
        data = load("mnist", folder=tmp_path)
        np.testing.assert_array_equal(data.images, DIGITS)
        assert np.bincount(data.query_labels).tolist() == [100] * 10

    def test_ann_benchmarks(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        train, test = RANDOM.normal(size=(20, 4)), RANDOM.normal(size=(3, 4))
        neighbors = np.argsort(((test[:, None] - train) ** 2).sum(axis=-1))[:, :5]
        with h5py.File(tmp_path / "glove.hdf5", "w") as file:
            file.update({"train": train, "test": test, "neighbors": neighbors, "distances": np.zeros((3, 5))})
        data = load(tmp_path / "glove.hdf5")
        np.testing.assert_array_equal(data.database, train)
        np.testing.assert_array_equal(data.queries, test)
        np.testing.assert_array_equal(data.neighbors, neighbors)
        assert load(tmp_path / "glove.hdf5", split=SplitRule(total=2)).neighbors is None

    def test_vectors_of_ones_own(self, tmp_path):
        np.save(tmp_path / "mine.npy", RANDOM.normal(size=(50, 4)))
        data = load(tmp_path / "mine.npy")
        assert (data.name, len(data.query), data.labels) == ("mine", 5, None)
        np.testing.assert_array_equal(load(str(tmp_path / "mine.npy")).query, data.query)

    def test_a_query_beyond_the_rows_names_the_file(self, tmp_path):
        np.savez(tmp_path / "a.npz", X=DIGITS.reshape(1100, 16), query=[1100])
        with pytest.raises(ValueError, match=r"a\.npz: query must be"):
            load(tmp_path / "a.npz")


class TestOriginals:
    def test_mnist_and_fashion_mnist_are_told_apart(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HASHLEARN_DATA", str(tmp_path))
        originals.write_mnist(tmp_path, DIGITS, LABELS, 1000)
        np.testing.assert_array_equal(load("mnist").images, DIGITS)
        with pytest.raises(FileNotFoundError, match="fashion-mnist is not on this machine"):
            load("fashion-mnist", download=False)
        originals.write_mnist(tmp_path / "fashion-mnist", DIGITS[::-1].copy(), LABELS, 1000, ".gz")
        np.testing.assert_array_equal(load("fashion-mnist").images, DIGITS[::-1])
        np.testing.assert_array_equal(load("mnist").images, DIGITS)

    def test_a_split_is_drawn_once(self, tmp_path, cache):
        originals.write_mnist(tmp_path, DIGITS, LABELS, 1000)
        first = load(tmp_path)
        assert np.bincount(first.query_labels).tolist() == [100] * 10
        assert len(list((cache / "splits").iterdir())) == 1
        np.testing.assert_array_equal(load(tmp_path).query, first.query)
        assert not np.array_equal(load(tmp_path, seed=1).query, first.query)

    def test_cifar_is_described_by_gist_once(self, tmp_path, monkeypatch):
        originals.write_files(tmp_path, originals.cifar_files(PICTURES, CLASSES))
        data = load("cifar-10", folder=tmp_path, split=FEW)
        np.testing.assert_array_equal(data.images, PICTURES)
        np.testing.assert_array_equal(data.features, gist(PICTURES))
        monkeypatch.setitem(sys.modules, "hashlearn.features.gist", None)
        again = load("cifar-10", folder=tmp_path, split=FEW)
        np.testing.assert_array_equal(again.features, data.features)
        pixels = load("cifar-10", folder=tmp_path, split=FEW, features="pixels")
        np.testing.assert_array_equal(pixels.features, PICTURES.reshape(60, -1))

    def test_features_need_images(self, tmp_path):
        np.savez(tmp_path / "cifar10_gist512.npz", X=DIGITS.reshape(1100, 16), y=LABELS)
        with pytest.raises(ValueError, match="features='pixels' needs images"):
            load("cifar-10", folder=tmp_path, features="pixels")
        with pytest.raises(ValueError, match="features must be one of"):
            load("cifar-10", folder=tmp_path, features="cnn")


class TestDownload:
    @pytest.fixture
    def site(self, tmp_path, monkeypatch):
        """A server of MNIST's four files, and a catalog that points to it."""
        folder = tmp_path / "site"
        originals.write_mnist(folder, DIGITS, LABELS, 1000, ".gz")

        class Quiet(SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}/"
        remote = tuple(
            RemoteFile(path.name, (base + path.name,), "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest())
            for path in sorted(folder.iterdir())
        )
        monkeypatch.setitem(CATALOG, "mnist", replace(CATALOG["mnist"], remote=remote))
        yield folder
        server.shutdown()
        server.server_close()
        thread.join()

    def test_into_the_cache_and_from_there(self, site, cache):
        np.testing.assert_array_equal(load("mnist").images, DIGITS)
        assert len(list((cache / "mnist").iterdir())) == 4
        for path in site.iterdir():
            path.unlink()
        np.testing.assert_array_equal(load("mnist").images, DIGITS)

    def test_what_is_in_the_data_folder_is_not_downloaded(self, site, cache, tmp_path):
        np.savez(tmp_path / "mnist.npz", X=DIGITS.reshape(1100, 16)[::-1], y=LABELS, query=[0])
        np.testing.assert_array_equal(load("mnist", folder=tmp_path).features, DIGITS.reshape(1100, 16)[::-1])
        assert not (cache / "mnist").exists()

    def test_a_failure_says_what_to_do_instead(self, site, cache):
        damaged = site / "train-images-idx3-ubyte.gz"
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
        with pytest.raises(DownloadError, match=r"^train-images[^\n]*checksum[^\n]*HASHLEARN_DATA[^\n]*$"):
            load("mnist")
        assert not (cache / "mnist" / damaged.name).exists()

    def test_a_part_is_not_taken_for_the_file(self, site, cache):
        (cache / "mnist").mkdir(parents=True)
        for path in site.iterdir():
            (cache / "mnist" / f"{path.name}.part").write_bytes(path.read_bytes()[:100])
        with pytest.raises(FileNotFoundError, match="mnist is not on this machine"):
            load("mnist", download=False)
        np.testing.assert_array_equal(load("mnist").images, DIGITS)


class TestNotThere:
    @pytest.mark.parametrize("name", ["nus-wide", "flickr25k"])
    def test_what_cannot_be_downloaded_is_asked_for(self, name):
        with pytest.raises(FileNotFoundError, match=rf"{name}\.mat[^\n]*HASHLEARN_DATA"):
            load(name)

    def test_no_such_name_file_or_folder(self, tmp_path, monkeypatch):
        with pytest.raises(FileNotFoundError, match="known are mnist"):
            load("imagenet")
        with pytest.raises(ValueError, match="no original files of a known dataset"):
            load(tmp_path)
        monkeypatch.setenv("HASHLEARN_DATA", str(tmp_path / "none"))
        with pytest.raises(FileNotFoundError, match="HASHLEARN_DATA must be a folder"):
            load("mnist")


def test_the_cache_is_where_the_platform_keeps_caches(monkeypatch, tmp_path):
    assert cache_folder().name == "cache"
    monkeypatch.delenv("HASHLEARN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert (tmp_path / "xdg" if sys.platform == "linux" else Path.home()) in cache_folder().parents
