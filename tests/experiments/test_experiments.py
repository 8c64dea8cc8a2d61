import json
import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage

import coupledict
from coupledict import dct_dictionary, sparse_encode
from coupledict.experiments import against_time, claims, methods, regimes, reproduction, sources
from coupledict.experiments.courses import Course
from coupledict.experiments.levels import Level, codes_level, first_reaching, nonzeros_at_error
from coupledict.experiments.methods import METHODS, Method
from coupledict.experiments.paired_atoms import (
    PairSizes,
    blur_map,
    correlations,
    count_twins,
    judge_pairs,
    paired_atoms,
)
from coupledict.experiments.paired_atoms import count_steps as count_pair_steps
from coupledict.experiments.regimes import Regime, TimeSizes
from coupledict.experiments.verdicts import Verdict, all_of, decide
from coupledict.experiments.watching import Point
from support.small_experiments import small_experiments


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# Where patches come from


def test_distinct_patches_are_cut_at_the_same_places_and_centred(rng):
    images = [rng.random((12, 17)), rng.random((9, 8))]
    doubled = [2 * image for image in images]
    n_places = 5 * 10 + 2 * 1
    first, second = sources.distinct_patches([images, doubled], n_places, side=8, seed=3)
    np.testing.assert_allclose(second, 2 * first)
    np.testing.assert_allclose(first.mean(axis=1), 0, atol=1e-15)
    expected = [
        image[r : r + 8, c : c + 8].ravel() - image[r : r + 8, c : c + 8].mean()
        for image in images
        for r in range(image.shape[0] - 7)
        for c in range(image.shape[1] - 7)
    ]
    assert sorted(map(tuple, first.round(9))) == sorted(map(tuple, np.array(expected).round(9)))


def test_the_lytro_folder_may_be_given_itself_or_by_its_parent(tmp_path, rng):
    from PIL import Image

    folder = tmp_path / "lytro"
    folder.mkdir()
    for pair in ("07", "09", "12", "13", "17"):
        for number, side in enumerate("AB"):
            pixels = rng.integers(0, 256, (520, 520), dtype=np.uint8) // (1 + number)
            Image.fromarray(pixels).save(folder / f"lytro-{pair}-{side}.jpg")
    images, sentence = sources.load_images(folder)
    again, _ = sources.load_images(tmp_path)
    assert len(images) == 10
    assert "Lytro" in sentence
    np.testing.assert_array_equal(images[3], again[3])
    focused, blurred, _ = sources.load_pairs(tmp_path)
    assert [image.shape for image in focused] == [(100, 152), (304, 187), (226, 216), (206, 353), (180, 168)]
    # Pair 09 is focused in A, whose values are twice as large here; pair 07 in B.
    assert focused[1].mean() > 1.5 * blurred[1].mean()
    assert focused[0].mean() < 0.7 * blurred[0].mean()


def test_colour_patches_hold_their_channels_one_after_the_other_and_have_one_mean(rng):
    image = rng.random((8, 9, 3))
    (patches,) = sources.distinct_patches([[image]], 2, side=8, seed=0)
    expected = [np.concatenate([image[:, c : c + 8, k].ravel() for k in range(3)]) for c in range(2)]
    expected = [row - row.mean() for row in expected]
    np.testing.assert_allclose(sorted(map(tuple, patches)), sorted(map(tuple, expected)))


def test_the_two_halves_of_the_lytro_set_share_no_pair_and_are_the_whole(tmp_path):
    from PIL import Image

    for number, pair in enumerate(("07", "09", "12", "13", "17")):
        for side in "AB":
            Image.fromarray(np.full((520, 520, 3), [number, 0, 50 + number], np.uint8)).save(
                tmp_path / f"lytro-{pair}-{side}.jpg", quality=100, subsampling=0
            )
    halves = {}
    for half, n_pairs in (("first", 2), ("second", 3), ("all", 5)):
        images, sentence = sources.load_images(tmp_path, half=half, colour=True)
        assert [image.shape for image in images] == [(520, 520, 3)] * 2 * n_pairs
        assert ("half" in sentence) == (half != "all")
        halves[half] = [float(image[0, 0, 2]) for image in images]
        assert len(sources.load_pairs(tmp_path, half=half)[0]) == n_pairs
    assert set(halves["first"]).isdisjoint(halves["second"])
    assert halves["first"] + halves["second"] == halves["all"]


