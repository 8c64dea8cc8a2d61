"""Fits with missing entries, round by round: what fills samples in, when, and what begins anew."""

from __future__ import annotations

from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from sklearn.datasets import load_digits

from coupledict import ModelFileError
from coupledict.files import read_model, write_model
from coupledict.learning import engine
from coupledict.learning.loop import Loop
from coupledict.learning.settings import LearningSettings
from support.gaps import N, assert_same_fit, cut, damaged_views, lacking_views, masked_codes, unit_atoms
from support.inner import CodingRule, InMemory, Recipe, Scratch, Threads, make_coder
from support.learners import make, planted_views
from support.masked_twins import knock_out

FLOAT = np.dtype(float)


@pytest.fixture
def damaged(rng):
    return damaged_views(rng)


@pytest.fixture
def lacking(rng):
    return lacking_views(rng)


# What happens to samples before they are coded


def prepare(coder, Xs):
    return coder.prepare(Xs, Scratch.new(len(Xs[0])))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", [CodingRule(2, None, "omp"), CodingRule(3, 0.3, "ols")], ids=["omp", "ols"])
def test_samples_are_filled_in_by_codes_of_known_entries(rule, dtype, rng):
    Xs = [X.astype(dtype) for X in knock_out(rng, planted_views(rng, n=N, noise=0.2)[0], 0.3, absent=0.2)]
    Xs[0][17], Xs[1][17] = np.nan, np.nan
    Ds, weights = [D.astype(dtype) for D in unit_atoms(rng, (6, 9))], np.array([2.0, 0.5])
    filling = Recipe(Ds, weights, np.dtype(dtype), rule, N, missing=True)
    recipe = Recipe(unit_atoms(rng, (6, 9)), weights, np.dtype(dtype), rule, N, filled_by=filling)
    filled = prepare(make_coder(recipe, Threads()), Xs)
    options = {"n_nonzero_coefs": rule.n_nonzero, "tol": rule.tol, "pursuit": rule.pursuit}
    codes = masked_codes(Xs, Ds, view_weights=weights, **options)
    for X, Y, D in zip(Xs, filled, Ds, strict=True):
        known = ~np.isnan(X)
        np.testing.assert_array_equal(Y[known], X[known])
        rounding = 1e-4 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(Y[~known], (codes @ D)[~known], rtol=rounding, atol=rounding)
    data = InMemory(Xs)
    data.missing = True
    held = data.filled(filling, Threads(2)).views
    for size in (1, 7, 110):
        coder = make_coder(recipe, Threads())
        pieces = [prepare(coder, [X[start : start + size] for X in Xs]) for start in range(0, N, size)]
        for v, whole in enumerate(held):
            np.testing.assert_array_equal(whole, np.concatenate([piece[v] for piece in pieces]))


# The switch


class Watched:
    """A fit that notes the dictionaries before every iteration, and what the passes were told to do."""

    def __init__(self, monkeypatch, learner, Xs):
        self.before, self.recipes = [], []
        inner, prepared = Loop._iterate, Loop._prepared

        def iterate(loop):
            self.before.append([D.copy() for D in engine.in_view_order(loop.groups, FLOAT)])
            return inner(loop)

        def note(loop, recipe):
            data, recipe = prepared(loop, recipe)
            self.recipes.append(recipe)
            return data, recipe

        monkeypatch.setattr(Loop, "_iterate", iterate)
        monkeypatch.setattr(Loop, "_prepared", note)
        self.learner = learner.fit(Xs)
        self.history = learner.history_

    @property
    def switch(self):
        """The first iteration that does not code samples by their known entries; None if there is none."""
        filled = [not recipe.missing for recipe in self.recipes]
        return filled.index(True) if any(filled) else None


def objective(Xs, Ds, limit, rows=slice(None), **options):
    Xs = [X[rows] for X in Xs]
    codes = masked_codes(Xs, Ds, n_nonzero_coefs=limit, **options)
    return sum(np.nansum((X - codes @ D) ** 2) for X, D in zip(Xs, Ds, strict=True))


