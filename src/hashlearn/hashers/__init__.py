"""LEARN: one method, one file, named as the literature names it."""

from hashlearn.hashers.base import Hasher
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.jpsh import JPSH
from hashlearn.hashers.jsh import JSH
from hashlearn.hashers.lsh import LSH
from hashlearn.hashers.psh import PSH
from hashlearn.hashers.registry import METHODS, method_named
from hashlearn.hashers.sah import SAH

__all__ = ["ITQ", "JPSH", "JSH", "LSH", "METHODS", "PSH", "SAH", "Hasher", "method_named"]
