"""Name -> class: the table that the command line, the benchmarks, the docs and the contract tests read."""

from hashlearn.hashers.agh import AGH
from hashlearn.hashers.base import Hasher
from hashlearn.hashers.ch import CH
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.jpsh import JPSH
from hashlearn.hashers.jsh import JSH
from hashlearn.hashers.lsh import LSH
from hashlearn.hashers.och import OCH
from hashlearn.hashers.oeh import OEH
from hashlearn.hashers.psh import PSH
from hashlearn.hashers.rssh import RSSH
from hashlearn.hashers.sah import SAH
from hashlearn.hashers.sgh import SGH
from hashlearn.hashers.sh import SH
from hashlearn.hashers.sp import SP
from hashlearn.hashers.state import CLASSES
from hashlearn.hashers.union import HasherUnion

METHODS: dict[str, type[Hasher]] = {
    "lsh": LSH,
    "sh": SH,
    "itq": ITQ,
    "sp": SP,
    "sgh": SGH,
    "agh": AGH,
    "oeh": OEH,
    "och": OCH,
    "ch": CH,
    "rssh": RSSH,
    "jsh": JSH,
    "psh": PSH,
    "jpsh": JPSH,
    "sah": SAH,
}
CLASSES.maps += [METHODS, {"HasherUnion": HasherUnion}]  # what can be saved


def method_named(name: str) -> type[Hasher]:
    """The class of a method, by its name in any case."""
    try:
        return METHODS[name.lower()]
    except (KeyError, AttributeError):
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {name!r}") from None