def test_the_halves_of_the_bundled_photographs():
    halves = [sources.take_half(sources.BUNDLED, half) for half in ("first", "second")]
    assert halves[0] + halves[1] == sorted(sources.BUNDLED)
    images, sentence = sources.load_images(None, half="first", colour=True)
    assert [image.ndim for image in images] == [3, 3, 3]  # astronaut, chelsea, coffee
    assert "the first half by name" in sentence
    assert len(sources.load_images(None, half="first")[0]) == len(halves[0])


def test_a_folder_without_lytro_pairs_is_an_error_that_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Expected the Lytro pairs .* found none"):
        sources.load_images(tmp_path)


def test_bundled_pairs_are_said_to_be_synthetic():
    focused, blurred, sentence = sources.load_pairs(None)
    assert "not real pairs" in sentence
    np.testing.assert_allclose(blurred[0], ndimage.gaussian_filter(focused[0], 2.0), rtol=1e-6)


# Paired atoms


def test_correlations_are_those_of_numpy(rng):
    left, right = rng.standard_normal((4, 9)), rng.standard_normal((6, 9))
    expected = np.corrcoef(left, right)[:4, 4:]
    np.testing.assert_allclose(correlations(left, right), expected, atol=1e-12)
    assert np.all(correlations(np.ones((2, 9)), right) == 0)


def test_the_blur_map_recovers_a_linear_blur(rng):
    X = rng.standard_normal((4000, 9))
    M = rng.standard_normal((9, 9))
    np.testing.assert_allclose(blur_map(X, X @ M), M, rtol=0.02, atol=0.02)


def test_perfect_partners_shuffled_partners_and_flipped_signs_are_told_apart(rng):
    atoms, M = rng.standard_normal((30, 16)), rng.standard_normal((16, 16))
    partners = atoms @ M
    good = judge_pairs([atoms, partners], M)
    assert good["same_index_share"] == 1
    assert good["median_same"] == pytest.approx(1)
    assert good["median_rank"] == 0
    assert good["positive_share"] == 1
    assert good["best"] == list(range(30))
    order = np.roll(np.arange(30), 1)
    shuffled = judge_pairs([atoms, -partners[order]], M)
    assert shuffled["same_index_share"] == 0
    assert shuffled["median_matched"] == pytest.approx(1)
    assert shuffled["median_same"] < 0.6
    assert shuffled["best"] == list(np.roll(np.arange(30), -1))
    np.testing.assert_allclose(good["gain"], np.linalg.norm(partners, axis=1) / np.linalg.norm(atoms, axis=1))


def test_twins_are_counted_whatever_their_sign(rng):
    atoms = rng.standard_normal((10, 16))
    assert count_twins(atoms) == 0
    atoms[3] = -2 * atoms[7]
    assert count_twins(atoms) == 2


def test_atoms_learned_together_are_partners_and_those_learned_apart_are_not():
    image = sources.bundled_image("camera")
    sizes = PairSizes(n_patches=3000, n_held_out=500, n_components=64, n_nonzero_coefs=4, max_iter=12, repeats=3)
    soft = ndimage.gaussian_filter(image, 1.0)
    reported = []
    results, dictionaries = paired_atoms([image], [soft], sizes=sizes, seed=0, threads=2, begin=reported.append)
    together, apart = results["together"], results["separate"]
    assert together["median_same"] > 0.8
    assert apart["median_same"] < 0.5
    assert together["same_index_share"] > 5 * apart["same_index_share"]
    assert [atoms.shape for atoms in dictionaries["together"]] == [(64, 64)] * 2
    assert len(results["variants"]) == 4
    assert len(reported) == count_pair_steps(sizes) == 6
    trials = results["trials"]
    assert trials[0]["together"]["median_same"] == together["median_same"]
    assert len({trial["together"]["median_same"] for trial in trials}) == 3  # each has patches of its own
    assert min(trial["together"]["median_same"] for trial in trials) > 0.8
    assert max(trial["separate"]["median_same"] for trial in trials) < 0.5
    assert results["map_explained"] > 0.8
    assert sum(together["atoms"]["use"]) <= 4 * 3000
    assert together["atoms"]["use"] == together["atoms"]["use_blurred"]
    assert apart["atoms"]["use"] != apart["atoms"]["use_blurred"]
    np.testing.assert_allclose(together["atoms"]["norms"], 1, rtol=1e-5)


