"""What the methods learn on the way to their bits is what the published implementations learned."""

import numpy as np
import pytest
from oracle_builders import BUILDERS, agh, sgh, sp
from oracle_files import Oracle, oracle_files

from hashlearn import SH
from hashlearn.linalg.ordinal import LandmarkSettings, find_landmarks
from hashlearn.rows import RowBlocks


@pytest.mark.parametrize("path", oracle_files("RSSH", "OEH", "OCH"), ids=lambda path: path.stem)
def test_weights_equal_the_published_ones(path):
    o = Oracle(path)
    ((_, hasher),) = BUILDERS[o.method](o)
    np.testing.assert_allclose(hasher.fit(o.X).weights_, o["W"], atol=1e-6 * np.abs(o["W"]).max())


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
            assert np.isclose(ours, theirs, atol=1e-9).mean() >= 0.999
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


@pytest.mark.parametrize("path", oracle_files("OEH", "OCH"), ids=lambda path: path.stem)
def test_principal_directions_hold_the_variance_the_published_ones_hold(path):
    o = Oracle(path)
    settings = LandmarkSettings(
        train_sample=len(o.X),
        subset=o["subset"],
        n_landmarks="auto",
        landmarks=o["landmarks"] + o["subset_mean"],
        n_components=o.params["dimD"],
        directions=None,
        kmeans_max_iter=1,
    )
    found = find_landmarks(RowBlocks(o.X), settings, np.random.RandomState(0))
    seen = o.X[o["subset"]] - found.mean
    np.testing.assert_allclose(np.var(seen @ found.directions, axis=0), np.var(seen @ o["pca_axes"], axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.affinity[0], o["affinity_first_row"], atol=1e-12)
    np.testing.assert_allclose(found.affinity.sum(axis=1), o["affinity_row_sums"], rtol=1e-9)
