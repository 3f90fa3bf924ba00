"""``hashlearn data info``, ``hashlearn features gist`` and ``hashlearn features embed``."""

import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from hashlearn.features import encoder_named, folder_of_images, gist


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HASHLEARN_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("HASHLEARN_DATA", raising=False)


class TestInfo:
    def test_a_dataset_by_name(self, run):
        outcome = run("data", "info", "digits")
        assert outcome.code == 0
        assert "1797 x 64 uint8" in outcome.out
        assert "200 queries, 1597 in the database" in outcome.out
        assert "10 classes, one a row" in outcome.out

    def test_a_file_with_several_labels_a_row(self, run, folder):
        np.savez("tags.npz", X=np.ones((8, 3)), Y=np.tile([1, 1, 0], (8, 1)), query=[7])
        outcome = run("data", "info", "tags.npz")
        assert "3 classes, 2.0 a row" in outcome.out
        assert "1 queries, 7 in the database" in outcome.out

    def test_a_plain_file(self, run, folder):
        assert "labels    none" in run("data", "info", "vectors.npy").out

    @pytest.mark.parametrize("name", ["nonesuch", "nus-wide", "mnist", "model", "model/config.json"])
    def test_what_is_not_there_is_one_line(self, refused, name):
        refused("data", "info", name)

    def test_a_name_wanted_lists_the_names(self, refused, folder):
        np.savez("two.npz", left=np.ones((4, 2)), right=np.ones((4, 2)))
        assert "left, right" in refused("data", "info", "two.npz")

    def test_other_files_in_an_npz(self, run, folder):
        np.savez("a.npz", X=np.ones((8, 3)), y=np.arange(8) % 2, query=[7])
        with zipfile.ZipFile("a.npz", "a") as archive:
            archive.writestr("readme.txt", "hello")
        outcome = run("data", "info", "a.npz")
        assert outcome.code == 0
        assert "8 x 3 float64" in outcome.out
        assert "2 classes, one a row" in outcome.out

    def test_a_sparse_matrix(self, run, folder):
        scipy.sparse.save_npz("a.npz", scipy.sparse.eye_array(20, format="csr"))
        assert "20 x 20 float64" in run("data", "info", "a.npz").out

    def test_damaged_sparse_matrices_are_one_line(self, run, folder):
        scipy.sparse.save_npz("whole.npz", scipy.sparse.eye_array(20, format="csr"))
        content = (folder / "whole.npz").read_bytes()
        outcomes = []
        for place in range(0, len(content), 29):
            damaged = bytearray(content)
            damaged[place : place + 9] = b"\xff" * 9
            (folder / "a.npz").write_bytes(damaged)
            outcomes.append(run("data", "info", "a.npz"))
        refused = [outcome for outcome in outcomes if outcome.code != 0]
        assert len(refused) > len(outcomes) / 2
        assert all(outcome.code == 2 and outcome.err.startswith("hashlearn: error: a.npz: ") for outcome in refused)
        assert all("20 x 20 float64" in outcome.out for outcome in outcomes if outcome.code == 0)

    def test_more_memory_than_is_allowed(self, refused, folder, monkeypatch):
        np.savez_compressed("a.npz", X=np.zeros((1000, 1000)))
        monkeypatch.setenv("HASHLEARN_MAX_BYTES", "1000000")
        assert "set HASHLEARN_MAX_BYTES=8000" in refused("data", "info", "a.npz")


