"""SH, SP, SGH and AGH arrive at the published implementations' bits when they start from the same state."""

import numpy as np
import pytest
from oracle_files import Oracle, oracle_files

from hashlearn import AGH, SGH, SH, SP, unpack
from hashlearn.compute import RowBlocks
from hashlearn.linalg.anchors import kmeans

EQUAL_BITS = 0.999


def sh(o):
    yield "", SH(o.n_bits)


def sp(o):
    p = o.params
    for suffix in ("", "_centered"):
        yield (
            suffix,
            SP(
                o.n_bits,
                beta=p["beta"],
                sparsity=p["sparsity"],
                n_iter=p["iterations"],
                center=bool(suffix),
                rescale=False,
                init=o["init_projection"].T,
            ),
        )


def sgh(o):
    p = o.params
    yield (
        "",
        SGH(
            o.n_bits,
            rho=p["rho"],
            gamma=p["gamma"],
            n_sweeps=p["refinement_sweeps"],
            bases=o.X[o["basis_rows"]],
            refine_order=o["refine_order"],
        ),
    )


def agh(o):
    p = o.params
    yield (
        "",
        AGH(
            o.n_bits,
            n_layers=p["layers"],
            n_neighbors=p["s"],
            max_eigenvalue=p["eigenvalue_max"],
            anchors=o["anchors"],
        ),
    )


BUILDERS = {"SH": sh, "SP": sp, "SGH": sgh, "AGH": agh, "AGH2": agh}


def free_signs(o):
    """The bits whose eigenvector may point either way, which complements the whole column."""
    if o.method == "SP":
        return np.zeros(o.n_bits, bool)
    return np.arange(o.n_bits) < (o.n_bits // 2 if o.method == "AGH2" else o.n_bits)


@pytest.mark.parametrize("path", oracle_files(*BUILDERS), ids=lambda path: path.stem)
def test_bits_equal_the_published_ones(path):
    o = Oracle(path)
    for suffix, hasher in BUILDERS[o.method](o):
        if f"train_bits{suffix}" not in o:
            continue
        hasher.fit(o.X)
        theirs = [o[f"train_bits{suffix}"], o[f"query_bits{suffix}"]]
        ours = [unpack(hasher.transform(X), o.n_bits) for X in (o.X, o.Xq)]
        flipped = free_signs(o) & (np.mean(np.vstack(ours) == np.vstack(theirs), axis=0) < 0.5)
        for name, mine, published in zip(("training", "query"), ours, theirs):
            equal = np.mean((mine ^ flipped) == published)
            assert equal >= EQUAL_BITS, f"{name} bits{suffix}: {equal:.4%} are equal"


@pytest.mark.parametrize("path", oracle_files("SH"), ids=lambda path: path.stem)
def test_sh_chooses_the_published_waves(path):
    o = Oracle(path)
    hasher = SH(o.n_bits).fit(o.X)
    np.testing.assert_array_equal(hasher.mode_axis_, o["mode_axis"])
    np.testing.assert_array_equal(hasher.mode_number_, o["mode_number"])
    lengths = (o["upper"] - o["lower"])[: len(hasher.lower_)]
    np.testing.assert_allclose(hasher.upper_ - hasher.lower_, lengths, rtol=1e-9, atol=1e-9 * lengths.max())


@pytest.mark.parametrize("path", oracle_files("SP"), ids=lambda path: path.stem)
def test_sp_keeps_the_published_entries(path):
    o = Oracle(path)
    for suffix, hasher in sp(o):
        if f"projection{suffix}" in o:
            ours, theirs = hasher.fit(o.X).projection_.T, o[f"projection{suffix}"]
            assert np.isclose(ours, theirs, atol=1e-9).mean() >= EQUAL_BITS
            np.testing.assert_allclose((ours != 0).mean(), 1 - o.params["sparsity"], atol=2 / ours.size)


@pytest.mark.parametrize("path", oracle_files("SGH"), ids=lambda path: path.stem)
def test_sgh_sees_the_published_kernel_and_learns_its_weights(path):
    o = Oracle(path)
    ((_, hasher),) = sgh(o)
    hasher.fit(o.X)
    np.testing.assert_allclose(hasher.bases_, o["bases"], atol=1e-12)
    np.testing.assert_allclose(hasher.kernel_width_, o["kernel_delta"], rtol=1e-12)
    np.testing.assert_allclose(hasher.kernel_mean_, o["kernel_bias"], rtol=1e-12)
    np.testing.assert_allclose(np.abs(hasher.weights_), np.abs(o["W"]), atol=1e-5)


@pytest.mark.parametrize("path", oracle_files("AGH", "AGH2"), ids=lambda path: path.stem)
def test_agh_weighs_anchors_and_cuts_as_published(path):
    o = Oracle(path)
    ((_, hasher),) = agh(o)
    hasher.fit(o.X)
    np.testing.assert_allclose(hasher.sigma_, o["graph_sigma"], rtol=1e-10)
    # The published single layer leaves out the common factor sqrt(n).
    factor = 1.0 if "thresholds" in o else np.sqrt(len(o.X))
    np.testing.assert_allclose(np.abs(hasher.offsets_), factor * np.abs(o["W"]), rtol=1e-6, atol=1e-8)
    if "thresholds" in o:
        # An eigenvector of the other sign swaps the two sides: theta+ becomes -theta-.
        same = (hasher.offsets_ * o["W"]).sum(axis=0) > 0
        wanted = np.where(same, o["thresholds"], -o["thresholds"][::-1])
        np.testing.assert_allclose(hasher.thresholds_, wanted, rtol=1e-6)


@pytest.mark.parametrize("path", oracle_files("AGH", "AGH2"), ids=lambda path: path.stem)
def test_the_anchors_are_the_published_kmeans(path):
    o = Oracle(path)
    anchors, _ = kmeans(RowBlocks(o.X), o.X[o["kmeans_init_rows"]], range(10))
    np.testing.assert_allclose(anchors, o["anchors"], atol=1e-12)
