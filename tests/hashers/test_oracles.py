"""Every method arrives at the published implementation's bits when it starts from the same state."""

import numpy as np
import pytest
from oracle_files import FOLDER, Oracle, oracle_files

from hashlearn import ITQ, JPSH, JSH, LSH, unpack

EQUAL_BITS = 0.999
SOLVER_TOL = 1e-9


def lsh(o):
    yield "", LSH(o.n_bits, center=False, init=o["init_projection"])
    yield "_centered", LSH(o.n_bits, center=True, init=o["init_projection"])


def itq(o):
    for suffix in ("", "_centered"):
        if f"init_rotation{suffix}" in o:
            start = {"init": o[f"init_rotation{suffix}"], "directions": o[f"pca_axes{suffix}"]}
            yield suffix, ITQ(o.n_bits, center=bool(suffix), n_iter=o.params["iterations"], **start)


def jsh(o):
    p = o.params
    yield (
        "",
        JSH(
            o.n_bits,
            n_neighbors=p["k"],
            alpha=p["alpha"],
            max_iter=p["T"],
            epsilon=p["eps_Q"],
            bias=p["bias"],
            normalize_graph=p["normalize_graph"],
            rescale=False,
            anchors=o["anchors"],
            init=o["init_codes"],
        ),
    )


def jpsh(o):
    p = o.params
    penalties = {name: p[name] for name in ("lambda1", "lambda2", "lambda3")}
    yield (
        "",
        JPSH(
            o.n_bits,
            n_neighbors=p["k"],
            n_anchor_neighbors=p["psi"],
            **penalties,
            max_iter=p["T"],
            max_imbalance=None,
            epsilon=p["epsilon"],
            graph_ridge=p["graph_ridge"],
            bias=p["bias"],
            normalize_graph=p["normalize_graph"],
            rescale=False,
            anchors=o["anchors"],
            init=o["init_codes"],
            soft_offsets=1,
            pairwise_weight=1.0,
            solver_tol=SOLVER_TOL,
        ),
    )


BUILDERS = {"LSH": lsh, "ITQ": itq, "JSH": jsh, "JPSH": jpsh}


@pytest.mark.parametrize("path", oracle_files(*BUILDERS), ids=lambda path: path.stem)
def test_bits_equal_the_published_ones(path):
    o = Oracle(path)
    for suffix, hasher in BUILDERS[o.method](o):
        if f"train_bits{suffix}" not in o:
            continue
        hasher.fit(o.X)
        for X, wanted in ((o.X, f"train_bits{suffix}"), (o.Xq, f"query_bits{suffix}")):
            equal = np.mean(unpack(hasher.transform(X), o.n_bits) == o[wanted])
            assert equal >= EQUAL_BITS, f"{wanted}: {equal:.4%} of the bits are equal"
        if "codes_per_iteration" in o:
            check_weights(o, hasher)


def check_weights(o, hasher):
    """Bits forgive a wrong constant; the weights do not."""
    np.testing.assert_array_equal(hasher.codes_per_round_, o["codes_per_iteration"])
    assert relative_error(hasher.pairwise_weights_, o["W"]) < 1e-6
    assert relative_error(hasher.projection_, o["F"].T[: o.X.shape[1]]) < 1e-6
    if "offsets" in o:
        assert relative_error(hasher.offsets_, o["offsets"]) < 1e-6


def relative_error(ours, theirs):
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


def test_there_are_files_to_compare_with():
    assert oracle_files(), f"no oracle files in {FOLDER}"
