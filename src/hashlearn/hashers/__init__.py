"""LEARN: one method, one file, named as the literature names it."""

from hashlearn.hashers.agh import AGH
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.jpsh import JPSH
from hashlearn.hashers.jsh import JSH
from hashlearn.hashers.lsh import LSH
from hashlearn.hashers.psh import PSH
from hashlearn.hashers.registry import METHODS, method_named
from hashlearn.hashers.sah import SAH
from hashlearn.hashers.sgh import SGH
from hashlearn.hashers.sh import SH
from hashlearn.hashers.sp import SP

__all__ = [
    "AGH",
    "ITQ",
    "JPSH",
    "JSH",
    "LSH",
    "METHODS",
    "PSH",
    "SAH",
    "SGH",
    "SH",
    "SP",
    "Hasher",
    "method_named",
]
