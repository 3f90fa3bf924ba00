"""The original files of every dataset, small, give the rows that were written."""

import numpy as np
import originals
import pytest

from hashlearn.datasets import SplitRule, cifar, load, mirflickr, mnist, nuswide

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (24, 32, 32, 3)).astype(np.uint8)
CLASSES = (np.arange(24) % 10).astype(np.uint8)


class TestMnist:
    IMAGES = RANDOM.integers(0, 256, (50, 28, 28)).astype(np.uint8)
    LABELS = (np.arange(50) % 10).astype(np.uint8)

    @pytest.mark.parametrize("end", ["", ".gz"])
    @pytest.mark.parametrize("inner", ["", "raw"])
    def test_train_is_followed_by_test(self, tmp_path, end, inner):
        originals.write_mnist(tmp_path / inner, self.IMAGES, self.LABELS, 40, end)
        records = mnist.read(tmp_path)
        np.testing.assert_array_equal(records.images, self.IMAGES)
        np.testing.assert_array_equal(records.features, self.IMAGES.reshape(50, 784))
        np.testing.assert_array_equal(records.labels, self.LABELS)

    def test_a_missing_file_means_it_is_not_there(self, tmp_path):
        originals.write_mnist(tmp_path, self.IMAGES, self.LABELS, 40)
        (tmp_path / "t10k-labels-idx1-ubyte").unlink()
        assert mnist.read(tmp_path) is None

    @pytest.mark.parametrize("end", ["", ".gz"])
    @pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"", lambda data: b"x" * 100])
    def test_damage_is_one_line(self, tmp_path, end, damage):
        originals.write_mnist(tmp_path, self.IMAGES, self.LABELS, 40, end)
        path = tmp_path / f"t10k-images-idx3-ubyte{end}"
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(ValueError, match=rf"^{path}: [^\n]+$"):
            mnist.read(tmp_path)

    def test_images_without_their_labels(self, tmp_path):
        originals.write_mnist(tmp_path, self.IMAGES, self.LABELS[:-1], 40)
        with pytest.raises(ValueError, match="do not belong together"):
            mnist.read(tmp_path)


class TestCifar:
    FILES = originals.cifar_files(PICTURES, CLASSES)

    @pytest.mark.parametrize("packed", [False, True])
    def test_folder_and_archive(self, tmp_path, packed):
        if packed:
            originals.write_archive(tmp_path / "cifar-10-binary.tar.gz", self.FILES)
        else:
            originals.write_files(tmp_path, self.FILES)
        records = cifar.read(tmp_path)
        np.testing.assert_array_equal(records.images, PICTURES)
        np.testing.assert_array_equal(records.labels, CLASSES)
        assert records.label_names[3] == "cat"

    def test_the_folder_of_the_batches_itself(self, tmp_path):
        originals.write_files(tmp_path, self.FILES)
        np.testing.assert_array_equal(cifar.read(tmp_path / "cifar-10-batches-bin").images, PICTURES)

    def test_damage_is_one_line(self, tmp_path):
        name = list(self.FILES)[2]
        label = bytes((200,)) + self.FILES[name][1:]
        for damaged in (self.FILES[name][:-100], b"", b"rubbish", label):
            originals.write_files(tmp_path, {**self.FILES, name: damaged})
            with pytest.raises(ValueError, match=rf"^{tmp_path / name}: [^\n]*$"):
                cifar.read(tmp_path)

    @pytest.mark.parametrize("name", ["cifar-10-python.tar.gz", "cifar-10-batches-py"])
    def test_the_pickled_version_is_not_read(self, tmp_path, name):
        (tmp_path / name).mkdir()
        with pytest.raises(ValueError, match=rf"{name}: a pickle, .* put cifar-10-binary.tar.gz beside it"):
            cifar.read(tmp_path)
        originals.write_archive(tmp_path / "cifar-10-binary.tar.gz", self.FILES)
        np.testing.assert_array_equal(cifar.read(tmp_path).labels, CLASSES)

    def test_a_damaged_archive_is_one_line(self, tmp_path):
        path = tmp_path / "cifar-10-binary.tar.gz"
        files = dict(self.FILES)
        originals.write_archive(path, files)
        path.write_bytes(path.read_bytes()[:-2000])
        with pytest.raises(ValueError, match=rf"^{path}: [^\n]*$"):
            cifar.read(tmp_path)
        files.popitem()
        originals.write_archive(path, files)
        with pytest.raises(ValueError, match="does not hold"):
            cifar.read(tmp_path)


