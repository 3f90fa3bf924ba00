"""LEARN: one method, one file, named as the literature names it."""

import lazy_loader

from hashlearn.hashers.names import CLASS_NAMES

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "base": ["Hasher"],
        "lengths": ["fit_lengths"],
        "registry": ["METHODS", "method_named"],
        "union": ["HasherUnion"],
        **{name: [class_name] for name, class_name in CLASS_NAMES.items()},
    },
)
