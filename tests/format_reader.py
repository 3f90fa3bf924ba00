"""A reader of hashlearn's files, written from docs/reference/file-formats.md; it imports nothing of hashlearn."""

import hashlib
import json
import sqlite3
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

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
        assert (magic, version) == (b"HLINDEX\n", 3)
        end = 16 + length
        assert struct.unpack_from("<I", content, end) == (zlib.crc32(content[:end]),)
        self.digest = sha256(content[: end + 4])
        self.header = json.loads(content[16:end])
        sections, offset = {}, aligned(end + 4)
        for name, said in self.header["sections"].items():
            n_bytes = int(np.prod(said["shape"])) * np.dtype(said["dtype"]).itemsize
            sections[name] = content[offset : offset + n_bytes]
            assert zlib.crc32(sections[name]) == said["crc32"]
            offset = aligned(offset + n_bytes)
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


def vectors_of(path, n_records=None, id=None):
    """The vectors of a file, or its first ones; those of a search are as many as its catalog says."""
    content = Path(path).read_bytes()
    magic, version, length = struct.unpack_from("<8sII", content)
    assert (magic, version) == (b"HLVECTS\n", 3)
    end = 16 + length
    assert struct.unpack_from("<I", content, end) == (zlib.crc32(content[:end]),)
    header = json.loads(content[16:end])
    assert id in (None, header["id"])
    count_at = aligned(end + 4)
    count, crc32 = struct.unpack_from("<QI", content, count_at)
    assert crc32 == zlib.crc32(content[count_at : count_at + 8])
    n = count if n_records is None else n_records
    dtype = np.dtype(header["dtype"]).newbyteorder("<")
    n_words = -(-dtype.itemsize * header["n_features"] // 4)
    record_bytes = 4 * (n_words + 1)
    found = np.empty((n, header["n_features"]), np.float32)
    for record in range(n):
        at = count_at + PAGE + record * record_bytes
        check_words(content, at, n_words, record, int(header["id"], 16))
        found[record] = np.frombuffer(content, dtype, header["n_features"], at)
    if "calibration" in header:
        offset, scale = (np.array(header["calibration"][name], np.float32) for name in ("offset", "scale"))
        found = offset + scale * found
    return found


def check_words(content, at, n_words, number, seed):
    """The word behind the words of a record is their checksum."""
    words = (1, number, *struct.unpack_from(f"<{n_words}I", content, at))
    total = sum(factor * word for factor, word in zip(split_mix_64(n_words + 2, seed), words, strict=True)) % 2**64
    assert struct.unpack_from("<I", content, at + 4 * n_words) == (total >> 32,)


@cache
def split_mix_64(n, seed):
    """The first outputs of SplitMix64 from a state, with the lowest bit set."""
    found = []
    for i in range(1, n + 1):
        z = (i * 0x9E3779B97F4A7C15 + seed) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        found.append((z ^ (z >> 31)) | 1)
    return found


START, PRIME = 0xCBF29CE484222325, 0x100000001B3


def mix(value):
    for _ in range(2):
        value = (value ^ (value >> 32)) * 0xFF51AFD7ED558CCD % 2**64
    return value ^ (value >> 32)


def digest_64(value):
    """The digest of an id or of the text of a payload."""
    if isinstance(value, int):
        return mix(value ^ START)
    content, total = value.encode(), START
    for byte in content:
        total = (total ^ byte) * PRIME % 2**64
    return mix(total ^ len(content))


def payload_sum(text):
    return 0 if text is None else digest_64(text) >> 32 | 1


def row_sum(row, id, payload):
    return mix((mix(digest_64(id) ^ mix((row + PRIME) % 2**64)) + payload) % 2**64) >> 33


class Row(NamedTuple):
    """A row of a search; correction and vector are None where there are none."""

    code: np.ndarray
    correction: float | None
    payload: dict
    vector: np.ndarray | None


class Search:
    """A saved search. ``rows`` has them by id, in the order in which they were added."""

    def __init__(self, folder):
        folder = Path(folder)
        catalog = sqlite3.connect(f"file:{quote(str(folder / 'catalog.db'))}?mode=ro", uri=True)
        try:
            catalog.execute("BEGIN")  # all statements see one state
            acknowledged = (folder / "acknowledged").read_bytes()
            ((change, text),) = catalog.execute("SELECT change, text FROM facts")
            self.facts = _facts_of(text, change, acknowledged)
            ids = _ids_of(catalog, self.facts)
            payloads = _payloads_of(catalog)
            fresh = _fresh_codes_of(catalog)
            self.buried = dict(catalog.execute("SELECT row, change FROM buried"))
        finally:
            catalog.close()
        self.model = Model(folder / self.facts["hasher"])
        assert self.model.config["model_sha256"] == self.facts["model"]
        codes = self._codes(folder, fresh)
        vectors = self._vectors(folder)
        self.rows = {}
        for row, (id, expected) in ids.items():
            text = payloads.get(row) if expected else None
            assert payload_sum(text) == expected
            place = row - self.facts["first_row"]
            vector = None if vectors is None else vectors[place]
            self.rows[id] = Row(*codes[place], {} if text is None else json.loads(text), vector)
        assert not set(ids) & set(self.buried)

    def _codes(self, folder, fresh):
        """Place -> code and correction."""
        facts, n_in_file, found = self.facts, 0, {}
        n_bytes = -(-self.model.config["n_bits"] // 8)
        if facts["codes"] is not None:
            n_in_file, index = facts["codes"]["places"], Index(folder / facts["codes"]["file"])
            assert index.digest == facts["codes"]["fingerprint"]
            corrections = [None] * len(index.ids) if index.corrections is None else index.corrections
            found = dict(zip(index.ids.tolist(), zip(index.codes, corrections), strict=True))
        for row, content in fresh.items():
            place = row - facts["first_row"]
            if place >= n_in_file:
                correction = None
                if len(content) > n_bytes:
                    scale, offset = self.model["correction_scale_"], self.model["correction_offset_"]
                    correction = offset + scale * content[n_bytes]
                found[place] = np.frombuffer(content, np.uint8, n_bytes), correction
        return found

    def _vectors(self, folder):
        """The vectors by place, also those of rows that are gone; None where none are kept."""
        said = self.facts["vectors"]
        if said is None:
            return None
        return vectors_of(folder / said["file"], self.facts["next_row"] - self.facts["first_row"], said["id"])


def _facts_of(text, change, acknowledged):
    facts = json.loads(text)
    assert facts.pop("sha256") == digest(facts)
    assert (facts["format"], facts["format_version"]) == ("hashlearn similarity search", 5)
    assert facts["change"] == change
    told, search, crc32 = struct.unpack("<Q16sI", acknowledged)
    assert crc32 == zlib.crc32(acknowledged[:24])
    assert search.decode() == facts["search"]
    assert told <= change
    return facts


def _ids_of(catalog, facts):
    """Row -> id and the sum of the payload, once all sums are seen to be right."""
    found, total = {}, 0
    for row, id, payload, expected in catalog.execute("SELECT row, id, payload, sum FROM rows ORDER BY row"):
        assert isinstance(id, str if facts["id_type"] == "str" else int)
        assert facts["first_row"] <= row < facts["next_row"]
        assert row_sum(row, id, payload) == expected
        found[row], total = (id, payload), total + expected
    assert (len(found), total) == (facts["n_rows"], facts["sum"])
    return found


def _payloads_of(catalog):
    return dict(catalog.execute("SELECT row, payload FROM payloads"))


def _fresh_codes_of(catalog):
    """Row -> code and, behind it, its correction, where it has one."""
    found = {}
    for row, content in catalog.execute("SELECT row, code FROM fresh"):
        (crc32,) = struct.unpack("<I", content[-4:])
        assert crc32 == zlib.crc32(content[:-4] + struct.pack("<q", row))
        found[row] = content[:-4]
    return found
