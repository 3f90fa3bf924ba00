"""CH, RSSH, OEH and OCH arrive at the published implementations' bits when they start from the same state."""

import numpy as np
import pytest
from oracle_files import Oracle, oracle_files

from hashlearn import CH, OCH, OEH, RSSH, unpack
from hashlearn.compute import RowBlocks
from hashlearn.linalg.ordinal import find_landmarks

EQUAL_BITS = 0.999


def ch(o):
    p = o.params
    return CH(
        o.n_bits,
        n_clusters=p["K"],
        n_iter=p["itq_iterations"],
        kmeans_iter=p["kmeans_rounds"],
        centers=o.X[o["init_center_rows"]],
        directions=list(o["pca_axes"]),
        init=list(o["init_rotations"]),
    )


def rssh(o):
    p = o.params
    return RSSH(
        o.n_bits,
        rank=p["r"],
        beta=p["beta"],
        lam=p["lam"],
        eta=p["eta"],
        sigma=p["kernel_sigma"],
        n_iter=p["outer_iterations"],
        factor_iter=p["factor_iterations"],
        init_V=o["init_V"],
        init_G=o["init_G"],
        anchors=o.X[o["kernel_anchor_rows"]],
    )


def ordinal_start(o):
    """The state both ordinal methods start from; landmarks are stored as seen from the subset's mean."""
    return {
        "k": o.params["k"],
        "n_iter": o.params["max_iter"],
        "n_components": o.params["dimD"],
        "subset": o["subset"],
        "landmarks": o["landmarks"] + o["subset_mean"],
        "directions": o["pca_axes"],
        "init": o["init_projection"],
    }


def oeh(o):
    p = o.params
    settings = {"lam": p["lamda"], "beta": p["beta"], "step": p["alpha"], "as_released": not p["corrected"]}
    return OEH(o.n_bits, **settings, **ordinal_start(o))


def och(o):
    return OCH(o.n_bits, as_released=True, **ordinal_start(o))


BUILDERS = {"CH": ch, "RSSH": rssh, "OEH": oeh, "OCH": och}


@pytest.mark.parametrize("path", oracle_files(*BUILDERS), ids=lambda path: path.stem)
def test_bits_equal_the_published_ones(path):
    o = Oracle(path)
    hasher = BUILDERS[o.method](o)
    check_bits(o, hasher.fit_codes(o.X), "train_bits")
    check_bits(o, hasher.transform(o.Xq), "query_bits")
    if "train_bits_hash_function" in o:
        check_bits(o, hasher.transform(o.X), "train_bits_hash_function")
    if "W" in o:  # bits forgive a wrong constant, the weights do not
        np.testing.assert_allclose(hasher.weights_, o["W"], atol=1e-6 * np.abs(o["W"]).max())


def check_bits(o, codes, wanted):
    equal = np.mean(unpack(codes, o.n_bits) == o[wanted])
    assert equal >= EQUAL_BITS, f"{wanted}: {equal:.4%} of the bits are equal"


@pytest.mark.parametrize("path", oracle_files("OEH", "OCH"), ids=lambda path: path.stem)
def test_principal_directions_hold_the_variance_the_published_ones_hold(path):
    o = Oracle(path)
    found = find_landmarks(
        RowBlocks(o.X),
        max_samples=len(o.X),
        subset=o["subset"],
        n_landmarks="auto",
        landmarks=o["landmarks"] + o["subset_mean"],
        n_components=o.params["dimD"],
        directions=None,
        rounds=(),
        rng=np.random.RandomState(0),
    )
    seen = o.X[o["subset"]] - found.mean
    np.testing.assert_allclose(np.var(seen @ found.directions, axis=0), np.var(seen @ o["pca_axes"], axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.affinity[0], o["affinity_first_row"], atol=1e-12)
    np.testing.assert_allclose(found.affinity.sum(axis=1), o["affinity_row_sums"], rtol=1e-9)
