"""Data that need no network: they are what they say, fit learners as they are, and the same seed gives the same."""

from __future__ import annotations

import itertools
import socket
import sys

import numpy as np
import pytest
import scipy.sparse
import skimage.color
import skimage.data
from scipy import ndimage
from sklearn.datasets import load_breast_cancer, load_digits

from coupledict import CoupledDictionaryLearning, datasets
from coupledict.foundation.block_sizes import SIZES
from coupledict.views import ViewArrays

PATCHES = (datasets.load_stereo_patches, datasets.load_image_depth, datasets.load_sharp_blurred)
LOADERS = (*PATCHES, datasets.load_digit_views, datasets.load_breast_cancer_views)


def names(functions):
    return [function.__name__ for function in functions]


@pytest.fixture
def without_network(monkeypatch):
    def refused(*_, **__):
        raise AssertionError("a loader opened a connection")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "create_connection", refused)


@pytest.mark.parametrize("load", LOADERS, ids=names(LOADERS))
def test_loaders_need_no_network_and_fit_as_they_are(load, without_network):
    data = load(dtype=np.float32)
    assert {view.dtype for view in data.views.values()} == {np.dtype(np.float32)}
    assert all(np.isfinite(view).all() for view in data.views.values())
    for name, view in data.views.items():
        assert view.shape[1] == np.prod(data.shapes[name])
    assert len(data.DESCR) > 100
    learner = CoupledDictionaryLearning(8, n_nonzero_coefs=2, max_iter=2, random_state=0).fit(data.views)
    assert learner.view_names_in_ == tuple(data.views)
    if data.target is not None:
        assert len(data.target) == len(view)
        assert set(data.target) == set(range(len(data.target_names)))


