"""LEARN: one method, one file, named as the literature names it."""

from hashlearn.hashers.base import Hasher
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.lsh import LSH
from hashlearn.hashers.registry import METHODS, method_named

__all__ = ["ITQ", "LSH", "METHODS", "Hasher", "method_named"]
