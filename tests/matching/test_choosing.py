"""What validation chooses: on data that call for it, the same each time, and only what was left open."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict.matching import CrossModalMatcher, rank_k
from coupledict.matching._choosing import Choice, best_beyond_error, first_within_error, split
from support.learners import planted_views

SMALL = {"n_components": 12, "n_nonzero_coefs": 2, "n_dictionaries": 2, "max_iter": 3, "random_state": 0}
CHOSEN = ("preprocess_", "whiten_shrinkage_", "kernel_weight_", "direct_weight_")


def make(**parameters):
    return CrossModalMatcher(**(SMALL | parameters))


def chosen(model):
    return [getattr(model, name, None) for name in CHOSEN]


def lit(rng, X):
    """Samples of another brightness and contrast each."""
    return X * rng.uniform(0.2, 3, (len(X), 1)) + 5 * rng.standard_normal((len(X), 1))


def surface(rng, n, widths=(20, 24)):
    """Views of samples near a space of few dimensions."""
    common = rng.standard_normal((n, 6))
    return [common @ rng.standard_normal((6, p)) + 0.1 * rng.standard_normal((n, p)) for p in widths]


def test_samples_in_changing_light_are_prepared(rng):
    A, B = surface(rng, 160)
    dark = lit(rng, A)
    train, test = [dark[:90], B[:90]], [dark[90:], B[90:]]
    model = make().fit(train)
    assert model.preprocess_[0] == "standardize"
    plain = make(preprocess=None).fit(train)
    assert rank_k(model.similarity(*test)) > rank_k(plain.similarity(*test))


def test_levels_that_tell_partners_are_kept(rng):
    levels = 3 * rng.standard_normal((120, 1))
    Xs = [levels + 0.3 * rng.standard_normal((120, p)) for p in (9, 10)]
    assert make().fit(Xs).preprocess_ == [None, None]


def test_few_features_are_not_prepared(rng):
    A, B = surface(rng, 90, (7, 20))
    assert make().fit([lit(rng, A), B]).preprocess_[0] is None


def test_views_that_are_nearly_copies_are_compared_directly(rng):
    A = rng.standard_normal((100, 200))
    B = A + 2 * rng.standard_normal((100, 3)) @ rng.standard_normal((3, 200))
    copies = make().fit([A[:50], B[:50]])
    assert copies.direct_weight_ > 0
    assert rank_k(copies.similarity(A[50:], B[50:])) > 0.9
    assert make().fit([A[:50], B[:50, rng.permutation(200)]]).direct_weight_ == 0
    assert make(compare="target").fit([A[:50], B[:50]]).direct_weight_ == 0


def test_curved_views_get_a_kernel(rng):
    a, b = rng.uniform(-2, 2, (2, 300))
    Xs = [np.stack([a, b], axis=1), np.stack([np.cos(2 * b), a * b, np.sin(2 * a + b)], axis=1)]
    assert make().fit(Xs).kernel_weight_ >= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [False, True])
def test_the_choice_depends_on_the_samples_alone(rng, labelled):
    Xs = surface(rng, 100)
    Xs[0] = lit(rng, Xs[0])
    y = np.arange(100) % 3 if labelled else None
    first, *others = (make(random_state=seed, n_jobs=n).fit(Xs, y) for seed, n in ((0, 1), (1, 1), (0, 3)))
    assert all(chosen(other) == chosen(first) for other in others)
    np.testing.assert_array_equal(others[1].similarity(*Xs), first.similarity(*Xs))


def test_what_users_ask_for_is_not_chosen(rng):
    Xs = surface(rng, 60)
    asked = {"preprocess": ["center", None], "whiten_shrinkage": 0.7, "kernel_weight": 0.2, "direct_weight": 0.0}
    assert chosen(make(**asked).fit(Xs)) == [["center", None], 0.7, 0.2, 0.0]
    assert make(preprocess=["center", "auto"]).fit(Xs).preprocess_[0] == "center"
    assert not hasattr(make(whiten=False).fit(Xs), "whiten_shrinkage_")


def test_few_samples_are_not_tried(rng):
    assert chosen(make().fit(surface(rng, 12))) == [[None, None], 3.0, 0.5, 0.0]


def test_three_views_and_labels(rng):
    Xs = surface(rng, 90, (9, 10, 11))
    y = (Xs[0][:, 0] > 0).astype(int)
    for labels in (None, y):
        model = make().fit(Xs, labels)
        assert len(model.preprocess_) == 3
        assert model.score(Xs, labels) > 0.5


def test_views_of_different_samples(rng):
    centres = rng.standard_normal((3, 20))
    y0, y1 = np.arange(90) % 3, np.arange(60) % 3
    Xs = [lit(rng, 2 * centres[y0] + rng.standard_normal((90, 20))), centres[y1] @ rng.standard_normal((20, 12))]
    Xs[1] += 0.3 * rng.standard_normal((60, 12))
    model = make(semi_coupled=True).fit(Xs, [y0, y1])
    assert model.preprocess_[0] is not None
    assert model.score(Xs, [y0, y1]) > 0.8


@pytest.mark.parametrize("paired", [False, True])
def test_classes_of_single_samples(rng, paired):
    Xs = surface(rng, 40)
    y = np.r_[np.arange(37) % 2, 2, 3, 4]
    model = make(semi_coupled=not paired).fit(Xs, y if paired else [y, y])
    assert np.isfinite(model.similarity(*Xs)).all()


def test_a_chosen_matcher_is_saved(rng, tmp_path):
    A = rng.standard_normal((60, 40))
    Xs = [lit(rng, A), A + 0.5 * rng.standard_normal((60, 40))]
    model = make().fit(Xs)
    assert model.direct_weight_ > 0
    model.save(tmp_path / "model")
    same = CrossModalMatcher.load(tmp_path / "model")
    assert chosen(same) == chosen(model)
    np.testing.assert_array_equal(same.similarity(*Xs), model.similarity(*Xs))


def test_better_means_by_more_than_the_error():
    one, other, third = (Choice((None,), (1.0,), shrinkage) for shrinkage in (1.0, 2.0, 3.0))
    known = np.array([0.5, 0.5, 0.5, 0.5])
    noisy, sure = known + np.array([0.4, -0.3, 0.3, -0.2]), known + np.array([0.04, 0.05, 0.04, 0.05])
    assert best_beyond_error([(one, known), (other, noisy)]) is one
    assert best_beyond_error([(one, known), (other, noisy), (third, sure)]) is third
    assert best_beyond_error([(one, known), (other, known)]) is one
    assert first_within_error([(one, known), (other, noisy)]) is one
    assert first_within_error([(one, known), (other, sure)]) is other
    assert first_within_error([(one, known - 1), (other, known), (third, noisy)]) is other


def test_folds():
    folds = list(split([10, 10], True, 3, 3))
    for fold in folds:
        np.testing.assert_array_equal(fold.train[0], fold.train[1])
        np.testing.assert_array_equal(np.sort(np.concatenate([fold.train[0], fold.test[0]])), np.arange(10))
    np.testing.assert_array_equal(np.sort(np.concatenate([fold.test[0] for fold in folds])), np.arange(10))
    assert len(list(split([10, 7], False, 4, 2))) == 2


@pytest.mark.parametrize("name", ["kernel_weight", "direct_weight"])
def test_errors(name):
    Xs = planted_views(np.random.default_rng(0), n=30)[0]
    for value, error in ((1.5, ValueError), (-0.1, ValueError), ("much", TypeError)):
        with pytest.raises(error, match=name):
            make(**{name: value}).fit(Xs)