# Levels


def test_a_level_is_the_mean_nonzeros_and_the_papers_average_error(rng):
    X, D = rng.standard_normal((50, 16)), dct_dictionary((4, 4), 64)
    level = codes_level(X, D, 5, 0.5, 1)
    codes = sparse_encode(X, D, n_nonzero_coefs=5, tol=0.5)
    assert level.nonzeros == codes.nnz / 50
    assert level.error == pytest.approx(np.linalg.norm(X - codes @ D) / 50)


def test_nonzeros_at_an_error_agree_with_a_fine_search_over_tolerances(rng):
    X, D = rng.standard_normal((400, 16)), dct_dictionary((4, 4), 64)
    start = codes_level(X, D, 16, 2.0, 1)
    for error in (0.8 * start.error, 1.2 * start.error):
        grid = [codes_level(X, D, 16, tol, 1) for tol in np.linspace(0.5, 6, 300)]
        nearest = min(grid, key=lambda level: abs(level.error - error))
        found = nonzeros_at_error(X, D, error, start, 16, 2.0, 1)
        assert found == pytest.approx(nearest.nonzeros, rel=0.01)


def test_nonzeros_between_two_levels_are_interpolated(rng):
    """Codes of two samples have few levels of error; half-way between two of them, half of each counts."""
    X, D = rng.standard_normal((2, 16)), dct_dictionary((4, 4), 64)
    levels = sorted({codes_level(X, D, 16, tol, 1) for tol in np.linspace(1, 6, 500)}, key=lambda level: level.error)
    start = codes_level(X, D, 16, 2.0, 1)
    assert len(levels) >= 5
    for below, above in pairwise(levels[1:-1]):
        found = nonzeros_at_error(X, D, (below.error + above.error) / 2, start, 16, 2.0, 1)
        assert found == pytest.approx((below.nonzeros + above.nonzeros) / 2)


def test_an_error_that_codes_cannot_have_needs_infinitely_many_atoms(rng):
    X, D = rng.standard_normal((100, 16)), dct_dictionary((4, 4), 64)
    start = codes_level(X, D, 3, 1.0, 1)
    assert nonzeros_at_error(X, D, 0.1 * start.error, start, 3, 1.0, 1) == np.inf


def test_the_first_dictionary_as_sparse_at_equal_error_is_found(rng):
    good = dct_dictionary((4, 4), 64)
    X = np.zeros((300, 16))
    for atom in rng.integers(0, 64, (3, 300)):  # three atoms of the good dictionary, and a little noise
        X += rng.standard_normal((300, 1)) * good[atom]
    X += 0.1 * rng.standard_normal(X.shape)
    bad = rng.standard_normal((64, 16))
    bad /= np.linalg.norm(bad, axis=1, keepdims=True)
    target = codes_level(X, good, 8, 0.5, 1)
    levels = [codes_level(X, D, 8, 0.5, 1) for D in (bad, good)]
    assert first_reaching(X, [bad, good], levels, target, 8, 0.5, 1) == 1
    unreachable = Level(target.nonzeros / 2, target.error)
    assert first_reaching(X, [bad, good], levels, unreachable, 8, 0.5, 1) is None
    # A trade: fewer atoms at a larger error is as good as the target if it is so at the target's error.
    loose = codes_level(X, good, 8, 0.8, 1)
    assert loose.nonzeros < target.nonzeros
    assert loose.error > target.error
    assert first_reaching(X, [good], [loose], target, 8, 0.8, 1) == 0


# Against time


def small_regime(tol=60.0, seed=0):
    image = sources.bundled_image("camera")
    (patches,) = sources.distinct_patches([[image]], 1200, side=4, seed=seed)
    start = dct_dictionary((4, 4), 36)
    return Regime("small", "small", (patches[:800],), patches[800:], (start,), 8, tol, 2)


