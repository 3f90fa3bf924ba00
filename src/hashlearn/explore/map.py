"""The map of a collection: a point and a cluster for every row, kept in a file beside the search."""

import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as as_safetensors

from hashlearn.codes import unpack
from hashlearn.durable.files import write_bytes
from hashlearn.explore.clusters import cluster_color, cluster_names, clusters_of, typical_rows
from hashlearn.explore.layout import MapLandmarks, landmark_points
from hashlearn.hashers.saving import digest_of
from hashlearn.html import render
from hashlearn.linalg.projections import unit_rows

if TYPE_CHECKING:
    from hashlearn.search import SimilaritySearch

MAP_FILE = "map.safetensors"
"""Name of the map's file in the folder of a search."""
N_LANDMARKS = 8000
SIDE = 65_535
"""Points have coordinates from 0 to this."""
N_EXAMPLES = 6
N_SHOWN = 12
_ASKED = 1000
N_DRAWN = 4000
"""Most points of a map in a notebook."""
_WIDTH = 720
_LANDMARKS = ("codes", "points", "clusters")
_FORMAT, _VERSION = "hashlearn map", "2"
_MOST_NEW = 0.5
"""If a larger share of the rows is new, the map is made again."""
_WIDEST_GAP = 0.06
"""Widest stripe without points across the map, as a share of the width or height that most points take."""


class MapCluster(NamedTuple):
    """Rows that are alike.

    Attributes
    ----------
    name : str
    size : int
    center : (x, y)
        The position of its name.
    examples : list of ids
        Its typical rows.
    """

    name: str
    size: int
    center: tuple[int, int]
    examples: list[Any]


