"""A fit that changes all of a hasher or nothing: whatever interrupts it, the hasher is as before, or fitted anew."""

import functools
from collections.abc import Callable
from typing import Any

from hashlearn.threads import one_blas_thread

LEARNING = ("fit", "fit_codes", "fit_summary")
"""Methods of a hasher that change what it has learned."""

_OF_THE_INPUT = {"n_features_in_", "feature_names_in_"}


def make_fits_whole(cls: type) -> None:
    """Have the methods that a class defines for learning work on a copy, which then takes the place of the original."""
    for name in LEARNING:
        if name in vars(cls):
            setattr(cls, name, _whole(vars(cls)[name]))


def has_learned(hasher: Any) -> bool:
    """Whether a hasher is fitted: it has learned something, and not only seen how wide the rows are."""
    learned = [name for name in vars(hasher) if name.endswith("_") and not name.startswith("_")]
    return not set(learned) <= _OF_THE_INPUT


def _whole(learn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(learn)
    def whole(self, *args, **kwargs):
        aside = object.__new__(type(self))
        aside.__dict__ = dict(vars(self))
        with one_blas_thread():  # passes have threads of their own; sums do not depend on how many BLAS has
            result = learn(aside, *args, **kwargs)
        self.__dict__ = aside.__dict__  # the one step in which everything changes
        return self if result is aside else result

    return whole