def test_every_method_runs_from_the_common_start_unless_it_has_its_own():
    regime = small_regime()
    for method in METHODS:
        short = Method(
            method.key, method.name, method.description, 2, method.settings, own_start=method.own_start, curve_step=1
        )
        points, history = short.run(regime, 0)
        assert len(points) == len(history) == 2
        assert 0 < points[0].seconds < points[1].seconds
        if not method.own_start and history[0]["limit"] == 8 and method.key != "odl":
            level = codes_level(regime.train[0], regime.start[0], 8, regime.tol, 1)
            assert history[0]["mean_nonzeros"] == pytest.approx(level.nonzeros)


def test_no_one_can_change_what_all_start_from():
    regime = small_regime()
    for array in (regime.train[0], regime.held_out, regime.start[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    regime.stacked()[0] = 0
    regime.stacked_start()[0] = 0
    np.testing.assert_array_equal(regime.start[0], dct_dictionary((4, 4), 36))


def test_the_settings_of_the_methods_are_those_of_the_paper():
    methods = {method.key: method for method in METHODS}
    assert (methods["ksvd"].max_iter, methods["paper"].max_iter, methods["odl"].max_iter) == (16, 32, 256)
    assert methods["odl"].curve_step == 8
    assert methods["paper"].settings["unused_atoms"] == "mean"
    assert methods["paper"].settings["schedule"] == "linear"
    assert methods["default"].settings == {}


def test_batches_go_through_all_patches_before_any_comes_again():
    X = np.arange(10.0)[:, None]
    batches = list(methods._batches(X, 4, 5, seed=0))
    rows = np.concatenate(batches)[:, 0]
    assert [len(batch) for batch in batches] == [4] * 5
    assert sorted(rows[:10]) == sorted(rows[10:]) == list(range(10))


def test_the_sparse_tolerance_is_the_smallest_whole_one_that_needs_few_atoms():
    (X,) = sources.distinct_patches([[sources.bundled_image("camera")]], 500, seed=0)
    start = dct_dictionary((8, 8), 100)
    tol = regimes.sparse_tolerance(X, start, 32, 1)
    nonzeros = [sparse_encode(X, start, n_nonzero_coefs=32, tol=t).nnz / len(X) for t in (tol, tol - 1)]
    assert tol == int(tol) > 1
    assert nonzeros[0] <= regimes.START_NONZEROS < nonzeros[1]


@pytest.mark.slow
def test_curves_ratios_and_targets_fit_together():
    sizes, reported = TimeSizes(repeats=3, thinning=4), []
    draws = [small_regime(seed=number) for number in range(3)]
    figures = against_time.against_time(
        draws,
        sizes=sizes,
        seed=0,
        begin=reported.append,
        find_peers=lambda: ([], ["SPAMS is left out: not installed."]),
    )
    assert len(reported) == against_time.count_steps(sizes) - len(against_time.PEERS)
    methods = {method["key"]: method for method in figures["methods"]}
    assert set(methods) == {method.key for method in METHODS}
    for key, method in methods.items():
        seconds = [point["seconds"] for point in method["curve"]]
        assert seconds == sorted(seconds)
        assert method["curve"][-1]["iteration"] == method["iterations"]
        assert method["runs"] == (1 if key in ("mod", "odl") else 3)
    ksvd = next(entry for entry in figures["reached"] if entry["key"] == "ksvd")
    assert ksvd["seconds"] <= figures["target"]["seconds"]
    assert figures["target"]["nonzeros"] == methods["ksvd"]["curve"][-1]["train_nonzeros"]
    for entry in figures["reached"]:
        if entry["seconds"] is not None:
            assert entry["ratio"] == pytest.approx(figures["target"]["seconds"] / entry["seconds"])
    assert figures["peers"] == []
    assert figures["peers_missing"] == ["SPAMS"]
    json.dumps(figures)
    assert len(figures["trials"]) == 3
    assert len({trial["share_of_keep"] for trial in figures["trials"]}) == 3
    found = claims.time_claims(figures)
    assert len(found) == 7
    assert all(entry["holds"] is None and "800 patches are too few" in entry["why"] for entry in found)
    found = claims.time_claims(figures | {"n_patches": 10_000})
    assert not any("too few" in entry["why"] for entry in found)


def test_a_learner_is_deterministic_so_that_runs_can_be_judged_once():
    regime = small_regime()
    for method in METHODS:
        short = Method(method.key, method.name, method.description, 3, method.settings, own_start=method.own_start)
        first, second = short.run(regime, 1)[0], short.run(regime, 1)[0]
        np.testing.assert_array_equal(first[-1].dictionary, second[-1].dictionary)


# Claims


def point(seconds, nonzeros, error, iteration=16, unused=0):
    return {
        "iteration": iteration,
        "seconds": seconds,
        "train_nonzeros": nonzeros,
        "train_error": error,
        "held_nonzeros": nonzeros,
        "held_error": error,
        "unused": unused,
    }


def regime_figures(**changed):
    """Figures of three runs in which every claim of the paper holds but for the number of iterations."""
    curve = [point(0.1 * k, 12.0, 1.0, k) for k in range(1, 17)]
    quick = [point(0.05 * k, 11.0, 0.9, k) for k in range(1, 33)]
    methods = [
        {"key": key, "seconds": seconds, "curve": curve if key == "ksvd" else quick, "iterations": len(quick)}
        for key, seconds in (("ksvd", 1.6), ("paper", 1.0), ("paper-keep", 1.0), ("aksvd", 1.0), ("ksvd-samples", 2.0))
    ]
    trial = {
        "paper_sooner": 3.2,
        "paper_sooner_than_from_samples": 4.0,
        "default_sooner": 16.0,
        "default_sooner_held": None,
        "iterations": 10,
        "share_of_ksvd": 0.95,
        "share_of_ksvd_held": 0.96,
        "share_of_constant": 1.0,
        "share_of_keep": 0.9,
        "seconds": {"paper": 1.0, "constant": 1.0, "ksvd": 1.6},
        "most_unused": 4,
    }
    return {
        "n_patches": 10_000,
        "n_nonzero_coefs": 32,
        "methods": methods,
        "reached": [
            {"key": "paper", "seconds": 0.5, "iteration": 9, "ratio": 3.2},
            {"key": "default", "seconds": 0.1, "ratio": 16.0, "held": None},
        ],
        "trials": [trial | {key: values[number] for key, values in changed.items()} for number in range(3)],
    }


def holds(**changed):
    return [entry["holds"] for entry in claims.time_claims(regime_figures(**changed))]


def test_claims_follow_the_figures_of_all_runs():
    found = claims.time_claims(regime_figures(paper_sooner=[3.2, 2.9, 3.6]))
    assert [entry["holds"] for entry in found] == [True, True, False, True, True, True, True]
    assert "2.9 to 3.6 times sooner; in the first run after 0.50 s against 1.60 s" in found[0]["measured"]
    assert "margin 10%), in all 3 runs" in found[0]["why"]
    assert "10 of 32 iterations" in found[2]["measured"]
    assert "16.0 times sooner, on fresh patches it never reaches that level" in found[6]["measured"]


def test_a_method_that_never_arrives_does_not_hold():
    found = claims.time_claims(regime_figures(paper_sooner=[None] * 3))
    assert found[0]["holds"] is False
    assert "never" in found[0]["measured"]


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ([1.2, 1.2, 1.2], True), ([1.2, 1.2, 1.05], None), ([1.2, 1.2, 0.5], None), ([1.2, None, 1.2], None),
        ([0.95, 1.0, 1.0], None), ([0.8, 0.8, 0.85], False), ([0.8, 0.8, 0.95], None), ([None, 0.1, None], False),
    ],
)  # fmt: skip
def test_runs_that_disagree_or_are_close_decide_nothing(figures, verdict):
    assert holds(paper_sooner=figures)[0] is verdict