class TestMirflickr:
    N = 60

    def write(self, folder, annotations="annotations", tags="meta/tags"):
        """Images 1..60: 'often' on the first 40, 'rare' on 3, no tag on the last; clouds on even ones, dog on 1..10."""
        concepts = {"clouds": range(2, self.N + 1, 2), "dog": range(1, 11), "clouds_r1": range(2, 9)}
        files = {f"{annotations}/{name}.txt": "\r\n".join(map(str, rows)).encode() for name, rows in concepts.items()}
        files[f"{annotations}/README.txt"] = b"not a concept"
        for number in range(1, self.N + 1):
            words = ["often"] * (number <= 40) + ["rare"] * (number < 4) + ["two words"] * (20 < number < self.N)
            files[f"{tags}/tags{number}.txt"] = "\n".join(words).encode()
        originals.write_files(folder, files)

    def test_frequent_tags_are_features_and_labelled_rows_are_used(self, tmp_path):
        self.write(tmp_path)
        records = mirflickr.read(tmp_path)
        assert records.label_names == ("clouds", "dog")
        numbers = np.arange(1, self.N + 1)
        np.testing.assert_array_equal(records.features[:, 0], numbers <= 40)
        np.testing.assert_array_equal(records.features[:, 1], (numbers > 20) & (numbers < 60))
        np.testing.assert_array_equal(records.labels[:, 0], numbers % 2 == 0)
        np.testing.assert_array_equal(
            records.rows, np.flatnonzero(((numbers % 2 == 0) | (numbers <= 10)) & (numbers < 60))
        )

    def test_features_of_ones_own(self, tmp_path):
        self.write(tmp_path, annotations="mirflickr25k_annotations_v080", tags="unread")
        with pytest.raises(ValueError, match=r"needs features\.npy"):
            mirflickr.read(tmp_path)
        own = np.arange(self.N * 2, dtype=np.float32).reshape(self.N, 2)
        np.save(tmp_path / "features.npy", own)
        data = load(tmp_path, split=SplitRule(total=4))
        np.testing.assert_array_equal(data.features, own[mirflickr.read(tmp_path).rows])
        assert data.multilabel

    def test_problems(self, tmp_path):
        self.write(tmp_path)
        np.save(tmp_path / "features.npy", np.zeros((59, 2)))
        with pytest.raises(ValueError, match="59 rows of features for 60"):
            mirflickr.read(tmp_path)
        (tmp_path / "features.npy").unlink()
        (tmp_path / "annotations" / "dog.txt").write_text("61")
        with pytest.raises(ValueError, match=r"dog\.txt: image numbers must be 1 to 60"):
            mirflickr.read(tmp_path)
        (tmp_path / "annotations" / "dog.txt").write_text("one")
        with pytest.raises(ValueError, match=r"dog\.txt: it must hold image numbers"):
            mirflickr.read(tmp_path)
        (tmp_path / "meta" / "tags" / "tags7.txt").rename(tmp_path / "meta" / "tags" / "tags70.txt")
        with pytest.raises(ValueError, match=r"tags7\.txt: missing"):
            mirflickr.read(tmp_path)


class TestNusWide:
    N = 400

    def write(self, folder, place="Groundtruth/AllLabels"):
        """25 concepts; concept k is on every (k + 2)th image, so the first 21 are the frequent ones."""
        labels = np.stack([np.arange(self.N) % (k + 2) == 1 for k in range(25)], axis=1).astype(np.uint8)
        files = {
            f"{place}/Labels_{chr(ord('a') + k)}.txt": b"".join(b"%d\r\n" % value for value in labels[:, k])
            for k in range(25)
        }
        originals.write_files(folder, files)
        return labels

    @pytest.mark.parametrize("place", ["Groundtruth/AllLabels", "AllLabels", "."])
    def test_the_21_most_frequent_concepts(self, tmp_path, place):
        labels = self.write(tmp_path, place)
        np.save(tmp_path / "features.npy", np.arange(self.N * 3).reshape(self.N, 3))
        records = nuswide.read(tmp_path)
        assert records.label_names == tuple("abcdefghijklmnopqrstu")
        np.testing.assert_array_equal(records.labels, labels[:, :21])
        np.testing.assert_array_equal(records.rows, np.flatnonzero(labels[:, :21].any(axis=1)))

    def test_rows_are_drawn_for_queries_and_database(self, tmp_path):
        labels = self.write(tmp_path)
        np.save(tmp_path / "features.npy", np.arange(self.N)[:, None])
        data = load(tmp_path, split=SplitRule(per_class=3, database=100))
        assert len(data.query) == 63
        assert len(data.database) == 100
        np.testing.assert_array_equal(data.labels, labels[data.features[:, 0], :21])
        assert (data.query_labels.sum(axis=0) >= 3).all()

    def test_tags_where_there_are_no_features(self, tmp_path, monkeypatch):
        monkeypatch.setattr(nuswide, "BLOCK", 1001)
        self.write(tmp_path)
        with pytest.raises(ValueError, match=r"needs features\.npy"):
            nuswide.read(tmp_path)
        tags = RANDOM.integers(0, 2, (self.N, 7))
        text = "\n".join("\t".join(map(str, row)) + "\t" for row in tags)
        originals.write_files(tmp_path, {"NUS_WID_Tags/AllTags1k.txt": text.encode()})
        np.testing.assert_array_equal(nuswide.read(tmp_path).features, tags)

    def test_problems(self, tmp_path):
        self.write(tmp_path)
        np.save(tmp_path / "features.npy", np.zeros((399, 2)))
        with pytest.raises(ValueError, match="399 rows of features for 400"):
            nuswide.read(tmp_path)
        label_file = tmp_path / "Groundtruth" / "AllLabels" / "Labels_c.txt"
        for text, message in (("0\n1\n", "2 images, but 400"), ("0\n2\n", "nothing but 0 and 1"), ("", "empty")):
            label_file.write_text(text)
            with pytest.raises(ValueError, match=rf"Labels_c\.txt: .*{message}"):
                nuswide.read(tmp_path)
