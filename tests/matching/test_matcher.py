"""Matching across views: beside the learner it is made of, on planted views, and at its edges."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge

from coupledict import DictionaryLearning
from coupledict.foundation.block_sizes import SIZES
from coupledict.matching import CrossModalMatcher, mean_average_precision, mean_reciprocal_rank, rank_k
from coupledict.matching._choosing import ALPHA, WIDTH
from coupledict.matching._mapped import evenly_spaced, sets_of_views
from support.inner import seeds
from support.learners import plain, planted_views

SMALL = {"n_components": 16, "n_nonzero_coefs": 2, "n_dictionaries": 2, "max_iter": 6, "random_state": 0}


#: Dictionaries alone, and nothing left open.
ALONE = {"preprocess": None, "kernel_weight": 0.0, "direct_weight": 0.0}


def make(**parameters):
    fixed = ALONE | ({"whiten_shrinkage": 3.0} if parameters.get("whiten", True) else {})
    return CrossModalMatcher(**(SMALL | fixed | parameters))


def scaled(Xs):
    """Views as a matcher without whitening sees them."""
    centred = [X - X.mean(axis=0) for X in Xs]
    return [X / np.sqrt(np.mean(X**2)) for X in centred]


def cosines(A, B):
    return np.array([B @ a / (np.linalg.norm(a) * np.linalg.norm(B, axis=1)) for a in A])


def balanced(Xs):
    return [1 / np.mean(np.sum(X**2, axis=1)) for X in Xs]


def blobs(rng, n=240, n_classes=3, widths=(6, 4)):
    """Views of samples in classes, and the labels."""
    y = np.arange(n) % n_classes
    return [3 * rng.standard_normal((n_classes, p))[y] + rng.standard_normal((n, p)) for p in widths], y


@pytest.fixture
def Xs():
    return planted_views(np.random.default_rng(0), n=300)[0]


@pytest.fixture
def three():
    return planted_views(np.random.default_rng(1), n=300, widths=(6, 9, 5))[0]


# Beside the learner


def learners(Xs, weights=None, **parameters):
    settings = {"n_nonzero_coefs": 2, "max_iter": 6, "ridge_alpha": 0.1, "view_weights": weights or balanced(Xs)}
    settings |= {"normalize": "views"}
    return [
        plain(16, **(settings | parameters), random_state=seed).fit(Xs) for seed in seeds(0, SMALL["n_dictionaries"])
    ]


def test_it_is_the_learner_with_cosines_behind(Xs):
    views = scaled(Xs)
    models = learners(views)
    forth = np.mean([m.predict([views[0], None], view=1) for m in models], axis=0)
    back = np.mean([m.predict([None, views[1]], view=0) for m in models], axis=0)
    expected = {"target": cosines(forth, views[1]), "source": cosines(views[0], back)}
    expected |= {"both": (expected["target"] + expected["source"]) / 2, 1: expected["target"], 0: expected["source"]}
    expected["auto"] = expected["both"]
    matcher = make(whiten=False, compare="both").fit(Xs)
    for compare, table in expected.items():
        np.testing.assert_allclose(matcher.set_params(compare=compare).similarity(*Xs), table, atol=1e-9)
    for compare, other in (("target", "source"), ("source", "target"), ("both", "both"), (0, 0), (1, 1)):
        table = matcher.set_params(compare=compare).similarity(Xs[1], Xs[0], source=1, target=0)
        np.testing.assert_allclose(table, expected[other].T, atol=1e-9)
    units = forth * np.sqrt(np.mean((Xs[1] - Xs[1].mean(axis=0)) ** 2)) + Xs[1].mean(axis=0)
    np.testing.assert_allclose(matcher.predict([Xs[0], None], view=1), units, atol=1e-9)


def test_codes_are_those_of_the_learner(Xs):
    views = scaled(Xs)
    tables = [
        cosines(m.transform([views[0], None]).toarray(), m.transform([None, views[1]]).toarray())
        for m in learners(views)
    ]
    matcher = make(whiten=False, compare="codes").fit(Xs)
    np.testing.assert_allclose(matcher.similarity(*Xs), np.mean(tables, axis=0), atol=1e-9)


@pytest.mark.parametrize("label_weight", [None, 2.5])
def test_labels_are_one_more_view_of_the_learner(rng, label_weight):
    Xs, y = blobs(rng)
    one_hot = np.eye(3)[y]
    views = [*scaled(Xs), one_hot - one_hot.mean(axis=0)]
    weights = balanced(views)
    weights[2] *= label_weight or 1
    models = learners(views, weights)
    shares = []
    for v in (0, 1):
        given = [view if w == v else None for w, view in enumerate(views)]
        scores = np.mean([m.predict(given, view=2) for m in models], axis=0) + one_hot.mean(axis=0)
        scores[scores < 0] = 0
        shares.append(scores / scores.sum(axis=1, keepdims=True))
    matcher = make(whiten=False, label_weight=label_weight).fit(Xs, np.array(["x", "y", "z"])[y])
    np.testing.assert_allclose(matcher.similarity(*Xs), shares[0] @ shares[1].T, atol=1e-9)
    assert list(matcher.classes_) == ["x", "y", "z"]


def ridge(C, Y, alpha=0.1):
    gram = C.T @ C
    return np.linalg.solve(gram + alpha * np.mean(np.diag(gram)) * np.eye(len(gram)), C.T @ Y)


def single_learners(X):
    settings = {"n_nonzero_coefs": 2, "max_iter": 6, "sparse_output": False}
    return [DictionaryLearning(16, **settings, random_state=seed).fit(X) for seed in seeds(0, 2)]


def single_codes(X):
    """Dictionaries of one view, and the codes of its samples."""
    models = single_learners(X)
    return [m.components_ for m in models], [m.transform(X) for m in models]


def test_mapped_is_two_dictionaries_and_a_ridge(Xs):
    views = scaled(Xs)
    (_, first), (atoms, second) = (single_codes(view) for view in views)
    mapped = [a @ ridge(a, b) for a, b in zip(first, second, strict=True)]
    by_codes = np.mean([np.nan_to_num(cosines(m, b)) for m, b in zip(mapped, second, strict=True)], axis=0)
    predicted = np.mean([m @ D for m, D in zip(mapped, atoms, strict=True)], axis=0)
    matcher = make(whiten=False, semi_coupled=True, compare="codes").fit(Xs)
    np.testing.assert_allclose(matcher.similarity(*Xs), by_codes, atol=1e-9)
    matcher.set_params(compare="target")
    np.testing.assert_allclose(matcher.similarity(*Xs), cosines(predicted, views[1]), atol=1e-9)


def by_learners(known, views, source, target):
    given = [view if v == source else None for v, view in enumerate(views)]
    return np.mean([m.predict(given, view=target) for m in learners(known)], axis=0)


def by_mapped_codes(known, views, source, target):
    found = []
    for m, other in zip(single_learners(known[source]), single_learners(known[target]), strict=True):
        table = ridge(m.transform(known[source]), other.transform(known[target]))
        found.append(m.transform(views[source]) @ table @ other.components_)
    return np.mean(found, axis=0)


def by_kernel(known, views, source, target):
    gamma = WIDTH / np.mean(np.sum(known[source] ** 2, axis=1))
    return KernelRidge(kernel="rbf", gamma=gamma, alpha=ALPHA).fit(known[source], known[target]).predict(views[source])


@pytest.mark.parametrize(
    ("parameters", "predict"),
    [({}, by_learners), ({"semi_coupled": True}, by_mapped_codes), ({"kernel_weight": 1.0}, by_kernel)],
)
def test_many_features_without_whitening_are_those_of_few_axes(rng, parameters, predict):
    """Where samples are fewer than features, all work is done in their span; it is as if it were not."""
    Xs = planted_views(rng, n=60, widths=(80, 90))[0]
    train = [X[:40] for X in Xs]
    means = [X.mean(axis=0) for X in train]
    units = [np.sqrt(np.mean((X - mean) ** 2)) for X, mean in zip(train, means, strict=True)]
    views = [(X - mean) / unit for X, mean, unit in zip(Xs, means, units, strict=True)]
    known = [view[:40] for view in views]
    matcher = make(whiten=False, compare="both", **parameters).fit(train)
    assert [atoms.shape[1] for atoms in matcher.components_[0]] == [41, 41]
    forth, back = predict(known, views, 0, 1), predict(known, views, 1, 0)
    expected = (cosines(forth, views[1]) + cosines(views[0], back)) / 2
    np.testing.assert_allclose(matcher.similarity(*Xs), expected, atol=1e-6)
    np.testing.assert_allclose(matcher.predict([Xs[0], None], view=1), forth * units[1] + means[1], atol=1e-6)


def test_views_of_different_samples_meet_in_mean_codes_of_classes(rng):
    (A, B), y = blobs(rng)
    kept = (y > 0) | (np.arange(240) > 200)  # classes of different sizes: means, not sums
    A, y0, B, y1 = A[:150], y[:150], B[kept], y[kept]
    views = scaled([A])[0], scaled([B])[0]
    (_, first), (_, second) = (single_codes(view) for view in views)
    tables = []
    for a, b in zip(first, second, strict=True):
        means = np.array([b[y1 == c].mean(axis=0) for c in range(3)])
        tables.append(cosines(a @ ridge(a, means[y0]), b))
    matcher = make(whiten=False, semi_coupled=True, compare="codes").fit([A, B], [y0, y1])
    np.testing.assert_allclose(matcher.similarity(A, B), np.mean(tables, axis=0), atol=1e-9)
    for compare in ("codes", "both", "labels"):
        assert matcher.set_params(compare=compare).score([A, B], [y0, y1]) > 0.8


def test_any_set_of_views_may_be_the_source(three):
    views = scaled(three)
    models = learners(views)
    predicted = np.mean([m.predict([views[0], None, views[2]], view=1) for m in models], axis=0)
    matcher = make(whiten=False, compare="target").fit(three)
    table = matcher.similarity([three[0], three[2]], three[1], source=[0, 2], target=1)
    np.testing.assert_allclose(table, cosines(predicted, views[1]), atol=1e-9)
    np.testing.assert_array_equal(table, matcher.similarity([three[2], three[0]], three[1], source=(2, 0), target=1))
    alone = rank_k(matcher.similarity(three[0], three[1]))
    assert rank_k(table) > alone + 0.1


def test_a_third_view_as_meeting_place(three):
    views = scaled(three)
    models = learners(views)
    left, right = (
        np.mean([m.predict([view if w == v else None for w, view in enumerate(views)], view=2) for m in models], axis=0)
        for v in (0, 1)
    )
    matcher = make(whiten=False, compare=2).fit(three)
    np.testing.assert_allclose(matcher.similarity(three[0], three[1]), cosines(left, right), atol=1e-9)


@pytest.mark.parametrize("semi_coupled", [False, True])
def test_a_set_of_many_views_without_a_map_predicts_by_its_views_apart(rng, semi_coupled):
    views = planted_views(rng, n=100, widths=(6, 9, 5, 4, 7))[0]  # of five views, each has maps, and each four

    def predict(*sources):
        return matcher.predict([X if v in sources else None for v, X in enumerate(views)], view=1)

    matcher = make(semi_coupled=semi_coupled, kernel_weight=0.5).fit(views)
    np.testing.assert_allclose(predict(0, 2), (predict(0) + predict(2)) / 2, atol=1e-9)
    apart = np.mean([predict(v) for v in (0, 2, 3, 4)], axis=0)
    assert not np.allclose(predict(0, 2, 3, 4), apart, atol=1e-2)


def test_maps_of_many_views():
    assert sets_of_views(2) == [(0,), (1,)]
    assert sets_of_views(3) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    assert len(sets_of_views(4)) == 14
    assert len(sets_of_views(6)) == 12


def test_many_samples_are_thinned_evenly(rng):
    np.testing.assert_array_equal(evenly_spaced(10, 4), [0, 2, 5, 7])
    assert evenly_spaced(10, 10) == slice(None)
    Xs = planted_views(rng, n=1200)[0]  # more than 64 for each of the 16 atoms
    assert make(n_dictionaries=1).fit(Xs).score(Xs) > 0.03


@pytest.mark.parametrize(("n", "n_components"), [(20, 64), (300, 75), (1100, 256)])
def test_atoms_follow_samples(rng, n, n_components):
    matcher = make(n_components=None, n_dictionaries=1, max_iter=1).fit([rng.random((n, 3)), rng.random((n, 2))])
    assert [len(atoms) for atoms in matcher.components_[0]] == [n_components] * 2


# What it is good for


@pytest.mark.parametrize("semi_coupled", [False, True])
@pytest.mark.parametrize("whiten", [True, False])
def test_planted_partners_find_each_other(semi_coupled, whiten):
    views, _ = planted_views(np.random.default_rng(3), n=1200, widths=(12, 14), n_components=16, noise=0.01)
    train, test = [X[:1000] for X in views], [X[1000:] for X in views]
    matcher = make(semi_coupled=semi_coupled, whiten=whiten, n_nonzero_coefs=3, max_iter=20).fit(train)
    assert matcher.score(test) > 0.6
    assert matcher.score([test[0], test[1][::-1]]) < 0.1


def test_labels_bring_classes_together(rng):
    Xs, y = blobs(rng, n=600, n_classes=8, widths=(3, 3))
    train, test = [X[:450] for X in Xs], [X[450:] for X in Xs]
    without, labelled = make().fit(train), make().fit(train, y[:450])
    assert labelled.score(test, y[450:]) > without.score(test, y[450:]) + 0.1
    np.testing.assert_allclose(labelled._fitted.probabilities({0: rng.standard_normal((5, 3))}, None).sum(axis=1), 1)


def test_units_and_origins_of_views_do_not_matter(Xs):
    table = make().fit(Xs).similarity(*Xs)
    other = [1e6 * Xs[0] - 3e6, 1e-3 * Xs[1] + 5e-3]
    np.testing.assert_allclose(make().fit(other).similarity(*other), table, atol=1e-6)


def test_whitening_is_used(Xs):
    tables = [
        make(whiten=whiten, whiten_shrinkage=a).fit(Xs).similarity(*Xs) for whiten, a in ((True, 0.0), (False, None))
    ]
    assert not np.allclose(*tables, atol=1e-2)


# Rankings


def test_match_is_the_order_of_similarities(Xs):
    matcher = make().fit(Xs)
    table = matcher.similarity(*Xs)
    expected = np.argsort(-table, axis=1, kind="stable")
    indices, values = matcher.match(*Xs, return_similarity=True)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(table, expected, axis=1))
    np.testing.assert_array_equal(matcher.match(*Xs, n_matches=4), expected[:, :4])
    assert matcher.match(*Xs, n_matches=1000).shape == (300, 300)


@pytest.mark.parametrize("compare", ["both", "codes"])
def test_blocks_do_not_matter(Xs, compare):
    matcher = make(compare=compare).fit(Xs)
    table, found = matcher.similarity(*Xs), matcher.match(*Xs, n_matches=7, return_similarity=True)
    score = matcher.score(Xs)
    with SIZES.changed(gallery_rows=11, query_rows=13):
        np.testing.assert_allclose(matcher.similarity(*Xs), table, atol=1e-12)
        again = matcher.match(*Xs, n_matches=7, return_similarity=True)
        assert matcher.score(Xs) == pytest.approx(score)
    np.testing.assert_allclose(again[1], found[1], atol=1e-12)
    assert np.mean(again[0] == found[0]) > 0.99  # rounding may swap near ties


def test_memory_does_not_grow_with_the_gallery(Xs, tmp_path):
    matcher = make(n_dictionaries=1).fit(Xs)
    gallery = np.lib.format.open_memmap(tmp_path / "gallery.npy", "w+", float, (60_000, Xs[1].shape[1]))
    gallery[:] = np.resize(Xs[1], gallery.shape)
    tracemalloc.start()
    found = matcher.match(np.repeat(Xs[0], 2, axis=0), gallery, n_matches=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (600, 3)
    assert peak < 120e6  # the table of similarities alone would be 288 MB


def test_score_is_the_mean_over_directions(three):
    y = np.arange(300) % 4
    matcher = make().fit(three)
    pairs = [(s, t) for s in range(3) for t in range(3) if s != t]
    tables = [matcher.similarity(three[s], three[t], source=s, target=t) for s, t in pairs]
    assert matcher.score(three) == pytest.approx(np.mean([mean_reciprocal_rank(table) for table in tables]))
    expected = np.mean([mean_average_precision(table, y, y) for table in tables])
    assert matcher.score(three, y) == pytest.approx(expected)


# Conventions


@pytest.mark.parametrize("parameters", [{}, {"semi_coupled": True}])
@pytest.mark.parametrize("labelled", [False, True])
def test_threads_change_nothing(Xs, parameters, labelled):
    y = np.arange(300) % 3 if labelled else None
    tables = [make(n_jobs=n, n_dictionaries=3, **parameters).fit(Xs, y).similarity(*Xs) for n in (1, 2, 5)]
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[0], tables[2])


def test_seeds(Xs):
    one, same, other = (make(random_state=s).fit(Xs).similarity(*Xs) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


@pytest.mark.parametrize("semi_coupled", [False, True])
@pytest.mark.parametrize("compare", ["both", "codes", "labels"])
def test_number_types(Xs, semi_coupled, compare):
    y = np.arange(300) % 3
    single = [X.astype(np.float32) for X in Xs]
    matcher = make(semi_coupled=semi_coupled, compare=compare).fit(single, y)
    assert matcher.components_[0][0].dtype == np.float32
    assert matcher.similarity(*single).dtype == np.float32
    assert matcher.match(*single, n_matches=2, return_similarity=True)[1].dtype == np.float32
    assert matcher.predict([single[0], None], view=1).dtype == np.float32
    assert matcher.similarity(*Xs).dtype == np.float64
    assert make(semi_coupled=semi_coupled, compare=compare).fit(Xs, y).similarity(*single).dtype == np.float64


def test_any_array_is_read_and_none_is_changed(Xs, tmp_path):
    table = make().fit(Xs).similarity(*Xs)
    np.save(tmp_path / "view.npy", Xs[0])
    mapped = np.load(tmp_path / "view.npy", mmap_mode="r")
    strided = np.repeat(Xs[1], 2, axis=1)[:, ::2]
    strided.flags.writeable = False
    views = [mapped, strided]
    np.testing.assert_allclose(make().fit(views).similarity(*views), table, atol=1e-12)
    np.testing.assert_array_equal(mapped, Xs[0])
    whole = [np.rint(10 * X).astype(np.int16) for X in Xs]
    floats = [X.astype(np.float32) for X in whole]
    np.testing.assert_array_equal(make().fit(whole).similarity(*whole), make().fit(floats).similarity(*floats))


def test_scikit_learn_conventions(Xs):
    matcher = make(compare="codes")
    assert "compare='codes'" in repr(matcher)
    copy = clone(matcher)
    assert copy.get_params() == matcher.get_params()
    assert matcher.fit(Xs) is matcher
    assert matcher.n_features_in_ == [6, 9]
    assert len(matcher.components_) == 2
    assert not hasattr(copy, "components_")


def test_a_second_fit_forgets_the_labels(Xs):
    matcher = make().fit(Xs, np.arange(300) % 3)
    assert not hasattr(matcher.fit(Xs), "classes_")
    with pytest.raises(ValueError, match="compare='labels' needs labels"):
        matcher.set_params(compare="labels").similarity(*Xs)


def test_few_samples_and_dull_views(rng):
    A, B = rng.standard_normal((20, 5)), rng.standard_normal((20, 3))
    for views in ([A[:1], B[:1]], [A[:2], B[:2]], [A, np.ones((20, 2))], [A[:, :1], B[:, :1]]):
        for semi_coupled in (False, True):
            assert np.isfinite(make(semi_coupled=semi_coupled).fit(views).similarity(views[0], views[1])).all()
    matcher = make().fit([A, B])
    assert matcher.match(A[:0], B, n_matches=3).shape == (0, 3)
    assert matcher.match(A, B[:0]).shape == (20, 0)
    assert matcher.similarity(A[:1], B[:1]).shape == (1, 1)


# Errors

A, B = np.eye(6, 3), np.eye(6, 2)
NAN = np.where(np.arange(12).reshape(6, 2) == 7, np.nan, 1.0)
THIRDS = np.arange(6) % 3


@pytest.mark.parametrize(
    ("parameters", "Xs", "y", "error", "message"),
    [
        ({}, A, None, TypeError, "list of arrays"),
        ({}, [A], None, ValueError, "two or more views in X, got 1"),
        ({}, [A, None], None, ValueError, r"None for X\[1\]"),
        ({}, [A, B[:0]], None, ValueError, r"X\[1\] to have at least one sample"),
        ({}, [A, NAN], None, ValueError, r"X\[1\] to be finite.* sample 3"),
        ({}, [A, B[:4]], None, ValueError, r"got 6 and 4.*semi_coupled=True"),
        ({}, [A, B[:4]], THIRDS, ValueError, r"got 6 and 4"),
        ({}, [A, B[:4]], [THIRDS, THIRDS[:4]], ValueError, "only semi_coupled=True can learn"),
        ({"semi_coupled": True}, [A, B[:4]], [THIRDS, THIRDS], ValueError, r"y\[1\] to hold 4 labels"),
        ({"semi_coupled": True}, [A, B[:2]], [THIRDS, THIRDS[:2]], ValueError, r"no sample of class 2 in X\[1\]"),
        ({}, [A, B], THIRDS[:5], ValueError, r"y to hold 6 labels.*\(5,\)"),
        ({}, [A, B], np.ones(6), ValueError, "at least 2 classes, got 1"),
        ({}, [A, B], [1, 2, 3, 4, 5, np.nan], ValueError, "NaN"),
        ({}, [A, B], np.array(["a", None] * 3, dtype=object), ValueError, "got None for 3 of 6 samples"),
        ({}, [A, B], np.array(["a", 1] * 3, dtype=object), TypeError, "labels of one type"),
        ({"compare": "labels"}, [A, B], None, ValueError, "needs labels"),
        ({"compare": "cosine"}, [A, B], None, ValueError, "compare to be one of"),
        ({"compare": 2}, [A, B], None, ValueError, "one of the 2 views, got 2"),
        ({"compare": True}, [A, B], None, TypeError, "compare to be one of"),
        ({"semi_coupled": "code"}, [A, B], None, TypeError, "semi_coupled to be True or False"),
        ({"whiten": 3}, [A, B], None, TypeError, "whiten to be True or False"),
        ({"whiten": False, "whiten_shrinkage": 1.0}, [A, B], None, ValueError, "means nothing with whiten=False"),
        ({"whiten_shrinkage": -1.0}, [A, B], None, ValueError, "whiten_shrinkage"),
        ({"ridge_alpha": -1.0}, [A, B], None, ValueError, "ridge_alpha"),
        ({"label_weight": 1.0}, [A, B], None, ValueError, "label_weight needs labels"),
        ({"label_weight": 1.0, "semi_coupled": True}, [A, B], THIRDS, ValueError, "means nothing with semi_coupled"),
        ({"n_dictionaries": 0}, [A, B], None, ValueError, "n_dictionaries to be at least 1"),
        ({"n_components": 0}, [A, B], None, ValueError, "n_components to be at least 1"),
        ({"n_nonzero_coefs": None}, [A, B], None, TypeError, "n_nonzero_coefs to be an integer"),
        ({"n_jobs": 0}, [A, B], None, ValueError, "n_jobs"),
        ({"random_state": "x"}, [A, B], None, TypeError, "random_state"),
    ],
)
def test_errors_of_fit(parameters, Xs, y, error, message):
    with pytest.raises(error, match=message):
        make(**parameters).fit(Xs, y)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.match(A, A), ValueError, "gallery to have the 2 features of view 1, got 3"),
        (lambda m: m.match(B, B), ValueError, "queries to have the 3 features of view 0, got 2"),
        (lambda m: m.match(A, B, source=1), ValueError, "differ from the source view, got 1 for both"),
        (lambda m: m.match(A, B, source=0, target=2), ValueError, "target to be the number of one of the 2 views.* 2"),
        (lambda m: m.match(A, B, source=-1), ValueError, "source to be the number"),
        (lambda m: m.match(A, B, source=False), ValueError, "source to be the number"),
        (lambda m: m.match([], B, source=[]), ValueError, "source to name each view once"),
        (lambda m: m.match([A, A], B, source=[0, 0]), ValueError, "source to name each view once"),
        (lambda m: m.match(A, B, source=[0]), ValueError, "queries to be a list of 1 arrays"),
        (lambda m: m.match([A, A], B, source=[0]), ValueError, "queries to be a list of 1 arrays"),
        (lambda m: m.match(A[0], B), ValueError, "queries to have 2 dimensions"),
        (lambda m: m.match(A, NAN), ValueError, "gallery to be finite.* sample 3"),
        (lambda m: m.match(A, B, n_matches=0), ValueError, "n_matches to be at least 1"),
        (lambda m: m.match(A, B, n_matches=1.5), TypeError, "n_matches to be an integer"),
        (lambda m: m.score([A, B, B]), ValueError, "Expected 2 views in X, got 3"),
        (lambda m: m.score([A, B[:4]]), ValueError, r"got 6 and 4"),
        (lambda m: m.score([B, A]), ValueError, "3 features of view 0, got 2"),
    ],
)
def test_errors_of_matching(call, error, message):
    with pytest.raises(error, match=message):
        call(make().fit([A, B]))


def test_queries_of_several_views_are_of_the_same_samples(three):
    with pytest.raises(ValueError, match=r"same number of samples in every view, got \d+ and \d+ \(queries\[1\]\)"):
        make().fit(three).match([three[0], three[1][:5]], three[2], source=[0, 1], target=2)


@pytest.mark.parametrize(
    "call", [lambda m: m.match(A, B), lambda m: m.score([A, B]), lambda m: m.predict([A, None], view=1)]
)
def test_not_fitted(call):
    with pytest.raises(NotFittedError):
        call(make())