@pytest.mark.parametrize(
    ("figures", "fewer", "no_more"),
    [([0.98] * 3, True, True), ([0.995] * 3, None, True), ([1.005] * 3, None, True), ([1.02] * 3, False, False),
     ([0.98, 1.0, 1.02], None, None), ([1.02, 1.02, None], False, False)],
)  # fmt: skip
def test_sparsity_is_compared_at_equal_error_and_with_a_margin(figures, fewer, no_more):
    assert holds(share_of_ksvd=figures)[3] is fewer
    assert holds(share_of_constant=figures)[4] is no_more
    assert holds(share_of_keep=figures)[5] is fewer


def test_a_rule_for_unused_atoms_is_not_judged_where_no_atom_was_unused():
    found = claims.time_claims(regime_figures(most_unused=[0, 0, 0]))[5]
    assert found["holds"] is None
    assert "No atom was ever unused" in found["why"]
    assert holds(most_unused=[0, 1, 0])[5] is True


def test_codes_that_cannot_be_as_exact_are_told_in_words():
    found = claims.time_claims(regime_figures(share_of_ksvd=[None, 1.1, 1.2], share_of_constant=[None] * 3))
    assert (
        "1.100 to 1.200 times the nonzeros at equal error, 32 atoms are not enough for an equal error in 1 of 3"
        in (found[3]["measured"])
    )
    assert "on fresh patches 32 atoms are not enough for an equal error, compared" in found[4]["measured"]