@pytest.mark.parametrize("n_iter", [10, 11, 14])
def test_samples_are_filled_in_half_way(n_iter, damaged, monkeypatch):
    """By the dictionaries of that moment, and never again: each record is that of the samples so filled in."""
    options = {"max_iter": n_iter, "growth": None, "schedule": "constant", "normalize": "views"}
    fit = Watched(monkeypatch, make(missing="nan", predictor="dictionary", **options), damaged)
    switch = -(-n_iter // 2)
    assert (len(fit.history), fit.switch) == (n_iter, switch)
    teachers = fit.before[switch]
    codes = masked_codes(damaged, teachers, n_nonzero_coefs=2)
    filled = [np.where(np.isnan(X), codes @ D, X) for X, D in zip(damaged, teachers, strict=True)]
    for k, (record, Ds) in enumerate(zip(fit.history, fit.before, strict=True)):
        expected = objective(damaged if k < switch else filled, Ds, 2)
        assert record["objective"] == pytest.approx(expected, rel=1e-9)
        assert record["n_samples"] == N


def test_limits_and_sizes_begin_anew(damaged, lacking):
    many = 20  # copies, so that a twentieth of the samples is more than two per atom
    switch = 6
    for Xs in (damaged, lacking):
        Xs = [np.tile(X, (many, 1)) for X in Xs]
        n = many * N
        learner = make(missing="nan", n_nonzero_coefs=4, max_iter=12, predictor="dictionary").fit(Xs)
        limits, sizes = ([record[key] for record in learner.history_] for key in ("limit", "n_samples"))
        assert (limits[0], limits[switch - 1], limits[switch], limits[-1]) == (1, 4, 1, 4)
        assert (sizes[0], sizes[switch - 1], sizes[switch], sizes[-1]) == (n // 20, n, n // 20, n)
        for half in (slice(0, switch), slice(switch, 12)):
            assert limits[half] == sorted(limits[half])
            ratios = np.array(sizes[half][1:]) / sizes[half][:-1]
            np.testing.assert_allclose(ratios, ratios[0], rtol=1e-2)
    given = make(missing="nan", max_iter=10, schedule=[1, 2, 1, 2, 1, 2, 1, 1, 2, 2], growth=lambda k, n, m: 200 + k)
    given.fit(damaged)
    assert [record["limit"] for record in given.history_] == [1, 2, 1, 2, 1, 2, 1, 1, 2, 2]
    assert [record["n_samples"] for record in given.history_] == [200 + k for k in range(10)]


def test_a_fit_does_not_settle_before_samples_are_filled_in(rng, damaged):
    """What is coded in another way says nothing: two iterations after the switch are the fewest."""
    learner = make(missing="nan", max_iter=20, growth=None, schedule="constant", stop_tol=0.9).fit(damaged)
    assert learner.n_iter_ == 12
    assert make(max_iter=20, growth=None, schedule="constant", stop_tol=0.9).fit(planted_views(rng)[0]).n_iter_ == 2


@pytest.mark.parametrize("options", [{}, {"max_iter": 9}, {"update": "sequential"}, {"update": "ksvd"}], ids=str)
def test_fits_that_do_not_switch(options, damaged, monkeypatch):
    """A few iterations, and updates that change the codes too; `mod` does switch."""
    options = {"max_iter": 10} | options
    fit = Watched(monkeypatch, make(missing="nan", **options), damaged)
    assert fit.switch == (5 if options == {"max_iter": 10} else None)
    assert len(fit.history) == options["max_iter"]


@pytest.mark.parametrize("options", [{}, {"update": "ksvd"}, {"pursuit": "lasso", "alpha": 0.4}], ids=str)
@pytest.mark.parametrize("chunked", [False, True])
def test_where_nothing_is_missing_the_word_changes_no_bit(options, chunked, rng):
    if chunked and "update" in options:
        options = {"update": "mod"}
    if "pursuit" in options:
        options = options | {"n_nonzero_coefs": None}
    Xs = planted_views(rng, n=N if "pursuit" not in options else 100, widths=(6, 9, 4))[0]
    given = cut(Xs) if chunked else Xs
    one, other = (make(max_iter=12, missing=missing, **options).fit(given) for missing in ("nan", "error"))
    assert_same_fit(one, other)
    for present in ([0], [2], [0, 1]):
        views = [Xs[v] if v in present else None for v in range(3)]
        wanted = 2 if 2 not in present else 1
        np.testing.assert_array_equal(one.predict(views, view=wanted), other.predict(views, view=wanted))
    np.testing.assert_array_equal(one.transform(Xs).toarray(), other.transform(Xs).toarray())
    assert one.score(Xs) == other.score(Xs)


# Fits that go on, and fits elsewhere


class Stopped(Exception):  # noqa: N818
    pass


def stop_at(iteration):
    def callback(state):
        if state.completed == iteration:
            raise Stopped

    return callback


@pytest.mark.parametrize(
    ("options", "chunked"),
    [({}, False), ({}, True), ({"growth": None, "update": "mod"}, True), ({"tol": 0.3, "normalize": "joint"}, False)],
    ids=str,
)
def test_a_fit_that_was_stopped_goes_on_with_the_same_bits(options, chunked, lacking, tmp_path):
    """Before the switch, which is after 5 iterations, right at it, and after it, also later."""
    given, path = cut(lacking) if chunked else lacking, tmp_path / "checkpoint.safetensors"
    expected = make(missing="nan", max_iter=10, **options).fit(given)
    for iteration in (8,) if options else (4, 5, 6):
        with pytest.raises(Stopped):
            make(missing="nan", max_iter=10, callback=stop_at(iteration), **options).fit(given, checkpoint=path)
        filled_by = [name for name in read_model(path)[0] if name.startswith("checkpoint.filled_by.")]
        assert len(filled_by) == (2 if iteration > 5 else 0)
        assert_same_fit(make(missing="nan", max_iter=10, n_jobs=2, **options).fit(given, resume=path), expected)


@pytest.mark.parametrize("kind", ["in memory", "blocks"])
def test_what_fills_in_stays_as_it_was(kind, damaged, tmp_path):
    """The dictionaries of the switch do not move with the atoms, which are learned in place."""
    path, seen = tmp_path / "checkpoint.safetensors", {}
    given = damaged if kind == "in memory" else cut(damaged)

    def note(state):
        seen[state.completed] = state.components

    make(missing="nan", max_iter=10, normalize="views", callback=note).fit(given, checkpoint=path)
    tensors, _ = read_model(path)
    for v in range(2):
        np.testing.assert_array_equal(tensors[f"checkpoint.filled_by.{v}"], seen[5][v])
        assert np.abs(tensors[f"checkpoint.filled_by.{v}"] - tensors[f"checkpoint.atoms.{v}"]).max() > 1e-3


@pytest.mark.parametrize(
    "lie",
    [
        lambda array: array[:-1],
        lambda array: array[:, :-1],
        lambda array: array.T,
        lambda array: array[0],
        lambda array: array.astype(np.float32),
        lambda array: np.ones(array.shape, np.int64),
        lambda array: None,
    ],
    ids=["an atom less", "a feature less", "turned", "one atom", "float32", "integers", "left out"],
)
def test_checkpoints_that_lie_about_what_fills_in(lie, damaged, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    learner = make(missing="nan", max_iter=10, callback=stop_at(7))
    with pytest.raises(Stopped):
        learner.fit(damaged, checkpoint=path)
    tensors, metadata = read_model(path)
    array = lie(tensors.pop("checkpoint.filled_by.1"))
    if array is not None:
        tensors["checkpoint.filled_by.1"] = np.ascontiguousarray(array)
    write_model(path, tensors, metadata)
    with pytest.raises(ModelFileError, match="to hold a complete checkpoint, but its arrays"):
        learner.set_params(callback=None).fit(damaged, resume=path)


@pytest.mark.slow
def test_threads_chunks_and_places_do_not_matter(lacking, tmp_path, sizes):
    sizes(block_rows=110, large_bytes=0)
    options = {"missing": "nan", "max_iter": 10, "unused_atoms": "worst", "n_components": 14}
    assert_same_fit(make(**options, n_jobs=2).fit(lacking), make(**options).fit(lacking))
    expected = make(**options).fit(cut(lacking))
    stored = []
    for v, view in enumerate(lacking):
        stored.append(zarr.create_array(tmp_path / f"{v}.zarr", shape=view.shape, chunks=(55, 3), dtype="f8"))
        stored[-1][:] = view
    lazy = [da.from_array(view, chunks=(110, -1)) for view in lacking]
    with dask.config.set(scheduler="threads"):
        for given, n_jobs in ((stored, 1), (stored, 2), (lazy, 1), (lazy, 2)):
            assert_same_fit(make(**options, n_jobs=n_jobs).fit(given), expected)


def test_about_what_arrays_in_memory_give(lacking, rng):
    """Filled in once, or again in each pass: but for the order of sums, the same."""
    options = {"missing": "nan", "growth": None, "init": unit_atoms(rng, (6, 9)), "predictor": "dictionary"}
    one, other = (make(max_iter=10, **options).fit(given) for given in (lacking, cut(lacking)))
    for D, E in zip(one.components_, other.components_, strict=True):
        np.testing.assert_allclose(D, E, atol=1e-9)
    for record, twin in zip(one.history_, other.history_, strict=True):
        assert record["objective"] == pytest.approx(twin["objective"])


# What it is good for


def patches(seed, n=2000, side=8):
    """Patches of a smooth random picture, whose energy falls with the cube of the frequency, without their means."""
    rng, size = np.random.default_rng(seed), 200
    frequencies = np.hypot(*np.meshgrid(np.fft.fftfreq(size), np.fft.fftfreq(size)))
    frequencies[0, 0] = 1
    picture = np.fft.ifft2(np.fft.fft2(rng.standard_normal((size, size))) / frequencies**1.5).real
    corners = rng.integers(0, size - side, (n, 2))
    X = np.array([picture[i : i + side, j : j + side].ravel() for i, j in corners])
    return X - X.mean(axis=1, keepdims=True)


@pytest.mark.slow
def test_filled_samples_teach_more_of_patches():
    """Errors of missing entries, half of all: 0.92 to 0.95 of those of learning by known entries, 0.68 to 0.70 of those
    of zeros, for 7 pictures when this was written.
    """
    filled, plain, zeros = [], [], []
    for seed in range(2):
        X = patches(seed)
        missing = np.random.default_rng(seed + 100).random(X.shape) < 0.5
        damaged = np.where(missing, np.nan, X)

        def error(given, X=X, missing=missing, damaged=damaged, **options):
            settings = LearningSettings(n_components=64, rule=CodingRule(6), max_iter=16, random_state=0)
            data = InMemory([given])
            data.missing = True
            fitted = engine.fit(data, replace(settings, **options), Threads(), find_imputer=False)
            codes = masked_codes(damaged, fitted.components[0], n_nonzero_coefs=6)
            return np.linalg.norm((codes @ fitted.components[0] - X)[missing])

        filled.append(error(damaged))
        zeros.append(error(np.nan_to_num(damaged)))
        plain.append(error(damaged, least_iterations_to_fill=17))
    assert np.mean(filled) < 0.965 * np.mean(plain)
    assert np.mean(filled) < 0.75 * np.mean(zeros)


def halves_of_digits(seed):
    """Upper and lower halves of digits, of which a tenth is paired: these, all, and others for the test."""
    X = load_digits().data
    X = X[np.random.default_rng(seed).permutation(len(X))]
    Xs = [half - half.mean(axis=1, keepdims=True) for half in (X[:, :32], X[:, 32:])]
    semi = [half[:1200].copy() for half in Xs]
    semi[0][120::2], semi[1][121::2] = np.nan, np.nan
    return [half[:120] for half in Xs], semi, [half[1200:] for half in Xs]


def test_unpaired_digits_do_little_harm():
    """Squared errors of predictions: 1.00 to 1.05 of those of pairs alone when this was written."""
    ratios = []
    for seed in range(3):
        paired, semi, test = halves_of_digits(seed)
        errors = []
        for given, missing in ((semi, "nan"), (paired, "error")):
            learner = make(32, n_nonzero_coefs=4, max_iter=15, missing=missing).fit(given)
            predicted = learner.predict([None, test[1]], view=0), learner.predict([test[0], None], view=1)
            errors.append(sum(np.sum((P - X) ** 2) / np.sum(X**2) for P, X in zip(predicted, test, strict=True)))
        ratios.append(errors[0] / errors[1])
    assert max(ratios) < 1.07
    assert np.mean(ratios) < 1.04
