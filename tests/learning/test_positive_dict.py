"""Atoms without negative entries: kept by every update, start and way to learn, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.decomposition import NMF

import coupledict
from coupledict import DictionaryLearning, OnlineDictionaryLearning
from coupledict.learning import engine, updates
from coupledict.learning.atoms import AtomGroup
from coupledict.learning.settings import LearningSettings
from support import twins_of_updates as twin
from support.inner import CodingRule, InMemory, ModelState, Sums, Threads, _native
from support.learners import assert_same_model, make, norms, plain, planted_views, start_of
from support.pairwise import pairs
from support.problems import LEVELS, random_dictionary

WIDTHS = {1: [9], 2: [9, 5], 3: [9, 5, 12]}
MARKS = {1: [True], 2: [True, False], 3: [False, True, True]}
WEIGHTS = np.array([1.0, 0.3, 4.0])


@pytest.fixture
def Xs(rng):
    """Two views with entries of both signs, the second one mostly negative."""
    first, second = planted_views(rng, n=300)[0]
    return [first, second - 0.2]


def negative(dictionaries):
    """For each view, whether an entry is negative."""
    return [bool((D < 0).any()) for D in dictionaries]


# The updates


def make_case(rng, n_views, normalize, n=100, n_components=16, n_fixed=0):
    """Samples, a group of atoms that are not negative where they are marked, and codes with two unused atoms."""
    Xs = [rng.standard_normal((n, p)) for p in WIDTHS[n_views]]
    marks = np.array(MARKS[n_views])
    Ds = [random_dictionary(rng, n_components, p) for p in WIDTHS[n_views]]
    Ds = [np.abs(D) if mark else D for D, mark in zip(Ds, marks, strict=True)]
    views = list(range(n_views))
    group = AtomGroup.of(
        views, Ds, WEIGHTS[:n_views], joint=normalize == "joint", n_fixed=n_fixed, positive=marks
    )  # fmt: skip
    codes = rng.standard_normal((n, n_components)) * (rng.random((n, n_components)) < 0.2)
    codes[:, [4, 11]] = 0
    return Xs, group, codes


def split(group):
    return group.split(np.dtype(np.float64))


@pairs(level=LEVELS, n_views=[1, 2, 3], normalize=["views", "joint"], n_fixed=[0, 2])
def test_statistics_equal_the_twin_and_never_do_harm(level, n_views, normalize, n_fixed, rng):
    Xs, group, codes = make_case(rng, n_views, normalize, n_fixed=n_fixed)
    weights, marks = WEIGHTS[:n_views], MARKS[n_views]
    A, Bs = twin.statistics(Xs, codes)
    before = split(group)
    expected = twin.statistics_update(A, Bs, before, weights, normalize, 1, n_fixed, positive=marks)
    objectives = [twin.objective(Xs, before, codes, weights)]
    for sweep in range(5):
        updates.Statistics().apply(group, Sums(A, np.hstack(Bs)))
        objectives.append(twin.objective(Xs, split(group), codes, weights))
        if sweep == 0:
            for mine, theirs in zip(split(group), expected, strict=True):
                np.testing.assert_allclose(mine, theirs, atol=1e-9)
        assert negative(split(group)) == [not mark for mark in marks]
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])
    assert objectives[1] < objectives[0]


@pairs(
    "level unused positive_code",
    level=LEVELS, n_views=[1, 2, 3], normalize=["views", "joint"],
    unused=["keep", "mean"], positive_code=[False, True],
)  # fmt: skip
def test_the_sequential_update_equals_the_twin_and_never_does_harm(
    level, n_views, normalize, unused, positive_code, rng
):
    Xs, group, codes = make_case(rng, n_views, normalize, n_fixed=1)
    codes = np.abs(codes) if positive_code else codes
    weights, marks = WEIGHTS[:n_views], MARKS[n_views]
    before, sparse = split(group), csr_array(codes)
    residual = np.hstack(Xs) - codes @ group.atoms
    expected, expected_codes = twin.sequential_update(
        Xs, before, codes, weights, normalize, 1, unused, marks, positive_code
    )
    changed = updates.Sequential().apply(
        group, sparse, residual, mean_unused=unused == "mean", positive_code=positive_code
    )
    for mine, theirs in zip(split(group), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
    np.testing.assert_allclose(changed.toarray(), expected_codes, atol=1e-9)
    np.testing.assert_allclose(residual, np.hstack(Xs) - changed @ group.atoms, atol=1e-9)
    assert negative(split(group)) == [not mark for mark in marks]
    assert (changed.data.min() < 0) != positive_code
    objectives = [twin.objective(Xs, *pair, weights) for pair in ((before, codes), (split(group), changed.toarray()))]
    assert objectives[1] < objectives[0]


@pytest.mark.parametrize("normalize", ["views", "joint"])
def test_statistics_of_codes_are_those_of_sums(level, normalize, rng):
    Xs, group, codes = make_case(rng, 2, normalize)
    other = AtomGroup.of(
        [0, 1], split(group), WEIGHTS[:2], joint=normalize == "joint", n_fixed=0, positive=np.array(MARKS[2])
    )  # fmt: skip
    X = np.hstack(Xs)
    residual = X - codes @ other.atoms
    updates.Statistics().apply(group, Sums(codes.T @ codes, codes.T @ X))
    updates.StatisticsOfCodes().apply(other, csr_array(codes), residual, mean_unused=False)
    np.testing.assert_allclose(other.atoms, group.atoms, atol=1e-10)
    np.testing.assert_allclose(residual, X - codes @ other.atoms, atol=1e-10)
    assert negative(split(other)) == [False, True]


@pairs(level=LEVELS, normalize=["views", "joint"], kind=["statistics", "sequential"])
def test_an_atom_that_would_vanish_stays(level, normalize, kind, rng):
    """All samples point away: 0 would be the best atom, and has no norm. With joint norms it may vanish in a view."""
    atoms = [np.abs(rng.standard_normal((1, 4))), np.abs(rng.standard_normal((1, 3)))]
    for signs, kept in (((-1, -1), (True, True)), ((-1, 1), (normalize == "views", False))):
        group = AtomGroup.of(
            [0, 1], atoms, np.ones(2), joint=normalize == "joint", n_fixed=0, positive=np.ones(2, bool)
        )
        before, codes = split(group), np.ones((20, 1))
        Xs = [sign * rng.random((20, p)) for sign, p in zip(signs, (4, 3), strict=True)]
        X = np.hstack(Xs)
        if kind == "statistics":
            updates.Statistics().apply(group, Sums(codes.T @ codes, codes.T @ X))
        else:
            residual = X - codes @ group.atoms
            updates.Sequential().apply(group, csr_array(codes), residual, mean_unused=False)
        same = [np.array_equal(a, b) for a, b in zip(split(group), before, strict=True)]
        assert tuple(same) == kept
        if normalize == "joint" and signs == (-1, 1):
            assert not split(group)[0].any()


def test_atoms_that_move_on_stay_positive(rng):
    old = AtomGroup.of(
        [0, 1], [rng.random((30, 6)), rng.random((30, 4))], np.ones(2), joint=True, n_fixed=1,
        positive=np.array([True, False]),
    )  # fmt: skip
    new = AtomGroup.of(old.views, [rng.random((30, 6)), rng.random((30, 4))], np.ones(2), joint=True, n_fixed=1,
                       positive=old.positive)  # fmt: skip
    new.atoms[0] = old.atoms[0]
    far = new.atoms + 0.5 * (new.atoms - old.atoms)
    new.move_on(old.atoms, 0.5)
    far[:, :6] = np.maximum(far[:, :6], 0)
    np.testing.assert_allclose(new.atoms[1:], far[1:] / norms(far[1:])[:, None], atol=1e-12)
    np.testing.assert_array_equal(new.atoms[0], old.atoms[0])
    assert negative(split(new)) == [False, True]


def test_the_loop_tells_the_update_of_positive_codes(Xs, monkeypatch):
    passed, apply = [], updates.Sequential.apply

    def listen(self, *arguments, **options):
        passed.append(options["positive_code"])
        return apply(self, *arguments, **options)

    monkeypatch.setattr(updates.Sequential, "apply", listen)
    for positive in (False, True):
        rule = CodingRule(2, positive=positive)
        settings = LearningSettings(n_components=12, rule=rule, update="sequential", random_state=0)
        engine.fit(InMemory(Xs), settings, Threads(1))
    assert passed == [False, True]


def test_the_kernels_refuse_signs_that_do_not_fit_the_views():
    def sweep(positive):
        _native.sweep(
            np.array([0, 2, 3]), np.ones(2), positive, True, 0, 0, 1,
            np.ones((1, 1)), np.ones((1, 3)), np.ones((1, 3)), "",
        )  # fmt: skip

    sweep(np.ones(2, bool))
    with pytest.raises(ValueError, match="one sign for each view"):
        sweep(np.ones(1, bool))


# Whole fits

FITS = {
    "default": {},
    "tolerance": {"tol": 0.2, "n_nonzero_coefs": None, "max_iter": 6, "n_components": 30},
    "all samples": {"growth": None, "normalize": "views"},
    "ols": {"pursuit": "ols", "view_weights": "balanced"},
    "lasso": {"pursuit": "lasso", "alpha": 0.2, "n_nonzero_coefs": None},
    "positive lasso": {"pursuit": "lasso", "alpha": 0.2, "n_nonzero_coefs": None, "positive_code": True},
    "sequential": {"update": "sequential"},
    "mean": {"update": "sequential", "unused_atoms": "mean", "n_components": 40, "init": "random"},
    "worst": {"unused_atoms": "worst", "n_components": 40, "init": "random"},
    "support": {"coupling": "support"},
    "constant": {"constant_atom": True, "init": "random"},
    "missing": {"missing": "nan", "max_iter": 11},
}


@pytest.mark.parametrize("case", FITS)
@pytest.mark.parametrize("marks", [True, [True, False], (False, True)], ids=str)
def test_atoms_are_never_negative(case, marks, Xs, rng):
    if case == "missing":
        Xs = [np.where(rng.random(X.shape) < 0.2, np.nan, X) for X in Xs]
        Xs[1][:40] = np.nan
    seen = []

    def look(progress):
        seen.append(negative(progress.components))

    learner = make(**FITS[case], positive_dict=marks, callback=look).fit(Xs)
    wanted = [False, False] if marks is True else [not mark for mark in marks]
    assert seen == [wanted] * learner.n_iter_
    assert len(seen) >= 4
    assert all((D > 0).any(axis=1).sum() > len(D) / 2 for D in learner.components_), "atoms learn all the same"
    assert learner.score(Xs) > 0.1


def test_one_view(Xs):
    X = Xs[0]
    for options in ({}, {"tol": 0.1}, {"update": "sequential"}):
        seen = []
        learner = DictionaryLearning(
            12, positive_dict=True, max_iter=5, random_state=0, **options,
            callback=lambda progress, seen=seen: seen.extend(negative(progress.components)),
        ).fit(X)  # fmt: skip
        assert seen == [False] * 5
        np.testing.assert_allclose(norms(learner.components_), 1)
        assert negative([DictionaryLearning(12, max_iter=2, random_state=0, **options).fit(X).components_]) == [True]


def test_large_dictionaries(Xs, monkeypatch, sizes):
    usual = make(growth=None, positive_dict=[False, True]).fit(Xs).components_
    sizes(sums_bytes=0)
    monkeypatch.setattr(updates.Statistics, "apply", None)
    found = make(growth=None, positive_dict=[False, True]).fit(Xs).components_
    for mine, theirs in zip(found, usual, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-8)
    assert negative(found) == [True, False]


def test_only_the_marked_view_is_bound(Xs):
    """A mark for a view says nothing about samples: their negative entries are just not followed."""
    free, bound = (
        make(normalize="views").fit(Xs),
        make(normalize="views", positive_dict=np.array([False, True])).fit(Xs),
    )
    assert negative(free.components_) == [True, True]
    assert negative(bound.components_) == [True, False]
    assert bound.score(Xs) < free.score(Xs)
    dark = [Xs[0], -np.abs(Xs[1]) - 1]
    assert negative(make(positive_dict=True, predictor="dictionary").fit(dark).components_) == [False, False]


def test_predictors_are_not_bound(Xs):
    learner = make(positive_dict=True).fit(Xs)
    assert negative(learner.components_) == [False, False]
    assert negative([learner.predictors_[(0,)][1]]) == [True]


# Starts


@pytest.mark.parametrize("init", ["auto", "samples", "random"])
def test_starts(init, rng, monkeypatch):
    Xs = [rng.standard_normal((200, 16)) - 0.5 for _ in range(2)]
    options = {"n_components": 36, "init": init, "update": "sequential", "normalize": "views"}
    usual = start_of(make(**options | {"init": "samples"} if init == "auto" else options), Xs, monkeypatch)
    found = start_of(make(**options, positive_dict=[True, False]), Xs, monkeypatch)
    assert negative(found) == [False, True]
    np.testing.assert_array_equal(found[1], usual[1])
    expected = np.abs(usual[0]) if init == "random" else np.maximum(usual[0], 0)
    np.testing.assert_allclose(found[0], expected / norms(expected)[:, None])


def test_samples_without_a_positive_part_are_no_start(rng, monkeypatch):
    X = np.abs(rng.standard_normal((30, 5))) + 0.1
    X[4:] *= -1
    start = start_of(make(8, positive_dict=[True]), [X], monkeypatch)[0]
    assert (start >= 0).all()
    np.testing.assert_allclose(norms(start), 1)
    units = X[:4] / norms(X[:4])[:, None]
    same = (np.abs(start[:, None] - units[None]).max(axis=2) < 1e-12).any(axis=1)
    np.testing.assert_array_equal(same, [True] * 4 + [False] * 4)


def test_given_arrays(Xs, rng, monkeypatch):
    given = [rng.random((12, 6)), rng.standard_normal((12, 9))]
    start = start_of(make(init=given, positive_dict=[True, False], normalize="views"), Xs, monkeypatch)
    np.testing.assert_allclose(start[0], given[0] / norms(given[0])[:, None])
    with pytest.raises(ValueError, match=r"no negative entries in init\[1\].*np.maximum\(init\[1\], 0\)"):
        make(init=given, positive_dict=True).fit(Xs)
    with pytest.raises(ValueError, match=r"no negative entries in init\[0\], which positive_dict does not allow"):
        DictionaryLearning(12, init=given[1], positive_dict=True).fit(Xs[1])


def test_going_on_from_negative_atoms_is_refused(Xs):
    learner = make(warm_start=True).fit(Xs).set_params(positive_dict=[False, True])
    before = [D.copy() for D in learner.components_]
    with pytest.raises(ValueError, match=r"no negative entries in components_\[1\].*fit anew"):
        learner.fit(Xs)
    with pytest.raises(ValueError, match=r"no negative entries in components_\[1\].*fit anew"):
        learner.partial_fit(Xs)
    for D, old in zip(learner.components_, before, strict=True):
        np.testing.assert_array_equal(D, old)
    warm = make(warm_start=True, positive_dict=True, max_iter=2).fit(Xs)
    once = warm.history_[-1]["objective"]
    assert negative(warm.fit(Xs).components_) == [False, False]
    assert warm.history_[-1]["objective"] < once


# What is refused


@pytest.mark.parametrize(
    ("parameters", "error", "sentence"),
    [
        ({"update": "ksvd"}, ValueError, "update='ksvd' .* Use update='statistics' or 'sequential'"),
        ({"update": "mod"}, ValueError, "update='mod' .* Use update='statistics' or 'sequential'"),
        ({"init": "dct"}, ValueError, "init='dct' .* Use init='samples' or 'random', or give arrays"),
        ({"positive_dict": [True]}, ValueError, "a list of 2 of these, one per view, got a list of 1"),
        (
            {"positive_dict": [True, 1]},
            TypeError,
            "positive_dict to be True or False, or a list of these",
        ),
        ({"positive_dict": "yes"}, TypeError, "positive_dict to be True or False, or a list of these"),
        ({"positive_dict": 1}, TypeError, "positive_dict to be True or False, or a list of these"),
    ],
    ids=str,
)
def test_refusals(parameters, error, sentence, Xs):
    with pytest.raises(error, match=sentence):
        make(**{"positive_dict": [False, True]} | parameters).fit(Xs)
    allowed = parameters | {"positive_dict": [False, False]}
    if "positive_dict" not in parameters and "init" not in parameters:
        make(**allowed).fit(Xs)


def test_one_view_has_one_sign(Xs):
    with pytest.raises(TypeError, match=r"positive_dict to be True or False, got \[True\]"):
        DictionaryLearning(12, positive_dict=[True]).fit(Xs[0])


def test_ksvd_cannot_keep_codes_positive():
    rule = CodingRule(3, None, positive=True)
    with pytest.raises(ValueError, match=r"update='ksvd' finds coefficients .*='statistics', 'sequential' or 'mod'"):
        LearningSettings(n_components=4, rule=rule, update="ksvd")
    for update in ("statistics", "sequential", "mod"):
        LearningSettings(n_components=4, rule=rule, update=update)


# Ways to learn


def cut(Xs, rows=60):
    return [[X[start : start + rows] for X in Xs] for start in range(0, len(Xs[0]), rows)]


@pytest.mark.parametrize("options", [{}, {"tol": 0.05, "n_nonzero_coefs": None}, {"update": "sequential"}], ids=str)
def test_threads_and_checkpoints_change_no_bit(options, Xs, tmp_path):
    options = options | {"positive_dict": [True, False], "max_iter": 5}
    whole = make(**options).fit(Xs)
    assert_same_model(whole, make(**options, n_jobs=3).fit(Xs))
    path = tmp_path / "kept"
    make(**options, callback=lambda progress: progress.completed == 2).fit(Xs, checkpoint=path)
    assert_same_model(whole, make(**options).fit(Xs, resume=path))
    with pytest.raises(ValueError, match=r"positive_dict \(\[True, False\] then, \[True, True\] now\)"):
        make(**options | {"positive_dict": [True, True]}).fit(Xs, resume=path)


def test_a_checkpoint_that_does_not_tell_its_signs_is_refused(Xs, tmp_path):
    path = tmp_path / "kept"
    make(callback=lambda progress: progress.completed == 2).fit(Xs, checkpoint=path)
    state = ModelState.read(path)
    for name in ("positive_dict", "positive_code"):
        del state.parameters[name]
    state.write(path)
    with pytest.raises(ValueError, match=r"positive_code \(.* then, False now\), positive_dict \(.* then, False now\)"):
        make().fit(Xs, resume=path)


def test_chunks_and_dask_are_as_memory(Xs, rng, sizes):
    dask = pytest.importorskip("dask")
    from support.dask_cluster import as_dask

    sizes(block_rows=60)
    start = [rng.standard_normal((12, 6)), rng.random((12, 9))]
    options = {"positive_dict": [False, True], "growth": None, "init": start}
    chunked = make(**options).fit(cut(Xs))
    for mine, theirs in zip(make(**options).fit(Xs).components_, chunked.components_, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
    assert negative(chunked.components_) == [True, False]
    with dask.config.set(scheduler="synchronous"):
        assert_same_model(chunked, make(**options).fit(as_dask(Xs, 60)))


def test_batches(Xs, tmp_path):
    learner = OnlineDictionaryLearning(12, n_nonzero_coefs=2, positive_dict=[False, True], random_state=0)
    other = clone(learner)
    for number, chunk in enumerate(cut(Xs)):
        learner.partial_fit(chunk)
        assert negative(learner.components_) == [True, False]
        if number == 2:  # what is loaded goes on in the same way
            learner.save(tmp_path / "model")
            learner = OnlineDictionaryLearning.load(tmp_path / "model")
        other.partial_fit(chunk)
    for mine, theirs in zip(learner.components_, other.components_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    seen = []
    other.set_params(batch_size=100, max_iter=2, callback=lambda p: seen.append(negative(p.components))).fit(Xs)
    assert seen == [[True, False]] * 6
    after = make(positive_dict=True).fit(Xs).partial_fit(cut(Xs)[0])
    assert negative(after.components_) == [False, False]
    after.set_params(positive_dict=False)  # the sums go on without signs
    assert negative(after.partial_fit(cut(Xs)[1]).components_) == [True, True]


# Files


@pytest.mark.parametrize("value", [True, [True, False], (False, True), np.array([False, True])], ids=str)
def test_saving(value, Xs, tmp_path):
    learner = make(positive_dict=value, max_iter=2).fit(Xs)
    learner.save(tmp_path / "model")
    found = coupledict.load(tmp_path / "model")
    assert found.positive_dict == (value if value is True else list(value))
    assert "positive_dict" in repr(learner)
    for mine, theirs in zip(found.fit(Xs).components_, learner.components_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_files_of_before_and_files_that_lie(Xs, tmp_path):
    make(max_iter=2).fit(Xs).save(tmp_path / "model")
    state = ModelState.read(tmp_path / "model")
    assert state.parameters.pop("positive_dict") is False
    state.write(tmp_path / "model")
    assert coupledict.load(tmp_path / "model").positive_dict is False
    for name, value in (("positive_dict", [True, 2]), ("positive_dict", 7), ("warm_start", [True, False])):
        ModelState(state.estimator, state.parameters | {name: value}, state.tensors, state.facts).write(
            tmp_path / "bad"
        )
        with pytest.raises(coupledict.ModelFileError, match=name):
            coupledict.load(tmp_path / "bad")


# What it is for


def planted_parts(rng, n=800, n_components=12, widths=(30,)):
    """Samples that are sums of few parts, none of them negative, and the parts."""
    parts = [rng.random((n_components, p)) * (rng.random((n_components, p)) < 0.3) + 1e-3 for p in widths]
    parts = [D / norms(D)[:, None] for D in parts]
    codes = rng.uniform(0.5, 2, (n, n_components)) * (rng.random((n, n_components)) < 0.2)
    return [codes @ D + 0.01 * rng.standard_normal((n, D.shape[1])) for D in parts], parts


def agreement(found, planted):
    """For each planted atom, the largest cosine."""
    found = found / np.maximum(norms(found), 1e-300)[:, None]
    return (found @ planted.T).max(axis=0)


LASSO = {"pursuit": "lasso", "alpha": 0.05, "positive_code": True, "random_state": 0}


def test_planted_parts_are_found_and_explain_as_much_as_those_of_another_library(rng):
    (X,), (parts,) = planted_parts(rng)
    learner = DictionaryLearning(12, positive_dict=True, max_iter=100, **LASSO | {"alpha": 0.005}).fit(X)
    assert (agreement(learner.components_, parts) > 0.95).sum() >= 10
    assert learner.transform(X).data.min() > 0
    peer = NMF(12, init="nndsvda", max_iter=500, tol=1e-5, random_state=0).fit(np.maximum(X, 0))
    mine, theirs = (np.linalg.norm([nnls(D.T, x)[1] for x in X]) for D in (learner.components_, peer.components_))
    assert mine < 1.05 * theirs < 0.1 * np.linalg.norm(X)


def test_planted_parts_of_two_views_are_found(rng):
    Xs, parts = planted_parts(rng, widths=(20, 30))
    learner = plain(12, positive_dict=True, **LASSO).fit(Xs)
    for found, planted in zip(learner.components_, parts, strict=True):
        assert (agreement(found, planted) > 0.95).sum() >= 10
