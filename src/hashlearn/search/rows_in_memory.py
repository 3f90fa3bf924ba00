"""Rows in memory, and the folder that they are saved to."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.hashers.saving import digest_of
from hashlearn.rows import as_rows
from hashlearn.search.changes import Change, as_texts
from hashlearn.search.kept_vectors import KeptVectors, VectorsKind
from hashlearn.search.metric_hasher import MetricHasher
from hashlearn.search.row_ids import ids_to_find
from hashlearn.search.rows_in_state import RowsInState
from hashlearn.search.search_folder import (
    Opened,
    Saved,
    alone_with,
    append_changes,
    applied,
    is_worth_a_journal,
    open_folder,
    read_news,
    write_generation,
)
from hashlearn.search.state import State
from hashlearn.search.tuning import Tuning
from hashlearn.search.vector_file import VectorFile
from hashlearn.search.vector_values import Calibration


class RowsInMemory(RowsInState):
    """Rows in memory; vectors, if they are kept, in a file.

    Parameters
    ----------
    state : State
        The rows.
    keep : {"float32", "float16", "int8"} or None
        How vectors are kept, if they are.
    kind : VectorsKind or None
        The same, with what int8 needs, once it is known.
    saved : Saved or None
        What is known of the folder that the rows are from.
    """

    def __init__(self, state: State, keep: str | None, kind: VectorsKind | None = None, saved: Saved | None = None):
        super().__init__(state)
        self._base = state
        """The state as it is in the folder."""
        self._keep, self._kind, self._saved = keep, kind, saved
        self._unsaved: VectorFile | None = None
        self._touched: dict[Any, bool] = {}
        """Ids of rows that have changed since the last save, and whether they were added."""
        self._is_whole = saved is None
        """Does the next save write everything?"""

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        opened = open_folder(folder)
        return cls(opened.state, None if opened.kind is None else opened.kind.dtype, opened.kind, opened.saved)

    @property
    def keep_vectors(self) -> str | None:
        return self._keep

    @property
    def folder(self) -> Path | None:
        return None if self._saved is None else self._saved.folder

    def refitted(self, encoder: MetricHasher, X: Any) -> Self:
        calibration = Calibration.of(X) if self._keep == "int8" else None
        kind = None if self._keep is None else VectorsKind(self._keep, calibration)
        rows = type(self)(State.empty(encoder), self._keep, kind, self._saved)
        rows._base, rows._is_whole = self._base, True
        return rows

    def put(self, X: Any, ids: ArrayLike | None, payloads: Any, *, only_new: bool) -> None:
        state, rows = self.new_rows(X, ids, payloads, only_new)
        changed = state.upserted(rows)
        if self._keep is not None and len(rows.ids):
            changed = self._with_vectors(changed, X, rows.ids)
        if changed.id_type != self._state.id_type:
            self._is_whole = True
        self._touch(rows.ids, added=only_new)
        self._state = changed

    def remove(self, ids: ArrayLike) -> None:
        state = self._state
        wanted = ids_to_find(ids, state)
        changed = state.removed(np.unique(state.positions_of(wanted)))
        self._touch(wanted, added=False)
        self._state = changed

    def keep_tuning(self, tuning: Tuning) -> None:
        self._is_whole = True
        self._state = replace(self._state, tuning=tuning)

    def save(self, folder: str | Path | None) -> None:
        saved = self._saved
        if folder is None and saved is None:
            raise ValueError("folder must be given: this search was neither opened from a folder nor saved to one")
        is_same = saved is not None and (folder is None or Path(folder).resolve() == saved.folder.resolve())
        if saved is None or not is_same:
            self._take_over(write_generation(folder, self._state, self._kind_to_save(), None))  # type: ignore[arg-type]
            return
        with alone_with(saved):
            if not self._is_whole and is_worth_a_journal(saved, len(self._touched), len(self)):
                if self._touched:
                    self._take_over(append_changes(Opened(self._state, self._kind, saved), list(self._touched)))
            else:
                self._take_over(write_generation(saved.folder, self._state, self._kind_to_save(), saved))

    def refresh(self) -> bool:
        if self._saved is None:
            raise ValueError("refresh needs a folder: this search was neither opened from one nor saved to one")
        news = read_news(Opened(self._base, self._kind, self._saved))
        if news is None:
            return False
        state = self._rebased(news) if self._touched or self._is_whole else news.state
        self._kind, self._saved, self._base, self._state = news.kind, news.saved, news.state, state
        return True

    def as_now(self) -> Self:
        if self._state.vectors is not None and self._state.vectors.unsaved is not None:
            raise TypeError("cannot copy or pickle vectors that are not saved; save the search to a folder first")
        rows = copy.copy(self)
        rows._unsaved = None
        rows._touched = dict(self._touched)
        return rows

    def close(self) -> None:
        """Files are closed when nobody uses them any more."""

    def _with_vectors(self, state: State, X: Any, ids: NDArray[Any]) -> State:
        """With the vectors of rows in the file of those that are not saved."""
        kind = self._kind
        if kind is None or (kind.dtype == "int8" and kind.calibration is None):
            kind = VectorsKind(str(self._keep), Calibration.of(X) if self._keep == "int8" else None)
        saved, unsaved = state.vectors or KeptVectors(None, None)
        if unsaved is None or self._unsaved is None:
            file = kind.new_file(None, as_rows(X).shape[1])
        else:  # what a change that was interrupted has written behind these vectors does not count
            file = self._unsaved
            file.view = unsaved
        file.upsert(X, state.numbers_at(state.find(ids)[0]))
        self._kind, self._unsaved = kind, file
        return replace(state, vectors=KeptVectors(saved, file.view))

    def _touch(self, ids: NDArray[Any], *, added: bool) -> None:
        if self._saved is None or self._is_whole:
            return
        for id in ids.tolist():
            self._touched.setdefault(id, added)

    def _kind_to_save(self) -> VectorsKind | None:
        if self._keep is not None and self._kind is None:
            return VectorsKind(self._keep, None) if self._keep != "int8" else None
        return self._kind

    def _take_over(self, opened: Opened) -> None:
        """Go on with what was just saved."""
        self._kind, self._saved, self._base, self._state = opened.kind, opened.saved, opened.state, opened.state
        self._unsaved, self._touched, self._is_whole = None, {}, False

    def _rebased(self, news: Opened) -> State:
        """The changes of this search that are not saved, on top of what another process has saved."""
        state = self._state
        if self._is_whole or digest_of(news.state.encoder.hasher) != digest_of(state.encoder.hasher):
            raise ValueError(
                f"{news.saved.folder} was saved anew by another process, and this search has other codes that are not "
                "saved; open the folder again, or save this search to another one"
            )
        touched = list(self._touched)
        ids = as_texts(touched) if state.names is not None else np.array(touched, np.int64)
        twice = [id for id, there in zip(touched, news.state.find(ids)[1]) if there and self._touched[id]]
        if twice:
            raise ValueError(f"id {twice[0]!r:.60} was added here and by another process too; remove it here first")
        positions, known = state.find(ids)
        rows = state.rows_at(positions[known])._replace(numbers=None)
        rebased = applied(news.state, Change(ids[~known].tolist(), rows, None, None))
        if self._keep is not None and len(rows.ids):
            vectors = state.vectors_at(positions[known])
            self._unsaved = None
            rebased = self._with_vectors(rebased, vectors, rows.ids)
        return rebased
