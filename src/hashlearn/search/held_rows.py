"""Where the rows of a similarity search are: what each of the places does.

====================================================  ==================================================================
:class:`~hashlearn.search.rows_in_memory`             codes in memory, saved to a folder and opened from one
:class:`~hashlearn.search.rows_mirrored`              codes in a store, and a copy of them in memory that is searched
:class:`~hashlearn.search.rows_in_store`              codes in a store, which searches them; nothing is in memory
====================================================  ==================================================================
"""

from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from numpy.typing import ArrayLike, NDArray

from hashlearn.codes.results import Neighbors, RangeResult
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.results import Record
from hashlearn.search.state import Index
from hashlearn.search.tuning import Tuning


class Options(NamedTuple):
    """How rows are searched; see :meth:`hashlearn.SimilaritySearch.search`."""

    rerank: Any = None
    candidates: int | None = None
    filter: dict | None = None
    subset: ArrayLike | None = None
    n_jobs: int | None = None


class HeldRows(Protocol):
    """The rows of a search, and the encoder that their codes are of.

    Any number of threads may read while one changes them. Who calls sees to it that no two change them at a time.
    """

    @property
    def place(self) -> Any:
        """The store that they live in, as the user has named it; None if they do not."""

    @property
    def encoder(self) -> MetricHasher: ...

    @property
    def ids(self) -> NDArray[Any]:
        """All ids, ascending."""

    @property
    def index(self) -> Index:
        """A copy of the index of the codes."""

    @property
    def keep_vectors(self) -> str | None:
        """How vectors are kept, if they are."""

    @property
    def tuning(self) -> Tuning | None: ...

    @property
    def folder(self) -> Path | None: ...

    def __len__(self) -> int: ...

    def __contains__(self, id: Any) -> bool: ...

    def get(self, ids: ArrayLike) -> list[Record]: ...

    def payloads(self, ids: ArrayLike) -> list[dict[str, Any] | None]: ...

    def search(self, X: Any, k: int, options: Options) -> Neighbors: ...

    def search_codes(self, codes: ArrayLike, k: int, options: Options) -> Neighbors: ...

    def within(self, X: Any, distance: float, options: Options) -> RangeResult: ...

    def warm(self) -> None: ...

    def put(self, X: Any, ids: ArrayLike | None, payloads: Any, *, only_new: bool) -> None:
        """Add rows, in the place of those that have the same ids unless all must be new."""

    def remove(self, ids: ArrayLike) -> None: ...

    def refitted(self, encoder: MetricHasher, X: Any) -> Self:
        """The same place for the rows of another encoder, which was fitted to the rows X."""

    def tune(self, queries: Any, k: int, target_recall: float) -> Tuning:
        """What a wanted recall needs; :meth:`keep_tuning` keeps it."""

    def keep_tuning(self, tuning: Tuning) -> None: ...

    def save(self, folder: str | Path | None) -> None: ...

    def refresh(self) -> bool:
        """Take over what others have changed; returns whether there was something."""

    def as_now(self) -> Self:
        """These rows, to be pickled: later changes are not seen in them."""

    def close(self) -> None:
        """Let go of files and connections."""
