"""Milvus: a collection with a BINARY_VECTOR, on a server or in a file of Milvus Lite.

Milvus breaks ties arbitrarily and finds at most 16,384 codes at a time. So a search asks for more than k codes. If the
result may lack a tie at the k-th place, the codes are read and compared here. Milvus Lite has no parameters in
expressions: :func:`literal` writes values as literals, and refuses values that cannot be quoted safely.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from hashlearn.extras import require
from hashlearn.rows.inputs import MAX_ID_BYTES
from hashlearn.stores.base import Block, Description, Hits, Place, Rows, code_matrix, id_array, short
from hashlearn.stores.blocks import nearest_in, within_in
from hashlearn.stores.filters import Among, Compares, Condition, Differs, Test, of_kind, translate

NOTES = "hashlearn_notes"
"""The collection of the notes of all stores in a database; the keys of a store begin with its name and a slash."""
DESCRIPTION = "description"
MAX_FOUND = 16_384
MAX_FEATURES = 4096
MAX_PAYLOAD_BYTES = 65_536
IDS_AT_ONCE = 10_000
BYTES_AT_ONCE = 16 << 20
"""The most bytes of a request; servers allow 64 MB."""
BLOCK_ROWS = 10_000
SECONDS = 10
_NO_PINGS = {
    "grpc.keepalive_time_ms": 2**31 - 1,
    "grpc.keepalive_permit_without_calls": False,
    "grpc.http2.bdp_probe": 0,
}
"""Milvus Lite hangs up on a client that pings it every ten seconds, as pymilvus does without calls."""
N_LISTS, N_PROBES = 1024, 64

_opened: Counter[str] = Counter()
_opening = Lock()
_replacing = Lock()


class MilvusEngine:
    """Codes in a collection of Milvus; see :class:`hashlearn.stores.base.StoreEngine`."""

    errors: tuple[type[Exception], ...]
    indexes: Sequence[str] = ("ivf",)

    def __init__(self, place: Place):
        self.place = place
        self.collection = place.table
        self.pymilvus = require("pymilvus", "milvus")
        self.errors = (self.pymilvus.exceptions.MilvusException,)
        self.parameters: dict[str, Any] = {}
        self.by_index = False
        self.is_file = "://" not in place.address
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs a traceback for every exception
        self.client = self._file_client() if self.is_file else self._server_client()
        self.description: Description | None = None
        try:
            self._describe()
        except BaseException as error:
            self.close()
            if isinstance(error, self.errors):
                raise self.explain(error) from error
            raise

    def explain(self, error: Exception) -> Exception:
        reason = " ".join(str(getattr(error, "message", error)).split())[:200]
        if "UNAVAILABLE" in reason or "Fail connecting" in reason:
            return ConnectionError(f"{self.place.shown} cannot be reached: {reason}")
        return ValueError(f"{self.place.shown}: {reason}")

    def create(self, description: Description) -> None:
        """Write the description, then make the collection: a store exists if both exist."""
        if description.n_features is not None and description.n_features > MAX_FEATURES:
            raise ValueError(f"n_features must be at most {MAX_FEATURES} in Milvus, got {description.n_features}")
        types, schema = self.pymilvus.DataType, self.pymilvus.MilvusClient.create_schema(auto_id=False)
        if description.id_type == "int64":
            schema.add_field("id", types.INT64, is_primary=True)
        else:
            schema.add_field("id", types.VARCHAR, is_primary=True, max_length=MAX_ID_BYTES)
        schema.add_field("code", types.BINARY_VECTOR, dim=8 * description.n_bytes)
        schema.add_field("payload", types.JSON)
        if description.n_features is not None:
            schema.add_field("vector", types.ARRAY, element_type=types.FLOAT, max_capacity=description.n_features)
        if description.corrections is not None:
            schema.add_field("correction", types.INT16)
        if not self.client.has_collection(NOTES):
            self._create_notes()
        self.keep_note(DESCRIPTION, description.to_json())
        self._create_collection(self.collection, schema)
        self.description = description

    def use_index(self, kind: str) -> None:
        """Replace the exact index by an IVF index."""
        if self.is_file:
            raise ValueError("index must be None for a file of Milvus Lite, which only searches exactly")
        if not self._has_lists():
            self.client.release_collection(self.collection)
            self.client.drop_index(self.collection, "code")
            self.client.create_index(self.collection, self._index("BIN_IVF_FLAT", {"nlist": N_LISTS}))
            self.client.load_collection(self.collection)
        self.parameters = {"nprobe": N_PROBES}
        self.by_index = True

    def upsert(self, rows: Rows) -> None:
        if self.is_file and any(isinstance(id, str) and "'" in id for id in rows.ids):
            # it writes ids into its own SQL without quoting them
            raise ValueError("ids must have no ' in a file of Milvus Lite; a Milvus server takes them")
        for payload in rows.payloads:
            if len(payload) > MAX_PAYLOAD_BYTES // 4 and len(payload.encode()) >= MAX_PAYLOAD_BYTES:
                raise ValueError(f"payloads must be below {MAX_PAYLOAD_BYTES} bytes of JSON in Milvus")
        row_bytes = rows.codes.shape[1] + 200 + sum(map(len, rows.payloads)) // len(rows)
        if rows.vectors is not None:
            row_bytes += 8 * rows.vectors.shape[1]
        step = max(1, BYTES_AT_ONCE // row_bytes)
        for start in range(0, len(rows), step):
            self._replace(self.collection, _entities(rows.part(slice(start, start + step))))

    def delete(self, ids: NDArray[Any]) -> int:
        """Known ids are looked up first, because Milvus counts the ids in the request."""
        there = [row["id"] for row in self._with_ids(ids, ["id"])]
        for start in range(0, len(there), IDS_AT_ONCE):
            self.client.delete(self.collection, filter=f"id in {_listed(there[start : start + IDS_AT_ONCE])}")
        return len(there)

    def get(self, ids: NDArray[Any]) -> list[tuple[Any, bytes, str, int | None]]:
        rows = self._with_ids(ids, ["id", "code", "payload", *self._correction()])
        return [(row["id"], row["code"][0], json.dumps(row["payload"]), row.get("correction")) for row in rows]

    def vectors(self, ids: NDArray[Any]) -> list[tuple[Any, NDArray[np.float32]]]:
        return [(row["id"], np.array(row["vector"], np.float32)) for row in self._with_ids(ids, ["id", "vector"])]

    def count(self, condition: Condition | None) -> int:
        return self.client.query(self.collection, filter=_text(condition), output_fields=["count(*)"])[0]["count(*)"]

    def nearest(self, codes: NDArray[np.uint8], k: int, condition: Condition | None) -> list[Hits]:
        wanted = min(MAX_FOUND, 2 * k + 64)
        found = [self._searched(code, wanted, condition, {}) for code in codes]
        if self.by_index:
            return [hits[:k] for hits in found]
        for number, hits in enumerate(found):
            if len(hits) == wanted and (k >= wanted or hits[-1][0] == hits[k - 1][0]):
                code = codes[number : number + 1]
                blocks = self.blocks(BLOCK_ROWS, condition, payloads=False)
                found[number] = nearest_in(blocks, code, self._n_bits(), k, None)[0]
        return [hits[:k] for hits in found]

    def within(self, codes: NDArray[np.uint8], radius: int, condition: Condition | None) -> list[Hits]:
        if self.by_index:
            return self._within_read(codes, radius, condition)
        limits = {"radius": radius + 1}  # exclusive
        found = [self._searched(code, MAX_FOUND, condition, limits) for code in codes]
        for number, hits in enumerate(found):
            if len(hits) == MAX_FOUND:
                found[number] = self._within_read(codes[number : number + 1], radius, condition)[0]
        return found

    def blocks(self, n_rows: int, condition: Condition | None, payloads: bool) -> Iterator[Block]:
        columns = ["id", "code", *(["payload"] if payloads else []), *self._correction()]
        n_rows = min(n_rows, BLOCK_ROWS)
        rows = self.client.query_iterator(self.collection, n_rows, filter=_text(condition), output_fields=columns)
        assert self.description is not None
        try:
            while found := rows.next():
                yield Block(
                    id_array([row["id"] for row in found], self.description.id_type),
                    code_matrix([row["code"][0] for row in found], self.description.n_bytes),
                    [json.dumps(row["payload"]) for row in found] if payloads else None,
                    np.array([row["correction"] for row in found], np.uint8) if self._correction() else None,
                )
        finally:
            rows.close()

    def note(self, key: str) -> str | None:
        found = self.client.query(NOTES, filter=self._keyed(key), output_fields=["value"])
        return found[0]["value"] if found else None

    def keep_note(self, key: str, text: str) -> None:
        self._replace(NOTES, [{"id": f"{self.collection}/{key}", "code": b"\0", "value": text}])

    def drop_note(self, key: str) -> None:
        self.client.delete(NOTES, filter=self._keyed(key))

    def compact(self) -> None:
        if not self.is_file:
            self.client.flush(self.collection)
            self.client.compact(self.collection)

    def close(self) -> None:
        """Close the connection; a file is closed with the last store of this process that has it open."""
        if self.client is None:
            return
        self.client.close()
        self.client = None
        if self.is_file:
            _release(self.place.address)

    def _correction(self) -> list[str]:
        """The field of the corrections, if the collection has one."""
        assert self.description is not None
        return [] if self.description.corrections is None else ["correction"]

    def _keyed(self, key: str) -> str:
        return f"id == {literal(f'{self.collection}/{key}')}"

    def _replace(self, collection: str, entities: list[dict[str, Any]]) -> None:
        """Upsert rows. Milvus Lite deletes and inserts in two steps: two writers of a new row would both insert it."""
        with _replacing if self.is_file else nullcontext():
            self.client.upsert(collection, entities)

    def _n_bits(self) -> int:
        assert self.description is not None
        return self.description.n_bits

    def _describe(self) -> None:
        """Read the description of the store, if there is one."""
        if not self.client.has_collection(self.collection):
            return
        text = self.note(DESCRIPTION) if self.client.has_collection(NOTES) else None
        if text is None:
            raise ValueError(f"{self.place.shown} holds a collection {self.collection!r} that hashlearn did not make")
        self.description = Description.from_json(text, self.place.shown)
        if self._has_lists():
            self.parameters = {"nprobe": N_LISTS}  # all of them: exact

    def _server_client(self) -> Any:
        parts = urlsplit(self.place.address)
        login = {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
        address = f"{parts.scheme}://{parts.hostname}:{parts.port or 19530}"
        try:
            return self.pymilvus.MilvusClient(address, **login, db_name=parts.path.strip("/"), timeout=SECONDS)
        except self.errors as error:
            raise ConnectionError(f"cannot connect to Milvus at {self.place.shown}: {short(error)}") from error

    def _file_client(self) -> Any:
        require("milvus_lite", "milvus")
        lite = version("milvus-lite")
        if int(lite.partition(".")[0]) >= 3:
            raise ValueError(f"milvus-lite {lite} takes no binary vectors: pip install 'milvus-lite==2.5.1'")
        path = str(Path(self.place.address).absolute())
        if not path.endswith(".db"):
            raise ValueError(f"uri must name a file that ends in .db for Milvus Lite, got {self.place.shown}")
        try:
            with _opening:
                try:
                    client = self.pymilvus.MilvusClient(path, grpc_options=_NO_PINGS)
                except self.errors as error:
                    if "Fail connecting" not in str(error):
                        raise
                    # Its server is there, and has hung up on an idle client: the second call connects anew.
                    client = self.pymilvus.MilvusClient(path, grpc_options=_NO_PINGS)
                _opened[path] += 1
        except self.errors as error:
            raise ConnectionError(
                f"{self.place.shown} cannot be opened: another process has it open, or it is no file of Milvus Lite"
            ) from error
        return client

    def _index(self, kind: str, parameters: dict[str, int]) -> Any:
        index = self.client.prepare_index_params()
        index.add_index("code", index_type=kind, metric_type="HAMMING", params=parameters)
        return index

    def _has_lists(self) -> bool:
        """Whether the collection has an IVF index instead of the exact one; Milvus Lite has none."""
        if self.is_file:
            return False
        return self.client.describe_index(self.collection, "code").get("index_type") == "BIN_IVF_FLAT"

    def _create_notes(self) -> None:
        types, schema = self.pymilvus.DataType, self.pymilvus.MilvusClient.create_schema(auto_id=False)
        schema.add_field("id", types.VARCHAR, is_primary=True, max_length=MAX_ID_BYTES)
        schema.add_field("code", types.BINARY_VECTOR, dim=8)  # a collection must have a vector
        schema.add_field("value", types.VARCHAR, max_length=MAX_PAYLOAD_BYTES - 1)
        self._create_collection(NOTES, schema)

    def _create_collection(self, name: str, schema: Any) -> None:
        self.client.create_collection(
            name, schema=schema, index_params=self._index("BIN_FLAT", {}), consistency_level="Strong"
        )

    def _searched(self, code: NDArray[np.uint8], k: int, condition: Condition | None, limits: dict[str, int]) -> Hits:
        parameters = {"metric_type": "HAMMING", "params": {**self.parameters, **limits}}
        found = self.client.search(
            self.collection,
            [code.tobytes()],
            limit=k,
            filter=_text(condition),
            anns_field="code",
            search_params=parameters,
        )
        return sorted((int(hit["distance"]), hit["id"]) for hit in found[0])

    def _within_read(self, codes: NDArray[np.uint8], radius: int, condition: Condition | None) -> list[Hits]:
        blocks = self.blocks(BLOCK_ROWS, condition, payloads=False)
        return within_in(blocks, codes, self._n_bits(), radius, None)

    def _with_ids(self, ids: NDArray[Any], columns: list[str]) -> list[dict[str, Any]]:
        rows = []
        for start in range(0, len(ids), IDS_AT_ONCE):
            chosen = f"id in {_listed(ids[start : start + IDS_AT_ONCE].tolist())}"
            rows += list(self.client.query(self.collection, filter=chosen, output_fields=columns))
        return rows


def literal(value: Any) -> str:
    """A value in an expression of Milvus. Numbers are floats, which Milvus also compares with integers.

    >>> print(literal('say "no"'), literal(3), literal(True))
    "say \\"no\\"" 3.0 true
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(float(value))
    if any(letter < " " or letter == "\x7f" for letter in value):
        raise ValueError(f"filter must have strings without control characters in Milvus, got {value!r:.60}")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _listed(ids: list[Any]) -> str:
    return "[" + ", ".join(str(id) if isinstance(id, int) else literal(id) for id in ids) + "]"


