"""A saved model comes back whole, or not at all, and says why."""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    StandardScaler,
)

import hashlearn
from hashlearn import ITQ, LSH, METHODS, SimilaritySearch, load, save
from hashlearn.durable import files, model_folder
from hashlearn.durable.model_folder import CONFIG, TENSORS, read_model
from hashlearn.hashers.base import LinearHasher
from hashlearn.hashers.saving import digest_of, load_with_digest

X = np.random.RandomState(0).randn(150, 12) + 3.0


def itq(seed=0, **params):
    return ITQ(n_bits=8, random_state=seed, **params).fit(X)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    itq().save(folder)
    return folder


def rewrite(folder, change):
    """Change the config as a careful forger would: every checksum fits, in both files."""
    config = json.loads((folder / CONFIG).read_text())
    change(config)
    config["config_sha256"] = model_folder._config_checksum(config)
    text = json.dumps(config)
    (folder / CONFIG).write_text(text)
    save_file(load_file(folder / TENSORS), folder / TENSORS, metadata={"format": model_folder.FORMAT, "config": text})


@pytest.mark.parametrize("name", METHODS)
def test_every_method_comes_back_with_equal_codes(name, tmp_path):
    hasher = METHODS[name](n_bits=8, random_state=0).fit(X)
    hasher.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is type(hasher)
    np.testing.assert_array_equal(loaded.transform(X), hasher.transform(X))
    np.testing.assert_array_equal(loaded.decision_function(X), hasher.decision_function(X))
    assert str(loaded.get_params()) == str(hasher.get_params())
    assert set(vars(loaded)) == {name for name in vars(hasher) if name not in hasher._not_saved}


def test_a_loaded_model_can_be_fitted_again(model):
    again = load(model).fit(X)
    np.testing.assert_array_equal(again.transform(X), itq().transform(X))


@pytest.mark.parametrize("dtype", ["float16", "float32", ">f8", "int8", "bool"])
def test_array_parameters_keep_their_values_and_type(dtype, tmp_path):
    init = np.asfortranarray(np.arange(96).reshape(12, 8) % 2).astype(dtype)
    LSH(n_bits=8, init=init).fit(X).save(tmp_path / "m")
    loaded = load(tmp_path / "m").init
    np.testing.assert_array_equal(loaded, init)
    assert loaded.dtype == np.dtype(dtype).newbyteorder("=")


def test_feature_names_come_back(tmp_path):
    frame = pd.DataFrame(X, columns=[f"größe {i}" for i in range(12)])
    LSH(n_bits=8, random_state=0).fit(frame).save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert list(loaded.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame[frame.columns[::-1]])


@pytest.mark.parametrize("random_state", [np.random.RandomState(0), None, 7])
def test_a_random_generator_is_not_kept(random_state, tmp_path):
    LSH(n_bits=8, random_state=random_state).fit(X).save(tmp_path / "m")
    assert load(tmp_path / "m").random_state == (7 if random_state == 7 else None)


def test_values_json_has_no_word_for_come_back(tmp_path):
    hasher = itq()
    hasher.tuple_ = (1, [2.5, float("inf")], {"name": np.float32(0.5), "flag": np.bool_(True)})
    hasher.steps_ = [np.zeros((0, 3)), np.array(7)]
    hasher.nested_ = LSH(n_bits=3, random_state=1).fit(X)
    hasher.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.tuple_ == (1, [2.5, float("inf")], {"name": 0.5, "flag": True})
    assert loaded.steps_[0].shape == (0, 3)
    assert loaded.steps_[1] == 7
    np.testing.assert_array_equal(loaded.nested_.transform(X), hasher.nested_.transform(X))


def test_the_config_says_what_the_model_is(model):
    _, config = read_model(model)
    assert config["model"]["method"] == "itq"
    assert (config["n_bits"], config["n_features"]) == (8, 12)
    assert config["hashlearn_version"] == hashlearn.__version__


def test_left_out_attributes_stay_out(tmp_path, monkeypatch):
    monkeypatch.setattr(ITQ, "_not_saved", ("quantization_error_",))
    itq().save(tmp_path / "m")
    assert not hasattr(load(tmp_path / "m"), "quantization_error_")


class Homemade(LinearHasher):
    def __init__(self, n_bits=8):
        self.n_bits = n_bits

    def fit(self, X, y=None):
        self.mean_, self.projection_ = np.zeros(12), np.ones((12, 8))
        self.n_features_in_ = 12
        return self