class CollectionMap:
    """Points of all rows of a search, in the order of ``search.ids``.

    Attributes
    ----------
    points : ndarray of shape (n, 2), uint16
    labels : ndarray of shape (n,), uint8
        The cluster of each row.
    clusters : list of MapCluster
        The largest first.
    alone : list of ids
        Rows that are much farther from their nearest neighbor than most rows.
    groups : list of list of ids
        Groups of nearly equal rows, among the rows that were compared.
    landmarks : MapLandmarks
    checksum : int
        The checksum of the codes of the map.
    """

    def __init__(
        self,
        points: NDArray[np.uint16],
        labels: NDArray[np.uint8],
        clusters: Sequence[MapCluster],
        landmarks: MapLandmarks,
        checksum: int,
        alone: list[Any],
        groups: list[list[Any]],
    ):
        self.points, self.labels, self.clusters = points, labels, list(clusters)
        self.landmarks, self.checksum, self.alone, self.groups = landmarks, checksum, alone, groups

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows, {len(self.clusters)} clusters)"

    def _repr_html_(self) -> str:
        """The map for a notebook: an SVG drawing of some points, with the names of the clusters."""
        chosen = np.arange(len(self))
        if len(chosen) > N_DRAWN:
            chosen = np.random.default_rng(0).choice(len(chosen), N_DRAWN, replace=False)
        scale = _WIDTH / SIDE
        clusters = []
        for number, cluster in enumerate(self.clusters):
            points = self.points[chosen[self.labels[chosen] == number]] * scale
            path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points.tolist())
            center = (cluster.center[0] * scale, cluster.center[1] * scale)
            clusters.append((cluster, cluster_color(number), path, center))
        return render("notebook/map.html", map=self, clusters=clusters, width=_WIDTH, n_drawn=len(chosen))

    def fits(self, search: "SimilaritySearch") -> bool:
        """Whether the search has the codes that the map was made for."""
        return len(search) == len(self) and _checksum(search.codes()) == self.checksum

    def inside(self, area: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
        """A mask of the rows inside a polygon, given by its corners (even-odd rule)."""
        x, y = self.points[:, 0].astype(np.float32), self.points[:, 1].astype(np.float32)
        found = np.zeros(len(self), bool)
        for (x1, y1), (x2, y2) in zip(area, [*area[1:], area[0]]):
            if y1 == y2:
                continue
            crossed = (y1 > y) != (y2 > y)
            found ^= crossed & (x < (x2 - x1) * (y - y1) / (y2 - y1) + x1)
        return found


def map_of(search: "SimilaritySearch", *, random_state: int = 0) -> CollectionMap:
    """The map of a search: the one in its folder, extended for new rows, or a new one. Reports progress.

    The map is kept in the folder if the folder can be written.
    """
    path = None if search.folder is None else search.folder / MAP_FILE
    kept = None if path is None else _opened(path, search)
    if kept is not None and kept.fits(search):
        return kept
    made = None if kept is None or path is None else _extended(kept, path, search)
    made = made or _new(search, random_state)
    if path is not None:
        with suppress(OSError):  # a read-only folder
            _save(made, path, search)
    return made


def kept_map(search: "SimilaritySearch") -> CollectionMap | None:
    """The map in the folder of a search, if there is one and it fits the rows."""
    kept = None if search.folder is None else _opened(search.folder / MAP_FILE, search)
    return kept if kept is not None and kept.fits(search) else None


def copy_map(source: Path, target: Path) -> None:
    """Copy the map of one folder to another, if there is one; :func:`kept_map` checks whether it fits the rows."""
    if source.resolve() == target.resolve():
        return
    with suppress(OSError):  # the map can be made again
        write_bytes(target / MAP_FILE, (source / MAP_FILE).read_bytes())


def _new(search: "SimilaritySearch", random_state: int) -> CollectionMap:
    ids, codes = search.ids, search.codes()
    n = len(ids)
    if not n:
        raise ValueError("there are no rows yet, so there is no map")
    chosen = np.arange(n)
    if n > N_LANDMARKS:
        chosen = np.sort(np.random.default_rng(random_state).choice(n, N_LANDMARKS, replace=False))
    records = search.get(ids[chosen].tolist())
    vectors = _vectors(search, records)
    points, clusters = landmark_points(vectors, random_state), clusters_of(vectors, random_state)
    landmarks = MapLandmarks(codes[chosen], points, clusters.labels, search.hasher)
    if n == len(chosen):
        all_points, labels = points, clusters.labels
    else:
        all_points, labels = landmarks.place(codes)
        all_points[chosen], labels[chosen] = points, clusters.labels
    payloads = [record.payload or {} for record in records]
    names = cluster_names(clusters, [record.id for record in records], payloads)
    examples = [[records[row].id for row in rows] for rows in typical_rows(clusters, vectors, N_EXAMPLES)]
    alone, groups = _alone_and_groups(search, records)
    scaled, landmarks.points = _scaled(all_points, points)
    return CollectionMap(
        scaled, labels, _clusters(names, examples, scaled, labels), landmarks, _checksum(codes), alone, groups
    )


def _extended(kept: CollectionMap, path: Path, search: "SimilaritySearch") -> CollectionMap | None:
    """The map with points for new rows and without removed rows; None if too many rows are new."""
    ids, codes = search.ids, search.codes()
    before = _saved_ids(path)
    if not len(ids) or before.dtype.kind != ids.dtype.kind:
        return None
    _, old, here = np.intersect1d(before, ids, assume_unique=True, return_indices=True)
    new = np.ones(len(ids), bool)
    new[here] = False
    if new.mean() > _MOST_NEW:
        return None
    points, labels = np.empty((len(ids), 2), np.uint16), np.empty(len(ids), np.uint8)
    points[here], labels[here] = kept.points[old], kept.labels[old]
    placed, labels[new] = kept.landmarks.place(codes[new])
    points[new] = np.clip(placed, 0, SIDE)
    names = [cluster.name for cluster in kept.clusters]
    there = set(ids.tolist())
    examples = [
        [id for id in cluster.examples if id in there] or ids[labels == number][:N_EXAMPLES].tolist()
        for number, cluster in enumerate(kept.clusters)
    ]
    return CollectionMap(
        points,
        labels,
        _clusters(names, examples, points, labels),
        kept.landmarks,
        _checksum(codes),
        [id for id in kept.alone if id in there],
        [group for group in kept.groups if there.issuperset(group)],
    )


def _vectors(search: "SimilaritySearch", records: list[Any]) -> NDArray[np.float32]:
    """Vectors that are compared: the kept ones, of length one for cosine; without kept ones, those of the codes."""
    if search.keep_vectors is None and hasattr(search.hasher, "decode"):
        return search.hasher.decode(np.stack([record.code for record in records]))
    if search.keep_vectors is None:
        return unpack(np.stack([record.code for record in records]), search.n_bits).astype(np.float32)
    vectors = np.stack([record.vector for record in records]).astype(np.float32)
    return unit_rows(vectors) if search.metric == "cosine" else vectors


def _alone_and_groups(search: "SimilaritySearch", records: list[Any]) -> tuple[list[Any], list[list[Any]]]:
    """From some rows and their nearest neighbors: rows far from all others, and groups of nearly equal rows."""
    asked = records[:: max(1, len(records) // _ASKED)]
    if len(search) < 3:
        return [], []
    if search.keep_vectors is not None:
        distances, ids = search.search(np.stack([record.vector for record in asked]), 2)
    elif search.query == "code":
        distances, ids = search.search_codes(np.stack([record.code for record in asked]), 2)
    else:  # the search needs a real query, and only codes are known
        return [], []
    own = np.array([record.id for record in asked], ids.dtype)
    other = np.where(ids[:, 0] == own, 1, 0)
    rows = np.arange(len(asked))
    nearest, distance = ids[rows, other], distances[rows, other].astype(float)
    usual = float(np.median(distance))
    order = np.argsort(-distance, kind="stable")
    alone = [own[row] for row in order[:N_SHOWN] if distance[row] > 1.25 * usual]
    near = [row for row in order[::-1] if distance[row] <= 0.4 * usual]
    groups = _joined([(_plain(own[row]), _plain(nearest[row])) for row in near])
    return [_plain(id) for id in alone], [sorted(group) for group in groups[:N_SHOWN]]


def _joined(pairs: list[tuple[Any, Any]]) -> list[list[Any]]:
    """The connected components of pairs, in the order of their first pairs.

    >>> _joined([(1, 2), (3, 4), (2, 5)])
    [[1, 2, 5], [3, 4]]
    """
    groups: list[list[Any]] = []
    for pair in pairs:
        touched = [group for group in groups if not set(pair).isdisjoint(group)]
        joined = list(dict.fromkeys([id for group in touched for id in group] + list(pair)))
        if not touched:
            groups.append(joined)
            continue
        touched[0][:] = joined
        groups = [group for group in groups if group is touched[0] or group not in touched]
    return groups


def _clusters(names: list[str], examples: list[list[Any]], points: NDArray, labels: NDArray) -> list[MapCluster]:
    found = []
    for cluster, (name, typical) in enumerate(zip(names, examples)):
        rows = np.flatnonzero(labels == cluster)
        x, y = np.median(points[rows], axis=0).tolist() if len(rows) else (0, 0)
        found.append(MapCluster(name, len(rows), (int(x), int(y)), typical))
    return found


def _scaled(points: NDArray, landmark_points: NDArray) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """The points and the landmarks' points, scaled to fill the square of the map in both directions."""
    scaled, around = np.empty(points.shape, np.uint16), np.empty(landmark_points.shape, np.float32)
    for axis in range(2):
        places, filled = _without_gaps(points[:, axis])
        scaled[:, axis] = np.interp(points[:, axis], places, filled)
        around[:, axis] = np.interp(landmark_points[:, axis], places, filled)
    return scaled, around


def _without_gaps(values: NDArray) -> tuple[NDArray, NDArray]:
    """Values in ascending order, and their coordinates from 0 to ``SIDE``. Wide gaps between values become narrow.

    A few rows that are far from all others, such as copies of one picture, would leave most of the map empty.
    """
    places = np.unique(values)
    low, high = np.quantile(values, (0.05, 0.95))
    gaps = np.diff(places, prepend=places[0])
    widest = _WIDEST_GAP * (high - low)
    filled = np.cumsum(np.minimum(gaps, widest) if widest else gaps, dtype=np.float64)
    return places, filled / filled[-1] * SIDE if filled[-1] else np.full(len(places), SIDE / 2)


def _checksum(codes: NDArray[np.uint8]) -> int:
    return zlib.crc32(np.ascontiguousarray(codes).data)


def _plain(id: Any) -> Any:
    return id.item() if isinstance(id, np.generic) else id


def _save(made: CollectionMap, path: Path, search: "SimilaritySearch") -> None:
    ids = search.ids
    tensors = {
        "points": made.points,
        "labels": made.labels,
        "landmark_codes": made.landmarks.codes,
        "landmark_points": made.landmarks.points,
        "landmark_clusters": made.landmarks.clusters,
    }
    if ids.dtype.kind == "i":
        tensors["ids"] = ids
    else:
        texts = [id.encode() for id in ids.tolist()]
        tensors["id_bytes"] = np.frombuffer(b"".join(texts), np.uint8)
        tensors["id_ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    said = {"clusters": made.clusters, "alone": made.alone, "groups": made.groups, "checksum": made.checksum}
    metadata = {"format": _FORMAT, "format_version": _VERSION, "map": json.dumps(said)}
    metadata["hasher"] = digest_of(search.hasher)
    content = as_safetensors({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, metadata)
    write_bytes(path, content)


def _opened(path: Path, search: "SimilaritySearch") -> CollectionMap | None:
    """The map in a file; None if it cannot be read: it can be made again."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if (metadata.get("format"), metadata.get("format_version")) != (_FORMAT, _VERSION):
                return None
            if metadata.get("hasher") != digest_of(search.hasher):  # the codes of its landmarks are of another hasher
                return None
            said = json.loads(metadata["map"])
            codes, around, clusters_there = (file.get_tensor(f"landmark_{name}") for name in _LANDMARKS)
            landmarks = MapLandmarks(codes, around, clusters_there, search.hasher)
            points, labels = file.get_tensor("points"), file.get_tensor("labels")
        clusters = [MapCluster(name, size, (x, y), examples) for name, size, (x, y), examples in said["clusters"]]
        return CollectionMap(points, labels, clusters, landmarks, said["checksum"], said["alone"], said["groups"])
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def _saved_ids(path: Path) -> NDArray[Any]:
    with safe_open(path, framework="numpy") as file:
        if "ids" in file.keys():  # noqa: SIM118 - the file is no mapping
            return file.get_tensor("ids")
        text, ends = file.get_tensor("id_bytes").tobytes(), file.get_tensor("id_ends").tolist()
    ids = [text[start:end].decode() for start, end in zip([0, *ends], ends)]
    return np.array(ids, object)
