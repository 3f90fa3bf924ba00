"""A reader of hashlearn's files, written from docs/reference/file-formats.md; it imports nothing of hashlearn."""

import hashlib
import json
import struct
import zlib
from functools import cache
from pathlib import Path

import numpy as np

PAGE = 4096


def digest(*values):
    texts = [json.dumps(value, sort_keys=True, separators=(",", ":")) for value in values]
    return hashlib.sha256(b"\0".join(text.encode("ascii") for text in texts)).hexdigest()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def aligned(offset):
    return -(-offset // PAGE) * PAGE


def sidecar_of(path):
    said = json.loads(Path(f"{path}.json").read_text())
    assert said["format"] == "hashlearn codes"
    assert said.pop("sidecar_sha256") == digest(said)
    return said


def bits_of(codes, n_bits):
    places = np.arange(n_bits)
    return codes[:, places // 8] >> (7 - places % 8) & 1


class Model:
    """A folder with config.json and model.safetensors."""

    def __init__(self, folder):
        content = (Path(folder) / "model.safetensors").read_bytes()
        (length,) = struct.unpack_from("<Q", content)
        head = json.loads(content[8 : 8 + length])
        self.config = json.loads(head.pop("__metadata__")["config"])
        kinds = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "U8": "u1"}
        data = content[8 + length :]
        self.arrays = {}
        for name, said in head.items():
            first, last = said["data_offsets"]
            self.arrays[name] = np.frombuffer(data[first:last], kinds[said["dtype"]]).reshape(said["shape"])
        self._check()

    def _check(self):
        arrays = hashlib.sha256()
        for name in sorted(self.arrays):
            array = self.arrays[name]
            said = f"{{'dtype': '{array.dtype.name}', 'shape': {list(array.shape)}}}"
            arrays.update(name.encode() + b"\0" + said.encode() + b"\0" + array.tobytes())
        said = dict(self.config)
        assert said["tensors_sha256"] == arrays.hexdigest()
        assert said["model_sha256"] == digest(said["model"], said["tensors_sha256"])
        assert said.pop("config_sha256") == digest(said)

    def __getitem__(self, name):
        value = self.config["model"]["attributes"][name]
        return self.arrays[value["$tensor"]] if isinstance(value, dict) else value

    def bits(self, X):
        scores = {"itq": self._linear, "sah": self._blend, "jpsh": lambda X: self._linear(X) + self._blend(X)}
        scores = scores[self.config["model"]["method"]](X)
        return scores >= 0 if self.config["model"]["method"] == "itq" else scores > 0

    def _linear(self, X):
        known = self.config["model"]["attributes"]
        return (X - self["mean_"]) @ self["projection_"] + (self["intercept_"] if "intercept_" in known else 0)

    def _blend(self, X):
        squared = ((X[:, None] - self["anchors_"]) ** 2).sum(axis=2)
        nearest = np.argsort(squared, axis=1)[:, : self["n_blended_"]]
        weights = np.exp(-np.take_along_axis(squared, nearest, axis=1) / self["sigma_"] ** 2)
        weights /= weights.sum(axis=1, keepdims=True)
        return np.einsum("ij,ijk->ik", weights, self["offsets_"][nearest])

    def distances(self, query, codes, corrections):
        """Of ABH: from a query to codes."""
        weights = -2 * self["words_"] @ (query - self["mean_"])
        n_bits = self.config["model"]["params"]["n_bits"]
        bits = bits_of(codes, n_bits)
        if len(weights) == n_bits:
            return (2.0 * bits - 1) @ weights + corrections
        numbers = bits.reshape(len(bits), -1, 4) @ [8, 4, 2, 1]
        return weights[16 * np.arange(n_bits // 4) + numbers].sum(axis=1) + corrections


class Index:
    """A file of an index."""

    def __init__(self, path):
        content = Path(path).read_bytes()
        magic, version, length = struct.unpack_from("<8sII", content)
        assert (magic, version) == (b"HLINDEX\n", 2)
        end = 16 + length
        assert struct.unpack_from("<I", content, end) == (zlib.crc32(content[:end]),)
        self.digest = sha256(content[: end + 4])
        self.header = json.loads(content[16:end])
        sections, offset = {}, aligned(end + 4)
        for name, said in self.header["sections"].items():
            sections[name] = content[offset : offset + said["n_bytes"]]
            assert zlib.crc32(sections[name]) == said["crc32"]
            offset = aligned(offset + said["n_bytes"])
        assert offset == len(content)
        n, word = self.header["n_codes"], self.header["word_bytes"]
        n_front, n_words, tiles = self.header["n_front"], self.header["n_words"], -(-n // 64)
        halves = [(sections["front"], n_front), (sections["back"], n_words - n_front)]
        words = [
            np.frombuffer(half, np.uint8)
            .reshape(tiles, width, 64, word)
            .swapaxes(1, 2)
            .reshape(64 * tiles, width * word)
            for half, width in halves
        ]
        self.codes = np.hstack(words)[:n, : -(-self.header["n_bits"] // 8)]
        self.ids = np.frombuffer(sections["ids"], "<i8")[:n] if "ids" in sections else np.arange(n)
        self.corrections = None
        if "corrections" in sections:
            scale, offset = self.header["metadata"]["corrections"]
            self.corrections = offset + scale * np.frombuffer(sections["corrections"], np.uint8)[:n].astype(float)


def vectors_of(path, n_records=None):
    """Id -> vector of a file of vectors, or of its first records."""
    content = Path(path).read_bytes()
    magic, _, length = struct.unpack_from("<8sII", content)
    assert magic == b"HLVECTS\n"
    end = 16 + length
    assert struct.unpack_from("<I", content, end) == (zlib.crc32(content[:end]),)
    header = json.loads(content[16:end])
    state_at = aligned(end + 4)
    states = [content[at : at + 36] for at in (state_at, state_at + 2048)]
    states = [struct.unpack("<QQQQ", s[:32]) for s in states if struct.unpack("<I", s[32:])[0] == zlib.crc32(s[:32])]
    if n_records is None:
        n_records = max(states)[1]
    dtype = np.dtype(header["dtype"]).newbyteorder("<")
    row_bytes = -(-dtype.itemsize * header["n_features"] // 4) * 4
    found = {}
    for record in range(n_records):
        segment = state_at + PAGE + record // 1024 * aligned(1024 * (12 + row_bytes + 4))
        key_at, key_check_at = segment + 8 * (record % 1024), segment + 8192 + 4 * (record % 1024)
        row_at = segment + 12288 + (row_bytes + 4) * (record % 1024)
        check_words(content, key_at, 2, key_check_at, record)
        (key,) = struct.unpack_from("<q", content, key_at)
        if key < 0:
            found.pop(-1 - key, None)
            continue
        check_words(content, row_at, row_bytes // 4, row_at + row_bytes, record)
        values = np.frombuffer(content, dtype, header["n_features"], row_at)
        if "calibration" in header:
            offset, scale = (np.array(header["calibration"][name], np.float32) for name in ("offset", "scale"))
            values = offset + scale * values.astype(np.float32)
        found[key] = values
    return found


def check_words(content, at, n_words, check_at, number):
    """The checksum of the words of a record is the one that is there."""
    words = (1, number, *struct.unpack_from(f"<{n_words}I", content, at))
    total = sum(factor * word for factor, word in zip(split_mix_64(n_words + 2), words, strict=True)) % 2**64
    assert struct.unpack_from("<I", content, check_at) == (total >> 32,)


@cache
def split_mix_64(n):
    """The first outputs of SplitMix64 from state 0, with the lowest bit set."""
    found = []
    for i in range(1, n + 1):
        z = i * 0x9E3779B97F4A7C15 % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        found.append((z ^ (z >> 31)) | 1)
    return found


def search_of(folder):
    """Id -> (code, payload, vector or None) of a saved search."""
    folder = Path(folder)
    said = json.loads((folder / "search.json").read_text())
    assert said.pop("manifest_sha256") == digest(said)
    generation = folder / said["generation"]
    parts = {}
    for name in ("ids.txt", "numbers.npy", "payloads.jsonl"):
        if name in said:
            parts[name] = (generation / name).read_bytes()
            assert sha256(parts[name]) == said[name]
    index, model = Index(generation / "codes.hli"), Model(generation / "hasher")
    assert (index.digest, model.config["model_sha256"]) == (said["codes"], said["model"])
    ids, numbers = index.ids.tolist(), index.ids.tolist()
    if "ids.txt" in parts:
        ids = parts["ids.txt"].decode().split("\n")[:-1]
        numbers = np.frombuffer(parts["numbers.npy"], "<i8").tolist()
    payloads = [json.loads(line) for line in parts.get("payloads.jsonl", b"{}\n" * len(ids)).split(b"\n")[:-1]]
    rows = dict(zip(ids, zip(index.codes, payloads, numbers), strict=True))
    n_vectors = said["vectors"]
    for header, new in _changes(generation, index.codes.shape[1]):
        for id in header["removed"]:
            rows.pop(id, None)
        rows |= new
        n_vectors = header["n_vectors"]
    vectors = vectors_of(generation / "vectors.hlv", n_vectors) if n_vectors is not None else {}
    return {id: (code, payload, vectors.get(number)) for id, (code, payload, number) in rows.items()}


def _changes(generation, n_bytes):
    content = (generation / "journal.hlj").read_bytes()
    assert content[:8] == b"HLJOURN\n"
    at, crc32 = 8, zlib.crc32(generation.name.encode())
    while at + 12 <= len(content):
        length, told = struct.unpack_from("<QI", content, at)
        record = content[at + 12 : at + 12 + length]
        crc32 = zlib.crc32(record, zlib.crc32(content[at : at + 8], crc32))
        if len(record) < length or crc32 != told:
            return
        yield _change(record, n_bytes)
        at += 12 + length


def _change(record, n_bytes):
    (length,) = struct.unpack_from("<I", record)
    header, rest = json.loads(record[4 : 4 + length]), record[4 + length :]
    n = header["n_rows"]
    numbers = np.frombuffer(rest, "<i8", n).tolist()
    codes = np.frombuffer(rest, np.uint8, n * n_bytes, 8 * n).reshape(n, n_bytes)
    payloads = [json.loads(header["payloads"].get(str(place), "{}")) for place in range(n)]
    ids = numbers if header["ids"] is None else header["ids"]
    return header, dict(zip(ids, zip(codes, payloads, numbers), strict=True))
