"""AsymmetricIndex against brute force with the rounded weights, and these against the real ones."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn import AsymmetricIndex, Corrections, HammingIndex
from hashlearn.codes import unpack
from hashlearn.codes.results import NO_ID
from hashlearn.index.kernels.rounding import n_table_entries, quantize

LENGTHS = st.sampled_from([1, 3, 8, 9, 16, 31, 64, 100, 128, 129, 200, 512, 1536, 1537, 2100, 4096, 16384])
KINDS = st.sampled_from(["normal", "constant", "zero", "huge", "tiny", "one large", "few values"])
AFFINES = st.sampled_from([None, (0.01, -3.0), (1.0, 0.0), (1e6, 5.0), (1e-9, 1e3)])
RELAXED = settings(deadline=None, max_examples=40)


def random_codes(n, n_bits, seed=0, n_distinct=None):
    rng = np.random.default_rng(seed)
    codes = np.packbits(rng.random((n_distinct or max(1, n), n_bits)) < 0.5, axis=1)
    return codes[rng.integers(0, len(codes), n)]


def random_weights(kind, n, n_bits, seed=0):
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((n, n_bits))
    weights = {
        "normal": normal,
        "constant": np.ones((n, n_bits)),
        "zero": np.zeros((n, n_bits)),
        "huge": normal * 1e34,
        "tiny": normal * 1e-44,
        "one large": np.where(np.arange(n_bits) == n_bits // 2, 1e6, normal),
        "few values": rng.integers(-1, 2, (n, n_bits)).astype(float),
    }[kind]
    return weights.astype(np.float32)


def random_corrections(affine, n, seed=0):
    if affine is None:
        return None
    return Corrections(np.random.default_rng(seed).integers(0, 256, n, dtype=np.uint8), *affine)


def chosen(tables, codes):
    """The sums of the numbers that every four bits of the codes choose, shape (n_queries, n)."""
    numbers = np.stack([codes >> 4, codes & 15], axis=2).reshape(len(codes), 2 * codes.shape[1])
    groups = np.arange(tables.shape[1] // 16)
    return tables[:, groups * 16 + numbers[:, groups]].sum(axis=2)


def integer_sums(weights, codes, corrections, n_bits):
    """Estimates and what they are made of: sums of whole numbers, by plain numpy."""
    affine = corrections[1:] if corrections else ()
    quantized = quantize(weights, n_bits, *affine)
    if weights.shape[1] == n_bits:
        values = np.rint(weights.astype(np.float64) / (quantized.units[:, None] / 2)).astype(np.int64)
        signs = 2 * unpack(codes, n_bits).astype(np.int64) - 1
        sums = (values @ signs.T + np.abs(values).sum(axis=1, keepdims=True)) // 2
    else:
        sums = chosen(quantized.entries[:, : weights.shape[1]].astype(np.int64), codes)
    if corrections:
        sums += corrections.values.astype(np.int64) * quantized.factors[:, None] >> 16
    with np.errstate(over="ignore"):  # beyond single precision it is infinite
        estimates = (quantized.bases[:, None] + quantized.units[:, None] * sums).astype(np.float32)
    return sums, estimates


def check(index, weights, codes, ids, corrections, k, **options):
    """Search and range search give what brute force gives."""
    sums, estimates = integer_sums(weights, codes, corrections, index.n_bits)
    order = np.array([np.lexsort((ids, row)) for row in sums], np.int64).reshape(sums.shape)
    n = min(k, len(codes))
    found = index.search(weights, k, **options)
    assert (found.distances.dtype, found.ids.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(found.ids[:, :n], ids[order][:, :n])
    np.testing.assert_array_equal(found.distances[:, :n], np.take_along_axis(estimates, order, axis=1)[:, :n])
    assert np.all(found.ids[:, n:] == NO_ID)
    assert np.all(np.isposinf(found.distances[:, n:]))
    finite = estimates[np.isfinite(estimates)]
    distance = float(np.quantile(finite, 0.3, method="lower")) if finite.size else 0.0
    within = index.within(weights, distance, **options)
    assert len(within) == len(weights)
    for hits, row, row_order in zip(within, estimates, order):
        inside = row_order[row[row_order] <= distance]
        np.testing.assert_array_equal(hits.ids, ids[inside])
        np.testing.assert_array_equal(hits.distances, row[inside])


@RELAXED
@given(LENGTHS, st.integers(0, 3000), st.integers(1, 400), st.integers(0, 6), KINDS, AFFINES, st.integers(0, 99))
def test_results_are_those_of_brute_force(n_bits, n, k, n_queries, kind, affine, seed):
    n = min(n, 400_000 // n_bits)
    codes, corrections = random_codes(n, n_bits, seed), random_corrections(affine, n, seed)
    ids = np.random.default_rng(seed).permutation(3 * n)[:n].astype(np.int64)
    index = AsymmetricIndex(n_bits).add(codes, ids, corrections)
    check(index, random_weights(kind, n_queries, n_bits, seed), codes, ids, corrections, k)
    check(index, random_weights(kind, n_queries, n_table_entries(n_bits), seed), codes, ids, corrections, k)


@RELAXED
@given(LENGTHS, st.integers(1, 500), st.integers(1, 60), KINDS, AFFINES, st.data())
def test_a_subset_is_searched_as_if_it_were_all(n_bits, n, k, kind, affine, data):
    codes, corrections = random_codes(n, n_bits, n_distinct=20), random_corrections(affine, n)
    ids = np.random.default_rng(3).permutation(2 * n)[:n].astype(np.int64)
    index = AsymmetricIndex(n_bits).add(codes, ids, corrections)
    mask = np.random.default_rng(data.draw(st.integers(0, 99))).random(n) < data.draw(st.floats(0, 1))
    chosen = index.ids[mask]
    rows = [int(np.flatnonzero(ids == i)[0]) for i in chosen]
    part = None if corrections is None else corrections._replace(values=corrections.values[rows])
    for subset in (mask, np.random.default_rng(4).permutation(chosen)):
        check(index, random_weights(kind, 3, n_bits), codes[rows], chosen, part, k, subset=subset)


@RELAXED
@given(st.sampled_from([5, 64, 130]), AFFINES, st.data())
def test_adding_replacing_and_removing_leave_the_codes_that_should_be_there(n_bits, affine, data):
    index, kept, next_id = AsymmetricIndex(n_bits), {}, 0
    for step in range(data.draw(st.integers(1, 6))):
        action = data.draw(st.sampled_from(["add", "add with ids", "upsert", "remove"]))
        n = data.draw(st.integers(0, 70))
        rng = np.random.default_rng(step)
        if action == "remove":
            gone = rng.permutation(sorted(kept))[:n].astype(np.int64)
            index.remove(gone)
            kept = {key: value for key, value in kept.items() if key not in gone}
            continue
        codes, corrections = random_codes(n, n_bits, step), random_corrections(affine, n, step)
        ids = np.arange(next_id, next_id + n)
        if action == "add":
            index.add(codes, corrections=corrections)
        elif action == "add with ids":
            ids = rng.permutation(np.setdiff1d(np.arange(3 * next_id + 200), list(kept)))[:n]
            index.add(codes, ids, corrections)
        else:
            ids = rng.permutation(next_id + 100)[:n]
            index.upsert(codes, ids, corrections)
        bytes_of = [None] * n if corrections is None else corrections.values
        kept.update({int(key): (code, byte) for key, code, byte in zip(ids, codes, bytes_of)})
        next_id = max([next_id, *(int(key) + 1 for key in ids)])
    ids = np.array(sorted(kept), np.int64)
    codes = np.array([kept[key][0] for key in sorted(kept)], np.uint8).reshape(len(ids), -(-n_bits // 8))
    np.testing.assert_array_equal(index.ids, ids)
    np.testing.assert_array_equal(index.codes(), codes)
    corrections = None
    if index.corrections is not None:
        corrections = Corrections(np.array([kept[key][1] for key in sorted(kept)], np.uint8), *affine)
        np.testing.assert_array_equal(index.corrections.values, corrections.values)
    if corrections is not None or affine is None:
        check(index, random_weights("normal", 3, n_bits), codes, ids, corrections, k=7)


@RELAXED
@given(LENGTHS, KINDS, AFFINES, st.integers(0, 99))
def test_estimates_differ_from_real_ones_by_no_more_than_the_bound(n_bits, kind, affine, seed):
    codes, corrections = random_codes(200, n_bits, seed), random_corrections(affine, 200, seed)
    weights = random_weights(kind, 5, n_bits, seed)
    exact = weights.astype(np.float64) @ (2.0 * unpack(codes, n_bits) - 1).T
    if corrections:
        exact += corrections.numbers()
    found = AsymmetricIndex(n_bits).add(codes, corrections=corrections).search(weights, 200)
    errors = np.abs(found.distances - np.take_along_axis(exact, found.ids, axis=1))
    units = quantize(weights, n_bits, *(affine or ())).units[:, None]
    of_single_precision = 1e-6 * np.abs(exact).max(axis=1, keepdims=True)
    assert np.all(errors <= units * (n_bits / 4 + 1) + of_single_precision)


@RELAXED
@given(LENGTHS, KINDS, AFFINES, st.integers(0, 99))
def test_tables_give_the_sums_of_the_numbers_that_four_bits_choose(n_bits, kind, affine, seed):
    codes, corrections = random_codes(200, n_bits, seed), random_corrections(affine, 200, seed)
    weights = random_weights(kind, 5, n_table_entries(n_bits), seed)
    exact = chosen(weights.astype(np.float64), codes)
    if corrections:
        exact += corrections.numbers()
    found = AsymmetricIndex(n_bits).add(codes, corrections=corrections).search(weights, 200)
    errors = np.abs(found.distances - np.take_along_axis(exact, found.ids, axis=1))
    units = quantize(weights, n_bits, *(affine or ())).units[:, None]
    of_single_precision = 1e-6 * np.abs(exact).max(axis=1, keepdims=True)
    of_single_precision += 1e-6 * np.abs(weights).astype(np.float64).sum(axis=1, keepdims=True)
    assert np.all(errors <= units * (len(weights[0]) / 32 + 1) + of_single_precision)


def test_tables_of_signed_sums_give_what_the_weights_of_the_bits_give():
    codes, weights = random_codes(500, 64), random_weights("normal", 5, 64)
    signs = 2.0 * unpack(np.arange(16, dtype=np.uint8)[:, None], 8)[:, 4:] - 1
    tables = (weights.reshape(5, 16, 1, 4) * signs).sum(axis=3).reshape(5, -1)
    index = AsymmetricIndex(64).add(codes)
    by_bits, by_tables = index.search(weights, 500), index.search(tables, 500)
    order_of_ids = [np.argsort(found.ids, axis=1) for found in (by_bits, by_tables)]
    distances = [
        np.take_along_axis(found.distances, order, axis=1) for found, order in zip((by_bits, by_tables), order_of_ids)
    ]
    np.testing.assert_allclose(*distances, atol=1e-4 * np.abs(distances[0]).max())


def steps_of(n_bits):
    """How many times larger the steps of weights are than those of 4,096 bits or fewer."""
    return max(1, n_bits // 4096)


@given(LENGTHS, KINDS, st.integers(0, 99))
@RELAXED
def test_the_largest_weight_has_fourteen_bits_beside_corrections_of_the_range_of_all(n_bits, kind, seed):
    """Sums of codes of more than 4,096 bits have less room: the weights of four times the bits have two bits less."""
    weights = random_weights(kind, 5, n_bits, seed)
    largest, total = (reduce(np.abs(weights).astype(float), axis=1) for reduce in (np.max, np.sum))
    for scale in (0.0, float(total.min()) / 256):
        values = np.rint(weights.astype(np.float64) / quantize(weights, n_bits, scale).units[:, None] * 2)
        assert np.all(np.abs(values).max(axis=1)[largest > 0] >= (1 << 13) // steps_of(n_bits))


@RELAXED
@given(LENGTHS, st.booleans(), st.integers(0, 99))
def test_the_nearest_are_those_of_the_real_estimates_but_for_single_precision(n_bits, by_tables, seed):
    n = min(2000, 400_000 // n_bits)
    codes, corrections = random_codes(n, n_bits, seed), random_corrections((0.01, -3.0), n, seed)
    weights = random_weights("normal", 3, n_table_entries(n_bits) if by_tables else n_bits, seed)
    weights *= np.float32(0.97) ** np.arange(weights.shape[1])  # uneven, as those of principal directions are
    real = weights.astype(np.float64)
    exact = chosen(real, codes) if by_tables else real @ (2.0 * unpack(codes, n_bits) - 1).T
    exact += corrections.numbers()
    k = min(50, n)
    found = AsymmetricIndex(n_bits).add(codes, corrections=corrections).search(weights, k)
    own = np.take_along_axis(exact, found.ids, axis=1)
    spread = exact.max(axis=1, keepdims=True) - exact.min(axis=1, keepdims=True)
    error = 1e-4 * steps_of(n_bits) * spread
    assert np.all(np.abs(own - np.sort(exact, axis=1)[:, :k]) <= error)
    assert np.all(np.abs(own - found.distances) <= error)


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
@pytest.mark.parametrize("n_queries", [1, 3, 40])
def test_threads_change_nothing(n_jobs, n_queries):
    codes, corrections = random_codes(3000, 64, n_distinct=300), random_corrections((0.5, 1.0), 3000)
    index, weights = AsymmetricIndex(64).add(codes, corrections=corrections), random_weights("normal", n_queries, 64)
    for one, many in zip(index.search(weights, 20), index.search(weights, 20, n_jobs=n_jobs)):
        np.testing.assert_array_equal(one, many)
    one, many = index.within(weights, 60.0), index.within(weights, 60.0, n_jobs=n_jobs)
    assert one.counts.sum() > 100
    for name in ("offsets", "distances", "ids"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))


def test_more_queries_than_share_a_scan_and_more_hits_than_a_buffer_holds():
    codes = random_codes(2000, 16)
    ids, weights = np.arange(2000), random_weights("normal", 600, 16)
    check(AsymmetricIndex(16).add(codes), weights, codes, ids, None, k=3)


def test_with_weights_of_one_and_a_minus_the_order_is_that_of_hamming_distances():
    codes, queries = random_codes(2000, 96, seed=1), random_codes(5, 96, seed=2)
    hamming = HammingIndex(96).add(codes).search(queries, 50)
    real = AsymmetricIndex(96).add(codes).search(1.0 - 2.0 * unpack(queries, 96), 50)
    np.testing.assert_array_equal(real.ids, hamming.ids)
    np.testing.assert_allclose(real.distances, 2.0 * hamming.distances - 96, rtol=1e-6)


def test_many_identical_codes_are_found_in_the_order_of_their_ids():
    index = AsymmetricIndex(64).add(np.zeros((100_000, 8), np.uint8))
    found = index.search(np.ones((2, 64)), 1000)
    np.testing.assert_array_equal(found.ids, np.tile(np.arange(1000), (2, 1)))
    np.testing.assert_array_equal(found.distances, -64)


def test_distances_beyond_single_precision_are_infinite_and_in_order():
    index = AsymmetricIndex(16).add(np.array([[0, 0], [255, 255], [255, 0]], np.uint8))
    found = index.search(np.full((1, 16), 3e38), 3)
    assert found.ids.tolist() == [[0, 2, 1]]
    assert found.distances.tolist() == [[-np.inf, 0.0, np.inf]]


@pytest.mark.parametrize("n_bits", [1, 12, 64, 72, 300])
@pytest.mark.parametrize("affine", [None, (0.1, 2.0)])
def test_what_is_saved_is_opened(tmp_path, n_bits, affine):
    codes, corrections = random_codes(1000, n_bits), random_corrections(affine, 1000)
    ids = np.arange(1000)[::-1] * 3
    AsymmetricIndex(n_bits, model="abc").add(codes, ids, corrections).save(tmp_path / "codes.hli")
    opened = AsymmetricIndex.open(tmp_path / "codes.hli").verify()
    assert (opened.n_bits, opened.model, len(opened)) == (n_bits, "abc", 1000)
    check(opened, random_weights("normal", 3, n_bits), codes, ids, corrections, k=9)
    opened.add(codes[:5], corrections=random_corrections(affine, 5))
    assert opened.ids[-5:].tolist() == [2998, 2999, 3000, 3001, 3002]
    for other in (pickle.loads(pickle.dumps(opened)), copy.deepcopy(opened), opened.copy()):
        np.testing.assert_array_equal(other.codes(), opened.codes())
        assert (other.corrections is None) == (affine is None)


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "codes.hli"
    HammingIndex(64).add(random_codes(10, 64)).save(path)
    with pytest.raises(ValueError, match=r"codes\.hli: an index of another kind, not of codes for real queries"):
        AsymmetricIndex.open(path)
    AsymmetricIndex(64).add(random_codes(10, 64)).save(path)
    with pytest.raises(ValueError, match=r"codes\.hli: an index of another kind, not of codes for Hamming distances"):
        HammingIndex.open(path)
    AsymmetricIndex(64).add(random_codes(10, 64), corrections=random_corrections((1.0, 0.0), 10)).save(path)
    path.write_bytes(path.read_bytes()[:-4096])
    with pytest.raises(ValueError, match="truncated"):
        AsymmetricIndex.open(path)


def test_a_code_takes_its_bytes_one_for_a_correction_and_eight_for_an_id_that_is_given():
    n = 64 * 100
    for n_bits in (8, 64, 72, 128, 512):
        codes, corrections = random_codes(n, n_bits), random_corrections((1.0, 0.0), n)
        assert AsymmetricIndex(n_bits).add(codes).nbytes == n * n_bits // 8
        assert AsymmetricIndex(n_bits).add(codes, corrections=corrections).nbytes == n * (n_bits // 8 + 1)
        assert AsymmetricIndex(n_bits).add(codes, 2 * np.arange(n)[::-1]).nbytes == n * (n_bits // 8 + 8)


def test_an_empty_index_finds_nothing_and_no_queries_give_no_results():
    for index in (AsymmetricIndex(24), AsymmetricIndex()):
        found = index.search(np.zeros((2, 24)), 3)
        assert found.ids.tolist() == [[-1] * 3] * 2
        assert index.within(np.zeros((2, 24)), 5.0).counts.tolist() == [0, 0]
    index = AsymmetricIndex().add(np.zeros((5, 3), np.uint8))
    assert index.n_bits == 24
    assert index.search(np.empty((0, 24)), 3).ids.shape == (0, 3)
    assert len(index.within(np.empty((0, 24)), 3)) == 0


def test_whether_there_are_corrections_is_settled_by_the_first_codes_for_good():
    corrections = random_corrections((1.0, 0.0), 4)
    index = AsymmetricIndex(8).add(np.zeros((4, 1), np.uint8), corrections=corrections).remove([0, 1, 2, 3])
    assert index.add(np.zeros((4, 1), np.uint8), corrections=corrections).ids.tolist() == [4, 5, 6, 7]
    with pytest.raises(ValueError, match="corrections must be given: the codes of this index have them"):
        index.add(np.zeros((1, 1), np.uint8))


ONE = np.zeros((1, 8), np.uint8)
BYTE = np.zeros(1, np.uint8)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "k must be at least 1, got 0", lambda index: index.search(np.zeros((1, 64)), 0)),
        (TypeError, "k must be an integer, got 2.0", lambda index: index.search(np.zeros((1, 64)), 2.0)),
        (ValueError, "weights must have shape (any, 64), got (1, 63)", lambda index: index.search(np.zeros((1, 63)))),
        (ValueError, "weights must have shape (any, 64), got (64,)", lambda index: index.search(np.zeros(64))),
        (ValueError, "weights must be finite, got NaN", lambda index: index.search(np.full((1, 64), np.nan))),
        (ValueError, "weights must be numbers of single", lambda index: index.search(np.full((1, 64), 1e39))),
        (TypeError, "weights must be an array of numbers, got list", lambda index: index.search([["a"] * 64])),
        (ValueError, "distance must be finite", lambda index: index.within(np.zeros((1, 64)), np.nan)),
        (TypeError, "distance must be a number", lambda index: index.within(np.zeros((1, 64)), "near")),
        (ValueError, "subset must be in the index, got 5", lambda index: index.search(np.zeros((1, 64)), subset=[5])),
        (ValueError, "subset must have shape (5,)", lambda index: index.search(np.zeros((1, 64)), subset=[True])),
        (ValueError, "n_jobs must not be 0", lambda index: index.search(np.zeros((1, 64)), n_jobs=0)),
        (ValueError, "codes must have shape (n, 8)", lambda index: index.add(np.zeros(8, np.uint8))),
        (ValueError, "corrections must be given", lambda index: index.add(ONE)),
        (ValueError, "corrections must be given", lambda index: index.upsert(ONE, [0])),
        (
            ValueError,
            "corrections must have the index's scale 0.5 and offset 1, got scale 0.5 and offset 2",
            lambda index: index.add(ONE, corrections=Corrections(BYTE, 0.5, 2.0)),
        ),
        (
            ValueError,
            "corrections must be uint8 of shape (1,), got uint8 of shape (2,)",
            lambda index: index.add(ONE, corrections=Corrections(np.zeros(2, np.uint8), 0.5, 1.0)),
        ),
        (
            ValueError,
            "corrections must be uint8 of shape (1,), got float64",
            lambda index: index.add(ONE, corrections=Corrections(np.zeros(1), 0.5, 1.0)),
        ),
        (
            TypeError,
            "corrections must be hashlearn.Corrections, got ndarray",
            lambda index: index.add(ONE, corrections=BYTE),
        ),
        (
            ValueError,
            "the scale of corrections must be at least 1e-30, got 0.0",
            lambda index: AsymmetricIndex(64).add(ONE, corrections=Corrections(BYTE, 0.0, 1.0)),
        ),
        (
            ValueError,
            "the offset of corrections must be finite",
            lambda index: AsymmetricIndex(64).add(ONE, corrections=Corrections(BYTE, 1.0, np.inf)),
        ),
        (
            ValueError,
            "corrections must be None: the index was made without",
            lambda index: AsymmetricIndex(64).add(ONE).add(ONE, corrections=Corrections(BYTE, 1.0, 0.0)),
        ),
    ],
)
def test_bad_input_is_named_in_one_line_and_changes_nothing(error, message, call):
    corrections = Corrections(np.arange(5, dtype=np.uint8), 0.5, 1.0)
    index = AsymmetricIndex(64).add(random_codes(5, 64), corrections=corrections)
    with pytest.raises(error) as caught:
        call(index)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert index.ids.tolist() == [0, 1, 2, 3, 4]
    assert index.corrections.values.tolist() == [0, 1, 2, 3, 4]
