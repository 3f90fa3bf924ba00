"""Every method arrives at the published implementation's bits when it starts from the same state."""

from itertools import product

import numpy as np
import pytest
from oracle_builders import BUILDERS, free_signs
from oracle_files import FOLDER, Oracle, oracle_files

from hashlearn import METHODS, unpack
from hashlearn.linalg import rotations

EQUAL_BITS = 0.999
MOST_SINGULAR_ROUNDS = 6

WITHOUT_ORACLE = {
    "knnh": "the published program needs MATLAB, and moves rows one after the other, which the paper does not",
    "psh": "the paper gives no rule for encoding with PSH alone, and no program",
    "sah": "our own",
    "abh": "our own",
}
"""Methods that no published program is compared with, and why."""


@pytest.mark.parametrize("path", oracle_files(), ids=lambda path: path.stem)
def test_bits_equal_the_published_ones(path, monkeypatch):
    o = Oracle(path)
    for suffix, hasher in BUILDERS[o.method](o):
        if f"train_bits{suffix}" not in o:
            continue
        equal = equal_bits(o, suffix, hasher)
        if equal < EQUAL_BITS:
            equal = max(equal_bits_of_every_rotation(o, suffix, hasher, monkeypatch), default=equal)
        assert equal >= EQUAL_BITS, f"{path.stem}{suffix}: {equal:.4%} of the bits are equal"


def equal_bits(o, suffix, hasher) -> float:
    """The share of the bits that are the published ones, in the set of rows where it is lowest."""
    found = {f"train_bits{suffix}": hasher.fit_codes(o.X), f"query_bits{suffix}": hasher.transform(o.Xq)}
    if "train_bits_hash_function" in o:
        found["train_bits_hash_function"] = hasher.transform(o.X)
    found = {name: unpack(codes, o.n_bits) for name, codes in found.items()}
    agreement = np.vstack([bits == o[name] for name, bits in found.items()]).mean(axis=0)
    flipped = free_signs(o) & (agreement < 0.5)
    return min(np.mean((bits ^ flipped) == o[name]) for name, bits in found.items())


def equal_bits_of_every_rotation(o, suffix, hasher, monkeypatch):
    """The shares for every choice of the rotations that the published algorithm leaves open.

    Where the correlation of a round is singular (two bits are complements of each other), two rotations are equally
    good, and the rounding of the machine's matrix products chose one in the published run.
    """
    choices, n_singular = iter(()), 0

    def nearest_rotation(M):
        nonlocal n_singular
        left, values, right = np.linalg.svd(M.T)
        if values[-1] < 1e-12 * values[0]:
            n_singular += 1
            left[:, -1] *= next(choices, 1)
        return (left @ right).T

    monkeypatch.setattr(rotations, "nearest_rotation", nearest_rotation)
    yield equal_bits(o, suffix, hasher)
    for signs in product((1, -1), repeat=min(n_singular, MOST_SINGULAR_ROUNDS)):
        choices = iter(signs)
        yield equal_bits(o, suffix, hasher)
    monkeypatch.undo()


@pytest.mark.parametrize("path", oracle_files("JSH", "JPSH"), ids=lambda path: path.stem)
def test_weights_and_every_round_equal_the_published_ones(path):
    """Bits forgive a wrong constant; the weights do not."""
    o = Oracle(path)
    ((_, hasher),) = BUILDERS[o.method](o)
    hasher.fit(o.X)
    np.testing.assert_array_equal(hasher.codes_per_round_, o["codes_per_iteration"])
    assert relative_error(hasher.pairwise_weights_, o["W"]) < 1e-6
    assert relative_error(hasher.projection_, o["F"].T[: o.X.shape[1]]) < 1e-6
    if "offsets" in o:
        assert relative_error(hasher.offsets_, o["offsets"]) < 1e-6


def relative_error(ours, theirs):
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


def test_there_is_a_file_for_every_published_method():
    assert oracle_files(), f"no oracle files in {FOLDER}"
    if FOLDER.parent.name == "tests":
        methods = {Oracle(path).method.lower().rstrip("2") for path in oracle_files()}
        missing = set(METHODS) - methods - set(WITHOUT_ORACLE)
        assert not missing, f"make an oracle for {missing}, or say in WITHOUT_ORACLE why there is none"
        assert not methods & set(WITHOUT_ORACLE)