class TestGist:
    @pytest.fixture
    def photos(self, folder):
        Image = pytest.importorskip("PIL.Image")
        pixels = np.random.default_rng(0).integers(0, 256, (11, 16, 16, 3)).astype(np.uint8)
        (folder / "photos").mkdir()
        for number, image in enumerate(pixels):
            Image.fromarray(image).save(folder / "photos" / f"im{number}.png")
        return pixels

    def test_a_folder_of_images(self, run, photos):
        outcome = run("features", "gist", "photos", "--out", "X.npy", "--names", "names.txt")
        assert outcome.code == 0, outcome
        np.testing.assert_array_equal(np.load("X.npy"), gist(photos))
        with open("names.txt") as file:
            assert file.read().split() == [f"im{number}.png" for number in range(11)]
        assert "11 images of 16 x 16 pixels, 512 numbers each" in outcome.out

    def test_another_size(self, run, photos):
        run("features", "gist", "photos", "--out", "X.npy", "--size", "8")
        assert np.load("X.npy").shape == (11, 512)

    def test_problems_are_one_line_and_leave_what_was_there(self, refused, photos, folder):
        np.save("X.npy", np.arange(3))
        assert "no images" in refused("features", "gist", "model", "--out", "X.npy")
        assert ".npy" in refused("features", "gist", "photos", "--out", "X.csv")
        assert "--out" in refused("features", "gist", "photos", "--out", "none/X.npy")
        assert "--names" in refused("features", "gist", "photos", "--out", "X.npy", "--names", "model")
        assert "of its own" in refused("features", "gist", "photos", "--out", "X.npy", "--names", "X.npy")
        assert "is an input" in refused("features", "gist", "photos", "-o", "X.npy", "--names", "photos/im3.png")
        (folder / "photos" / "im3.png").write_bytes(b"no image")
        assert "im3.png" in refused("features", "gist", "photos", "--out", "X.npy")