def test_a_hasher_of_hashers_comes_back(tmp_path, monkeypatch):
    class Pair(Homemade):
        def __init__(self, n_bits=8, hashers=()):
            self.n_bits = n_bits
            self.hashers = hashers

        def fit(self, X, y=None):
            self.hashers_ = [clone(hasher).fit(X) for hasher in self.hashers]
            return super().fit(X)

    monkeypatch.setitem(METHODS, "pair", Pair)
    pair = Pair(hashers=[ITQ(n_bits=5, random_state=0), LSH(n_bits=3, random_state=1)]).fit(X)
    pair.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert isinstance(loaded, Pair)
    assert [str(hasher) for hasher in loaded.hashers] == [str(hasher) for hasher in pair.hashers]
    for before, after in zip(pair.hashers_, loaded.hashers_):
        np.testing.assert_array_equal(after.transform(X), before.transform(X))


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    with pytest.raises(TypeError, match="Homemade cannot be saved"):
        Homemade().fit(X).save(tmp_path / "m")
    hasher = itq()
    hasher.helper_ = object()
    with pytest.raises(TypeError, match="helper_ cannot be saved"):
        hasher.save(tmp_path / "m")
    hasher.helper_ = np.array([1j])
    with pytest.raises(TypeError, match=r"helper_ cannot be saved: .* complex128"):
        hasher.save(tmp_path / "m")
    with pytest.raises(NotFittedError):
        ITQ().save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_saving_needs_a_place_of_its_own(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text('{"mine": true}')
    for name, message in [("file", "got the file"), ("folder", "with other files"), ("no/where", "existing folder")]:
        with pytest.raises(ValueError, match=message):
            itq().save(tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"
    assert os.listdir(tmp_path / "folder") == ["config.json"]


def test_an_empty_folder_and_a_damaged_model_can_be_saved_to(tmp_path, model):
    (tmp_path / "empty").mkdir()
    (model / CONFIG).write_text('{"forma')
    for folder in (tmp_path / "empty", model):
        itq().save(folder)
        assert load(folder).n_bits == 8


class Killed(BaseException):
    """The process ends here: nothing that follows is run by it."""


def save_killed_at(monkeypatch, folder, hasher, step):
    """Save, and die at the given rename; temporary files stay as after a kill."""
    replace, unlink, calls = os.replace, type(folder).unlink, []

    def dying(source, target):
        calls.append(target)
        if len(calls) == step:
            raise Killed
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dying)
        patch.setattr(type(folder), "unlink", lambda path, missing_ok=False: None)
        patch.setattr(type(folder), "rmdir", lambda path: None)
        with pytest.raises(Killed):
            hasher.save(folder)
    assert type(folder).unlink is unlink


@pytest.mark.parametrize(("step", "survivor"), [(1, 0), (2, 1)])
def test_a_killed_save_leaves_the_old_model_or_the_new_one(model, monkeypatch, step, survivor):
    save_killed_at(monkeypatch, model, itq(seed=1), step)
    np.testing.assert_array_equal(load(model).projection_, itq(seed=survivor).projection_)
    itq(seed=2).save(model)
    np.testing.assert_array_equal(load(model).projection_, itq(seed=2).projection_)


@pytest.mark.parametrize("step", [1, 2])
def test_a_killed_first_save_leaves_no_model_and_can_be_repeated(tmp_path, monkeypatch, step):
    folder = tmp_path / "model"
    save_killed_at(monkeypatch, folder, itq(), step)
    with pytest.raises(ValueError, match="is not a hashlearn model"):
        load(folder)
    itq().save(folder)
    assert load(folder).n_bits == 8


def test_a_failed_save_leaves_the_old_model_and_no_litter(model, monkeypatch, tmp_path):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_all", full)
    for folder in (model, tmp_path / "new"):
        with pytest.raises(OSError, match="No space") as caught:
            itq(seed=1).save(folder)
        assert caught.value.filename == str(folder / TENSORS)
    assert sorted(os.listdir(model)) == [CONFIG, TENSORS]
    assert os.listdir(tmp_path) == ["model"]
    np.testing.assert_array_equal(load(model).projection_, itq(seed=0).projection_)


def test_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", [CONFIG, TENSORS])
def test_a_missing_file(model, name):
    (model / name).unlink()
    with pytest.raises(ValueError, match=f"has no {name}"):
        load(model)


@pytest.mark.parametrize("name", [CONFIG, TENSORS])
@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.9, -1])
def test_a_truncated_file(model, name, keep):
    content = (model / name).read_bytes()
    (model / name).write_bytes(content[: int(len(content) * keep)] if keep >= 0 else content[:-3])
    with pytest.raises(ValueError, match=r"truncated|no JSON"):
        load(model)