def test_fewer_runs_or_patches_than_needed_decide_nothing():
    few = regime_figures()
    few["trials"] = few["trials"][:2]
    assert {entry["holds"] for entry in claims.time_claims(few)} == {None}
    assert "2 runs cannot tell" in claims.time_claims(few)[0]["why"]
    small = regime_figures() | {"n_patches": 9_999}
    assert {entry["holds"] for entry in claims.time_claims(small)} == {None}
    assert decide([5.0], 1, 2, "two").why.startswith("One run cannot tell")


def test_a_claim_of_parts_holds_with_all_of_them():
    yes, no, open_ = (Verdict(holds, f"because {holds}") for holds in (True, False, None))
    assert all_of(yes, yes).why == "because True; because True"
    assert all_of(yes, open_) is open_
    assert all_of(open_, no) is no


def test_pairs_are_decided_by_all_runs():
    def pairs(together, apart):
        return {
            "trials": [
                {
                    how: {"median_same": same, "same_index_share": same, "median_rank": 0, "chance": 0.01}
                    for how, same in (("together", t), ("separate", a))
                }
                for t, a in zip(together, apart, strict=True)
            ]
        }

    for together, apart, verdict in (
        ([0.9] * 3, [0.2] * 3, True),
        ([0.9, 0.72, 0.9], [0.2] * 3, None),
        ([0.9] * 3, [0.2, 0.52, 0.2], None),
        ([0.3] * 3, [0.2] * 3, False),
        ([0.9] * 3, [0.6] * 3, False),
    ):
        assert claims.pair_claims(pairs(together, apart))[0]["holds"] is verdict
    first, second = claims.pair_claims(pairs([0.8, 0.9, 0.85], [0.2, 0.3, 0.2]))
    assert "0.80 to 0.90 learned together, 0.20 to 0.30 learned separately" in first["measured"]
    assert "80.0% to 90.0%" in second["measured"]


def test_a_course_knows_the_level_of_its_dictionaries_and_computes_each_once():
    counted = []

    class Counting(Regime):
        def level(self, X, dictionary):
            counted.append(len(X))
            return super().level(X, dictionary)

    regime = Counting(**vars(small_regime()))
    good = dct_dictionary((4, 4), 36)
    bad = np.random.default_rng(0).standard_normal((36, 16))
    bad /= np.linalg.norm(bad, axis=1, keepdims=True)
    points = [Point(0.1 * k, atoms) for k, atoms in enumerate((bad, bad, good, good), 1)]
    course = Course(regime, points, [{"unused": k} for k in (0, 5, 2, 1)], 1)
    target = codes_level(regime.train[0], good, 8, regime.tol, 1)
    assert course.last("train") == course.last("train") == target
    assert counted == [800]
    assert course.reaching(target, "train") == 2
    assert course.reaching(Level(target.nonzeros / 2, target.error), "train") is None
    assert counted == [800] * 4
    assert course.nonzeros_at(target.error, "train") == target.nonzeros
    assert (course.seconds, course.most_unused) == (points[-1].seconds, 5)
    assert list(Course(regime, points, [], 3).kept) == [0, 3]