def _text(condition: Condition | None) -> str:
    return "" if condition is None else translate(condition, _test)[0]


def _test(test: Test) -> tuple[str, list[Any]]:
    field = f"payload[{literal(test.field)}]"
    match test:
        case Among(_, values):
            kinds = [of_kind(values, kind) for kind in ("string", "number", "boolean")]
            tests = [f"{field} in [{', '.join(map(literal, each))}]" for each in kinds if each]
            return " or ".join(tests) or f"{field} < 0.0 and {field} > 0.0", []  # Milvus refuses an empty list
        case Differs(_, value):
            return f"{field} != {literal(value)}", []
        case Compares(_, sign, value):
            return f"{field} {sign} {literal(value)}", []


def _entities(rows: Rows) -> list[dict[str, Any]]:
    columns = zip(rows.ids.tolist(), rows.codes, rows.payloads)
    entities = [{"id": id, "code": code.tobytes(), "payload": json.loads(text)} for id, code, text in columns]
    for entity, vector in zip(entities, [] if rows.vectors is None else rows.vectors):
        entity["vector"] = vector.tolist()
    for entity, correction in zip(entities, [] if rows.corrections is None else rows.corrections.tolist()):
        entity["correction"] = correction
    return entities


def _release(address: str) -> None:
    path = str(Path(address).absolute())
    with _opening:
        _opened[path] -= 1
        if not _opened[path]:
            require("milvus_lite.server_manager", "milvus").server_manager_instance.release_server(path)
