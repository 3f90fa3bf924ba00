"""The vectors that a search keeps beside its codes.

Those of the last save lie in a file of the search's folder; those that were added since, in a file without a name,
until the next save. So nobody who has the folder open sees a vector before it is saved.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.search.pair_distances import Reader
from hashlearn.search.vector_file import VectorFile
from hashlearn.search.vector_values import Calibration
from hashlearn.search.vector_view import VectorView

DTYPES = ("float32", "float16", "int8")


class VectorsKind(NamedTuple):
    """How vectors are kept: "float32", "float16" or "int8", and for int8 what its bytes mean."""

    dtype: str
    calibration: Calibration | None

    def new_file(self, path: Any, n_features: int) -> VectorFile:
        return VectorFile.create(path, n_features, self.dtype, self.calibration)


class KeptVectors(NamedTuple):
    """Vectors by number, at one moment; a newer one of the same number counts.

    Attributes
    ----------
    saved, unsaved : VectorView or None
    """

    saved: VectorView | None
    unsaved: VectorView | None

    @property
    def n_features(self) -> int:
        return self._views[0].n_features

    def places_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where vectors are; those not saved come behind the others."""
        places = np.full(len(numbers), -1, np.int64)
        if self.saved is not None:
            places = self.saved.find(numbers)
        if self.unsaved is not None:
            newer = self.unsaved.find(numbers)
            places = np.where(newer >= 0, newer + self._n_saved, places)
        return places

    def expect(self, places: NDArray[np.int64]) -> None:
        for view, part in self._parts(places):
            view.expect(part)

    def read(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors at places that ascend."""
        parts = [view.read(part) for view, part in self._parts(places)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_features), np.float32)

    def take(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of numbers, in their order."""
        return taken(self, self.places_of(numbers))

    def __reduce__(self) -> Any:
        assert self.saved is not None
        return _from_file, (self.saved.name, self.saved.n_records)

    @property
    def _views(self) -> list[VectorView]:
        return [view for view in self if view is not None]

    @property
    def _n_saved(self) -> int:
        return 0 if self.saved is None else self.saved.n_records

    def _parts(self, places: NDArray[np.int64]) -> Iterable[tuple[VectorView, NDArray[np.int64]]]:
        middle = np.searchsorted(places, self._n_saved)
        if self.saved is not None and middle:
            yield self.saved, places[:middle]
        if self.unsaved is not None and middle < len(places):
            yield self.unsaved, places[middle:] - self._n_saved


def _from_file(path: Any, n_records: int) -> KeptVectors:
    return KeptVectors(VectorFile.open(path, n_records).view, None)


def taken(reader: Reader, places: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors at places, in their order; each is read once."""
    unique, order = np.unique(places, return_inverse=True)
    reader.expect(unique)
    return reader.read(unique)[order]