class TestEmbed:
    @pytest.fixture
    def texts(self, folder):
        rows = ["text,topic", "a red fox,animals", ",nothing", '"blue sky, clouds",weather', "a red dog,animals"]
        (folder / "news.csv").write_text("\n".join(rows))
        return ["a red fox", "blue sky, clouds", "a red dog"]

    @pytest.fixture
    def photos(self, folder):
        Image = pytest.importorskip("PIL.Image")
        for name in ("cats/1.png", "cats/2.png", "dogs/1.png"):
            (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(len(name)).integers(0, 256, (32, 32, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name)

    def test_texts_and_their_labels_in_the_order_of_the_table(self, run, texts):
        outcome = run(
            *("features", "embed", "news.csv", "--text", "text", "--label", "topic"),
            *("--encoder", "tfidf", "--out", "X.npy", "--labels", "kinds.npy"),
        )
        assert outcome.code == 0, outcome
        expected = encoder_named("tfidf", "text").fit(texts).encode(texts)
        np.testing.assert_allclose(np.load("X.npy"), expected, atol=1e-6)
        assert np.load("kinds.npy").tolist() == ["animals", "weather", "animals"]
        assert "3 texts" in outcome.out

    def test_images_are_labeled_by_their_folders_and_the_broken_are_named(self, run, photos, folder):
        (folder / "photos" / "dogs" / "0.png").write_bytes(b"no image")
        outcome = run(
            *("features", "embed", "photos", "--encoder", "gist", "--out", "X.npy"),
            *("--labels", "kinds.npy", "--names", "names.txt"),
        )
        assert outcome.code == 0, outcome
        np.testing.assert_array_equal(np.load("X.npy"), folder_of_images("photos", "gist").vectors)
        assert np.load("kinds.npy").tolist() == ["cats", "cats", "dogs"]
        assert (folder / "names.txt").read_text().split() == ["cats/1.png", "cats/2.png", "dogs/1.png"]
        assert "1 files skipped (dogs/0.png" in outcome.err

    def test_problems_are_one_line_and_leave_what_was_there(self, refused, texts, photos, folder):
        np.save("X.npy", np.arange(3))
        of_texts = ("features", "embed", "news.csv", "--encoder", "tfidf", "--out", "X.npy")
        of_images = ("features", "embed", "photos", "--encoder", "gist", "--out", "X.npy")
        assert "--text must name the column" in refused(*of_texts)
        assert "no column named 'body'" in refused(*of_texts, "--text", "body")
        assert "belong together" in refused(*of_texts, "--text", "text", "--label", "topic")
        assert "--label must name a column" in refused(
            *of_texts, "--text", "text", "--label", "kind", "--labels", "kinds.npy"
        )
        assert "--names is for a folder" in refused(*of_texts, "--text", "text", "--names", "names.txt")
        assert "which is --out too" in refused(*of_texts, "--text", "text", "--label", "topic", "--labels", "X.npy")
        assert ".npy" in refused(*of_texts[:-1], "X.csv", "--text", "text")
        assert "must take texts" in refused(*of_texts, "--text", "text", "--encoder", "gist")
        assert "are for a .csv file" in refused(*of_images, "--text", "text")
        (folder / "photos" / "dogs" / "1.png").rename(folder / "photos" / "1.png")
        assert "got 1.png in photos" in refused(*of_images, "--labels", "kinds.npy")
        assert not (folder / "kinds.npy").exists()


class TestUnderstood:
    """``data info`` says how a file was read, so that a header that is read as a vector is seen."""

    def test_a_header_of_numbers(self, run, refused, folder):
        pd.DataFrame(np.arange(12).reshape(4, 3) / 2).to_csv("a.csv", index=False)
        said = run("data", "info", "a.csv").out
        assert "features  4 x 3 float64" in said
        assert "header    the first line names the columns: 0, 1, 2" in said
        assert "first row 0 0.5 1\n" in said
        said = run("data", "info", "a.csv", "--header", "no").out
        assert "features  5 x 3 float64" in said
        assert "first row 0 1 2\n" in said
        assert "only csv and tsv files have a header; leave --header out" in refused(
            "fit", "vectors.npy", "--header", "yes", "-o", "other"
        )

    def test_the_header_option_of_fit_and_encode(self, run, folder):
        (folder / "a.csv").write_text("0,1\n" + "\n".join(f"{row},{row % 3}" for row in range(20)) + "\n")
        for header, n in (("yes", 20), ("no", 21)):
            said = run("fit", "a.csv", "-m", "lsh", "--bits", 2, "--header", header, "-o", "m").out
            assert f"fitted to {n} vectors" in said
            assert f": {n} codes" in run("encode", "m", "a.csv", "--header", header, "-o", f"{header}.npy").out
            found = run("search", "m", f"{header}.npy", "a.csv", "-k", 1, "--header", header)
            assert found.out.count("\n") == n

    def test_the_header_option_of_every_verb_that_reads_vectors(self, run, refused, folder):
        """A file whose first line could be a row: two integers say too little."""
        rows = [[row % 7, row % 5] for row in range(110)]
        (folder / "a.csv").write_text("0,1\n" + "".join(f"{x},{y}\n" for x, y in rows))
        np.save("rows.npy", np.array(rows, np.float64))
        run("fit", "rows.npy", "-m", "lsh", "--bits", 2, "-o", "m")
        run("encode", "m", "rows.npy", "-o", "codes.npy")
        verbs = (
            ("search", "m", "codes.npy", "a.csv", "-k", 1, "--rerank", "a.csv"),
            ("tune", "m", "codes.npy", "a.csv", "--queries", "a.csv", "-k", 3),
            ("evaluate", "codes.npy", "codes.npy", "--vectors", "a.csv", "--query-vectors", "rows.npy", "-k", 2),
            ("dedup", "a.csv", "--max-distance", "0.1", "--metric", "euclidean"),
            ("dedup", "a.csv", "--against", "rows.npy", "--max-distance", "0.1", "--metric", "euclidean"),
            ("recommend", "a.csv", "--bytes", 1),
        )
        for verb in verbs:
            with_names = run(*verb, "--header", "yes")
            assert with_names.code == 0, with_names.err
            plain = run(*("rows.npy" if word == "a.csv" else word for word in verb))
            if verb[0] != "tune":  # which prints times
                assert with_names.out.replace("a.csv", "rows.npy") == plain.out
            without = run(*verb, "--header", "no")
            assert without.out != with_names.out  # one row more, or not as many as there are codes
            no_table = ["rows.npy" if word == "a.csv" else word for word in verb]
            assert "only csv and tsv files have a header" in refused(*no_table, "--header", "no")

    def test_fields_and_columns(self, run, folder):
        (folder / "a.jsonl").write_text('{"id": "a", "v": [1, 2]}\n{"id": "b", "v": [3, 4]}\n')
        assert "fields    id (text), v (vector of 2)" in run("data", "info", "a.jsonl").out
        np.savez("two.npz", left=np.ones((4, 2)), right=np.ones((5, 2)))
        assert "5 x 2" in run("data", "info", "two.npz:right").out