def test_every_single_changed_byte_is_noticed(model):
    """One bit flipped anywhere: the model is refused, or it was white space and the model is the same."""
    whole = itq()
    for name in (CONFIG, TENSORS):
        content = (model / name).read_bytes()
        for place in range(0, len(content), 37):
            (model / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            try:
                loaded = load(model)
            except ValueError as error:
                assert "\n" not in str(error)  # noqa: PT017
            else:
                np.testing.assert_array_equal(loaded.projection_, whole.projection_)
                assert loaded.quantization_error_ == whole.quantization_error_
        (model / name).write_bytes(content)


def test_an_edited_config_is_refused(model):
    text = (model / CONFIG).read_text()
    (model / CONFIG).write_text(text.replace('"max_iter": 50', '"max_iter": 51'))
    with pytest.raises(ValueError, match="edited"):
        load(model)


def test_a_config_laid_out_anew_is_the_same_config(model):
    (model / CONFIG).write_text(json.dumps(json.loads((model / CONFIG).read_text()), sort_keys=True))
    assert load(model).n_bits == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="another"), "does not say format"),
        (lambda c: c.update(format_version=2), "reads up to 1; update"),
        (lambda c: c["model"].update(method="os.system"), "no method 'os.system'"),
        (lambda c: c["model"]["params"].update(evil=1), "no parameter evil"),
        (lambda c: c["model"]["attributes"].update(transform="x"), "no learned attribute"),
        (lambda c: c["model"]["attributes"].update(__class__="x"), "no learned attribute"),
        (lambda c: c["model"]["attributes"].update(mean_={"$pickle": "x"}), "unknown kind"),
        (lambda c: c["model"]["attributes"].update(mean_={"$tensor": "nothing"}), "nothing"),
        (lambda c: c["model"].pop("params"), "params"),
        (lambda c: c.pop("model"), "model"),
        (lambda c: c.update(n_bits=16), "n_bits or n_features"),
        (lambda c: c["tensors"]["mean_"].update(shape=[13]), "mean_ should be"),
        (lambda c: c["tensors"]["mean_"].update(dtype="float32"), "mean_ should be"),
        (lambda c: c["tensors"].pop("mean_"), "does not hold the arrays"),
        (lambda c: c.update(tensors=None), "does not hold the arrays"),
        (lambda c: c.update(tensors_sha256="0"), "checksum does not fit"),
    ],
)
def test_a_forged_config_is_refused_in_one_line(model, change, message):
    rewrite(model, change)
    with pytest.raises(ValueError, match=message) as caught:
        load(model)
    assert str(model) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_foreign_folders(model, tmp_path):
    tensors = load_file(model / TENSORS)
    save_file(tensors, model / TENSORS)
    with pytest.raises(ValueError, match="another program"):
        load(model)
    other = tmp_path / "other"
    other.mkdir()
    (other / CONFIG).write_text('{"architectures": ["Bert"]}')
    save_file(tensors, other / TENSORS)
    with pytest.raises(ValueError, match="does not say format"):
        load(other)
    (other / CONFIG).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not text"):
        load(other)


def test_a_model_can_be_moved(model, tmp_path):
    shutil.move(model, tmp_path / "elsewhere")
    assert load(tmp_path / "elsewhere").n_bits == 8


def test_the_arrays_can_be_read_without_hashlearn(model):
    with safe_open(model / TENSORS, framework="numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("projection_"), itq().projection_)


PIPELINES = [
    make_pipeline(Normalizer(), ITQ(n_bits=8, random_state=0)),
    make_pipeline(StandardScaler(), PCA(n_components=10, whiten=True, random_state=0), LSH(n_bits=16, random_state=0)),
    make_pipeline(MinMaxScaler(), MaxAbsScaler(), "passthrough", METHODS["sh"](n_bits=8, random_state=0)),
    make_pipeline(TruncatedSVD(n_components=9, random_state=0), METHODS["jpsh"](n_bits=8, random_state=0)),
]


@pytest.mark.parametrize("pipeline", PIPELINES, ids=str)
def test_a_pipeline_comes_back_with_equal_codes(pipeline, tmp_path):
    fitted = clone(pipeline).fit(X)
    save(fitted, tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert [type(step) for _, step in loaded.steps] == [type(step) for _, step in fitted.steps]
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))


def test_a_pipeline_with_code_in_it_is_not_saved(tmp_path):
    for first in (FunctionTransformer(np.log1p), KBinsDiscretizer(3)):
        with pytest.raises(TypeError, match=r"cannot be saved: beside the methods only HasherUnion, MaxAbsScaler"):
            save(make_pipeline(first, ITQ(n_bits=8, random_state=0)).fit(X), tmp_path / "m")
    with pytest.raises(NotFittedError):
        save(make_pipeline(Normalizer(), ITQ(n_bits=8)), tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_load_opens_whatever_was_saved(tmp_path, model):
    search = SimilaritySearch(itq()).add(X)
    save(search, tmp_path / "search")
    assert isinstance(load(model), ITQ)
    np.testing.assert_array_equal(load(tmp_path / "search").search(X[:3]).ids, search.search(X[:3]).ids)


def test_the_digest_is_of_the_model_and_not_of_its_folder(tmp_path, model):
    hasher, digest = load_with_digest(model)
    hasher.save(tmp_path / "copy")
    assert load_with_digest(tmp_path / "copy")[1] == digest == digest_of(itq())
    assert len({digest_of(itq(seed)) for seed in range(3)} | {digest_of(itq(max_iter=49))}) == 4