@pytest.mark.parametrize("load", PATCHES, ids=names(PATCHES))
def test_patches_are_drawn_by_the_seed(load):
    first, again, other = (list(load(50, patch_size=5, random_state=seed).views.values()) for seed in (3, 3, 4))
    for one, two, three in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.shape == three.shape == (50, 25)
        assert not np.array_equal(one, three)
        np.testing.assert_allclose(one.mean(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("load", PATCHES, ids=names(PATCHES))
def test_bad_settings_of_patches_are_named(load):
    for settings, message in (
        ({"n_samples": 0}, "n_samples to be at least 1"),
        ({"n_samples": 10**7}, "n_samples to be at most"),
        ({"patch_size": 9999}, "patch_size to be at most"),
        ({"dtype": np.int32}, "dtype to be float32 or float64, got int32"),
    ):
        with pytest.raises(ValueError, match=message):
            load(**settings)
    with pytest.raises(TypeError, match="center to be True or False"):
        load(center="yes")


@pytest.mark.parametrize("load", PATCHES, ids=names(PATCHES))
def test_without_scikit_image_the_error_says_what_to_install(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.data", None)
    with pytest.raises(ImportError, match=r'pip install "coupledict\[images\]"'):
        load()


def place_of(patch, picture, side):
    """Return where a patch lies in a picture; it must be at one place."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, (side, side))
    rows, columns = np.nonzero((windows == patch.reshape(side, side)).all(axis=(2, 3)))
    assert len(rows) == 1
    return rows[0], columns[0]


def test_both_cameras_see_the_same_surface():
    data = datasets.load_stereo_patches(6, patch_size=9, center=False)
    left, right, disparity = skimage.data.stereo_motorcycle()
    left, right = skimage.color.rgb2gray(left), skimage.color.rgb2gray(right)
    for one, other in zip(*data.views.values(), strict=True):
        row, column = place_of(one, left, 9)
        shift = round(float(disparity[row + 4, column + 4]))
        np.testing.assert_array_equal(other.reshape(9, 9), right[row : row + 9, column - shift : column - shift + 9])
    one, other = datasets.load_stereo_patches(1000).views.values()
    alike = np.sum(one * other, axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    assert np.median(alike) > 0.8


def test_disparity_belongs_to_the_image_and_is_nan_where_unknown():
    data = datasets.load_image_depth(400, patch_size=6, center=False, missing=True)
    left, _, disparity = skimage.data.stereo_motorcycle()
    left, truth = skimage.color.rgb2gray(left), np.where(np.isfinite(disparity), disparity, np.nan)
    for image, depth in itertools.islice(zip(*data.views.values(), strict=True), 5):
        row, column = place_of(image, left, 6)
        np.testing.assert_array_equal(depth.reshape(6, 6), truth[row : row + 6, column : column + 6])
    assert 0.02 < np.isnan(data.views["disparity"]).mean() < 0.15
    centred = datasets.load_image_depth(400, patch_size=6, missing=True).views["disparity"]
    known = ~np.isnan(centred).all(axis=1)
    np.testing.assert_allclose(np.nanmean(centred[known], axis=1), 0, atol=1e-12)
    learner = CoupledDictionaryLearning(8, n_nonzero_coefs=2, max_iter=2, missing="nan", random_state=0)
    assert learner.fit(data.views).n_iter_ == 2


def test_blurred_patches_are_those_of_the_blurred_photograph():
    data = datasets.load_sharp_blurred(8, sigma=1.5, center=False)
    assert data.target.tolist() == [0, 1, 2, 3] * 2
    for sharp, blurred, number in zip(*data.views.values(), data.target, strict=True):
        picture = getattr(skimage.data, data.target_names[number])()
        picture = skimage.color.rgb2gray(picture) if picture.ndim == 3 else picture / 255
        row, column = place_of(sharp, picture, 8)
        soft = ndimage.gaussian_filter(picture, 1.5)[row : row + 8, column : column + 8]
        np.testing.assert_allclose(blurred.reshape(8, 8), soft)


def test_three_patches_are_enough():
    assert datasets.load_sharp_blurred(3).views["sharp"].shape == (3, 64)


# Tables


def test_digits_are_described_by_their_pixels():
    data, digits = datasets.load_digit_views(), load_digits()
    np.testing.assert_array_equal(data.target, digits.target)
    np.testing.assert_array_equal(data.views["pixels"], digits.data)
    for number in (0, 7, 1000):
        picture = digits.images[number]
        shifted = np.abs(np.fft.rfft2(np.roll(picture, (2, 3), axis=(0, 1))))
        np.testing.assert_allclose(data.views["fourier"][number], shifted.ravel(), atol=1e-9)
        turned = np.fliplr(picture)
        sums = [*picture.sum(axis=0), *picture.sum(axis=1)]
        sums += [np.diag(shown, k).sum() for shown in (picture, turned) for k in range(-7, 8)]
        np.testing.assert_allclose(data.views["projections"][number], sums)
        sides = (picture, turned, picture.T, np.fliplr(picture.T))
        steps = [next((n for n, value in enumerate(line) if value >= 4), 8) for side in sides for line in side]
        np.testing.assert_array_equal(data.views["profiles"][number], steps)


def test_views_of_tissue_are_the_columns_of_the_table():
    data, table = datasets.load_breast_cancer_views(), load_breast_cancer()
    np.testing.assert_array_equal(np.hstack(list(data.views.values())), table.data)
    np.testing.assert_array_equal(data.target, table.target)
    assert list(itertools.chain(*data.feature_names.values())) == table.feature_names.tolist()
    assert all(name.startswith("mean ") for name in data.feature_names["mean"])
    assert all(name.endswith(" error") for name in data.feature_names["error"])
    assert all(name.startswith("worst ") for name in data.feature_names["worst"])


# Simulated signals


@pytest.mark.parametrize("normalize", ["joint", "views"])
def test_signals_are_what_the_truth_says(normalize):
    signals = datasets.make_coupled_signals(
        300, n_components=25, n_features={"a": 7, "b": 12, "c": 5}, n_nonzero_coefs=4, normalize=normalize,
        random_state=1,
    )  # fmt: skip
    assert list(signals.views) == list(signals.components) == ["a", "b", "c"]
    assert isinstance(signals.codes, scipy.sparse.csr_array)
    assert signals.codes.has_sorted_indices
    assert (np.count_nonzero(signals.codes.toarray(), axis=1) == 4).all()
    for name, view in signals.views.items():
        np.testing.assert_allclose(view, signals.codes.toarray() @ signals.components[name], atol=1e-12)
    norms = np.stack([np.linalg.norm(atoms, axis=1) for atoms in signals.components.values()])
    np.testing.assert_allclose(norms if normalize == "views" else np.sum(norms**2, axis=0), 1)
    if normalize == "joint":
        assert norms.std(axis=1).min() > 0.05  # the energy is divided differently in each atom


def test_every_atom_is_used_equally_often():
    codes = datasets.make_coupled_signals(4000, n_components=20, n_nonzero_coefs=3, random_state=0).codes
    uses = np.bincount(codes.indices, minlength=20)
    assert np.abs(uses - 600).max() < 5 * np.sqrt(600)


def test_noise_and_gaps_have_the_given_strength_in_each_view():
    clean, seen = (
        datasets.make_coupled_signals(3000, noise=noise, missing=missing, random_state=2)
        for noise, missing in ((0, 0), ([0.1, 0.5], [0, 0.3]))
    )
    for name, level, gap in zip(seen.views, (0.1, 0.5), (0, 0.3), strict=True):
        truth = seen.codes @ seen.components[name]
        np.testing.assert_array_equal(truth, clean.views[name])
        missing = np.isnan(seen.views[name])
        assert missing.mean() == pytest.approx(gap, abs=0.01)
        error = (seen.views[name] - truth)[~missing]
        assert np.sqrt(np.mean(error**2)) == pytest.approx(level * np.sqrt(np.mean(truth**2)), rel=0.03)


def test_signs_are_as_wanted():
    signals = datasets.make_coupled_signals(200, positive_code=True, positive_dict=[True, False], random_state=0)
    assert signals.codes.data.min() > 0
    assert signals.components["view0"].min() >= 0
    assert signals.components["view1"].min() < 0
    assert datasets.make_coupled_signals(200, random_state=0).codes.data.min() < 0


def test_signals_depend_on_the_seed_alone():
    first = datasets.make_coupled_signals(100, noise=0.1, missing=0.1, random_state=5)
    with SIZES.changed(drawn_numbers=97):
        again = datasets.make_coupled_signals(100, noise=0.1, missing=0.1, random_state=5)
    small = datasets.make_coupled_signals(100, noise=0.1, missing=0.1, random_state=5, dtype=np.float32)
    for name, view in first.views.items():
        np.testing.assert_array_equal(view, again.views[name])
        np.testing.assert_array_equal(view.astype(np.float32), small.views[name])
    assert (first.codes != again.codes).nnz == 0
    assert small.codes.dtype == small.components["view0"].dtype == np.float32
    other = datasets.make_coupled_signals(100, noise=0.1, missing=0.1, random_state=6)
    assert not np.array_equal(first.components["view0"], other.components["view0"])


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"n_nonzero_coefs": 41}, ValueError, "n_nonzero_coefs to be at most n_components, 40, got 41"),
        ({"n_features": []}, ValueError, "at least one view, got none"),
        ({"n_features": 20}, TypeError, "n_features to be a list of integers"),
        ({"n_features": [20, 0]}, ValueError, "n_features of view1 to be at least 1, got 0"),
        ({"noise": -1}, ValueError, "noise to be a finite number of at least 0"),
        ({"noise": [0.1]}, ValueError, "noise to be one value or 2, one per view, got 1"),
        ({"missing": [0, 2]}, ValueError, r"missing\[1\] to be a number from 0 to 1"),
        ({"positive_dict": "yes"}, TypeError, "positive_dict to be True or False"),
        ({"normalize": "both"}, ValueError, "normalize to be one of"),
        ({"dtype": int}, ValueError, "dtype to be float32 or float64"),
    ],
)
def test_bad_settings_of_signals_are_named(settings, kind, message):
    with pytest.raises(kind, match=message):
        datasets.make_coupled_signals(**settings)


def test_a_learner_recovers_the_truth_and_noise_does_not():
    signals = datasets.make_coupled_signals(3000, random_state=0)
    learner = CoupledDictionaryLearning(40, n_nonzero_coefs=3, max_iter=100, random_state=0).fit(signals.views)
    assert datasets.recovery_score(learner.components_, signals.components) > 0.85
    other = datasets.make_coupled_signals(1, random_state=1)
    assert datasets.recovery_score(other.components, signals.components) == 0


# Recovery


def test_matches_are_the_best_of_all_orders(rng):
    truth, found = rng.standard_normal((4, 6)), rng.standard_normal((5, 6))
    matches = datasets.match_atoms(found, truth)
    cosines = truth @ found.T / np.outer(np.linalg.norm(truth, axis=1), np.linalg.norm(found, axis=1))
    best = max(np.abs(cosines[range(4), order]).sum() for order in map(list, itertools.permutations(range(5), 4)))
    assert np.abs(matches.cosines).sum() == pytest.approx(best)
    np.testing.assert_allclose(matches.cosines, cosines[matches.true, matches.learned])
    assert matches.true.tolist() == [0, 1, 2, 3]
    assert len(set(matches.learned)) == 4


def test_views_are_compared_together(rng):
    truth = {"a": rng.standard_normal((6, 8)), "b": rng.standard_normal((6, 5))}
    order, signs = rng.permutation(6), rng.choice([-1, 1], 6)[:, None]
    found = {name: signs * atoms[order] for name, atoms in truth.items()}
    for components in (
        found,
        dict(reversed(found.items())),
        list(found.values()),
        ViewArrays([found["b"], found["a"]], ["b", "a"]),
        [3e200 * atoms for atoms in found.values()],
    ):
        matches = datasets.match_atoms(components, truth)
        assert order[matches.learned].tolist() == list(range(6))
        np.testing.assert_allclose(matches.cosines, signs[matches.learned, 0])
        assert datasets.recovery_score(components, truth) == 1
    mixed = {"a": found["a"], "b": -found["b"]}  # an atom has one sign in all views
    assert datasets.recovery_score(mixed, truth) == 0


def test_the_threshold_counts():
    turned = np.array([[np.cos(0.2), np.sin(0.2), 0], [0, 0, 1]])
    truth = np.array([[1.0, 0, 0], [0, 0, 1]])
    assert datasets.recovery_score(turned, truth) == 0.5  # the cosine of .2 is .980
    assert datasets.recovery_score(turned, truth, threshold=0.98) == 1
    assert datasets.recovery_score(np.zeros((3, 3)), truth) == 0


@pytest.mark.parametrize(
    ("components", "message"),
    [
        (np.ones((2, 4)), "3 features over all views, as true_components has, got 4"),
        (np.ones(3), "array of atoms"),
        ([], "array of atoms"),
        ([np.ones((2, 3)), np.ones((1, 3))], "same number of atoms"),
        ([[1, 2, np.nan]], "components to be finite"),
    ],
)
def test_bad_dictionaries_are_named(components, message):
    with pytest.raises(ValueError, match=message):
        datasets.recovery_score(components, np.eye(3))


def test_views_of_other_names_are_refused():
    with pytest.raises(ValueError, match=r"of the views \['a'\], got those of \['b'\]"):
        datasets.match_atoms({"b": np.eye(2)}, {"a": np.eye(2)})
    with pytest.raises(ValueError, match="threshold to be a number from 0 to 1"):
        datasets.recovery_score(np.eye(2), np.eye(2), threshold=2)