def test_draws_share_no_patch_and_one_tolerance():
    images = [sources.bundled_image("camera")]
    sizes = TimeSizes(n_patches=150, n_held_out=50, n_components=100, repeats=3)
    drawn = regimes.regimes(images, sizes=sizes, seed=0, threads=1)
    assert len(drawn) == regimes.N_REGIMES
    for draws in drawn:
        assert len(draws) == 3
        assert len({draw.tol for draw in draws}) == 1
        rows = np.concatenate([part for draw in draws for part in (draw.train[0], draw.held_out)])
        assert rows.shape == (600, 64)
        assert len(np.unique(rows, axis=0)) > 590  # but for flat places of the picture


# Both, written


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    output = tmp_path_factory.mktemp("reproduction")
    steps = []
    with small_experiments():
        results = reproduction.reproduce(
            output, quick=True, threads=2, command="coupledict reproduce --quick", callback=steps.append
        )
    return output, results, steps


@pytest.mark.slow
def test_a_run_writes_report_figures_numbers_and_dictionaries(written):
    output, results, _ = written
    assert sorted(file.name for file in output.iterdir()) == sorted(
        ["report.html", "results.json", "dictionaries.npz"]
        + [
            f"{name}.{kind}"
            for name in ("pairs", "correlations", "time_eps4", "time_eps4_fresh", "time_sparse", "time_sparse_fresh")
            for kind in ("png", "svg")
        ]
    )
    assert json.loads((output / "results.json").read_text()) == json.loads(json.dumps(results))
    with np.load(output / "dictionaries.npz") as arrays:
        assert {name: arrays[name].shape for name in arrays} == {
            f"{how}_{view}": (36, 64) for how in ("together", "separate") for view in ("focused", "blurred")
        }


def test_a_run_says_what_it_ran_on(written):
    _, results, _ = written
    assert results["synthetic"] is True
    assert "not real pairs" in results["data"][0]
    assert "quick run" in results["notes"][0]
    assert results["versions"]["numpy"] == np.__version__
    assert results["machine"]["threads"] == 2
    assert results["seed"] == 0
    assert results["command"] == "coupledict reproduce --quick"
    assert results["seconds"] > 0


def test_steps_are_told_and_no_more_than_announced(written):
    _, _, steps = written
    (total,) = {step.total for step in steps}
    assert 0.7 * total < len(steps) <= total
    assert steps[0].stage == "reading images"
    assert [step.completed for step in steps] == list(range(len(steps)))


def test_a_callback_stops_a_run_before_anything_is_written(tmp_path):
    with pytest.raises(coupledict.StoppedByCallback, match="reading images"):
        reproduction.reproduce(tmp_path, quick=True, threads=1, command="", callback=lambda progress: True)
    assert list(tmp_path.iterdir()) == []


def test_the_page_shows_the_figures_of_the_run(written):
    output, results, _ = written
    page = (output / "report.html").read_text()
    for entry in results["time"][1]["claims"]:
        assert entry["claim"].split(".")[0].replace("'", "&#x27;") in page
    assert "coupledict reproduce --quick" in page


def test_a_missing_matplotlib_is_told_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    steps = []
    with pytest.raises(ImportError, match=r'pip install "coupledict\[plot\]"'):
        reproduction.reproduce(tmp_path / "out", quick=True, threads=1, command="", callback=steps.append)
    assert steps == []
    assert not (tmp_path / "out").exists()


def test_a_failure_leaves_the_files_of_the_run_before(written, monkeypatch):
    output, results, _ = written
    before = {file.name: file.read_bytes() for file in output.iterdir()}

    from matplotlib.figure import Figure

    savefig, saved = Figure.savefig, []

    def fill_the_disk(figure, path, **options):
        saved.append(path)
        if len(saved) > 2:
            raise OSError("No space left on device")
        savefig(figure, path, **options)

    monkeypatch.setattr(Figure, "savefig", fill_the_disk)
    arrays = dict(np.load(output / "dictionaries.npz"))
    pairs = {how: [arrays[f"{how}_{view}"] for view in ("focused", "blurred")] for how in ("together", "separate")}
    with pytest.raises(OSError, match="No space"):
        reproduction._write(output, dict(results), pairs, 0.0, lambda text: None, replace=True)
    assert {file.name: file.read_bytes() for file in output.iterdir()} == before
