"""LEARN: one method, one file, named as the literature names it."""

from hashlearn.hashers.agh import AGH
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.ch import CH
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.jpsh import JPSH
from hashlearn.hashers.jsh import JSH
from hashlearn.hashers.lengths import fit_lengths
from hashlearn.hashers.lsh import LSH
from hashlearn.hashers.och import OCH
from hashlearn.hashers.oeh import OEH
from hashlearn.hashers.psh import PSH
from hashlearn.hashers.registry import METHODS, method_named
from hashlearn.hashers.rssh import RSSH
from hashlearn.hashers.sah import SAH
from hashlearn.hashers.sgh import SGH
from hashlearn.hashers.sh import SH
from hashlearn.hashers.sp import SP
from hashlearn.hashers.union import HasherUnion

__all__ = [
    "AGH",
    "CH",
    "ITQ",
    "JPSH",
    "JSH",
    "LSH",
    "METHODS",
    "OCH",
    "OEH",
    "PSH",
    "RSSH",
    "SAH",
    "SGH",
    "SH",
    "SP",
    "Hasher",
    "HasherUnion",
    "fit_lengths",
    "method_named",
]
