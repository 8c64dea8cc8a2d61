"""Many Python threads at once, with the same objects: results are those of one thread, to the last bit.

With a GIL most of it is easy; a free-threaded Python runs the same tests with threads that are never held back, and
some more: that nothing switches the GIL on again, and that two fits are really at work at the same time.
"""

from __future__ import annotations

import sys
import sysconfig
import textwrap
import threading
import time
import warnings

import numpy as np
import pytest
from digest import UPDATES, cases, digest, samples

import coupledict
from coupledict import CoupledDictionaryLearning, sparse_encode
from coupledict.parallel import ordered
from coupledict.parallel.blas import one_blas_thread
from coupledict.parallel.cancel import CancelToken
from support import programs
from support.coherent import make_atoms, make_signals
from support.inner import (
    CodingRule,
    PreparedCoder,
    Recipe,
    Scratch,
    Threads,
    _native,
    keep_fitted,
    make_coder,
    without_warnings,
)

N_THREADS = 6
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
without_a_gil = pytest.mark.skipif(
    not FREE_THREADED, reason="this Python has a GIL; `make systems NAME=freethreaded` has one without"
)


def together(*functions):
    """Call functions in threads of their own, which start at the same time; return their results in order."""
    start, results = threading.Barrier(len(functions)), [None] * len(functions)

    def run(number):
        start.wait()
        try:
            results[number] = functions[number]()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


@pytest.fixture(scope="module")
def data():
    return samples(np.float64)


@pytest.fixture(scope="module")
def learner(data):
    """A learner that can do all that learners do: predict, impute, guess by means and covariances."""
    return CoupledDictionaryLearning(18, n_nonzero_coefs=3, max_iter=3, missing="nan", random_state=0).fit(data[1])


def test_threads_that_fail_are_heard():
    with pytest.raises(ZeroDivisionError):
        together(lambda: 1, lambda: 1 / 0)


# The same objects in many threads


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "settings",
    [{"n_nonzero_coefs": 4}, {"n_nonzero_coefs": 4, "pursuit": "ols"}, {"pursuit": "lasso", "alpha": 0.2}],
    ids=["omp", "ols", "lasso"],
)
def test_one_dictionary(dtype, n_jobs, settings):
    views, _ = samples(dtype)
    atoms = [np.random.default_rng(1).standard_normal((60, view.shape[1])).astype(dtype) for view in views]

    def encode():
        return digest(sparse_encode(views, atoms, n_jobs=n_jobs, **settings))

    assert set(together(*[encode] * N_THREADS)) == {encode()}


def test_one_learner(data, learner):
    views, holes = data
    jobs = [
        lambda: digest(learner.transform(views)),
        lambda: digest(learner.transform(holes)),
        lambda: digest(learner.predict([views[0], None], view=1)),
        lambda: digest(learner.impute(holes)),
        lambda: digest(learner.score(holes)),
        lambda: digest(learner.inverse_transform(learner.transform(views))),
    ]
    expected = [job() for job in jobs]
    for turn in range(len(jobs)):  # another neighbour each time
        assert together(*jobs, jobs[turn]) == [*expected, expected[turn]]


def test_one_coder_that_makes_what_it_needs_when_it_needs_it(rng):
    # Atoms that nearly depend on each other leave samples in doubt; these are coded in float64, by dictionaries that
    # are made when the first such sample comes, in whichever thread.
    atoms = make_atoms(rng, "lines", 60, 40).astype(np.float32)
    X = make_signals(rng, "walks", atoms, 400).astype(np.float32)

    def fresh():
        return PreparedCoder([atoms], CodingRule(12), np.dtype(np.float32), len(X))

    coder = fresh()
    expected = digest(coder.encode([X]))
    assert coder._coder._plan.n_retried > 0, "some samples were in doubt"
    for _ in range(5):
        shared = fresh()
        assert shared._coder._plan.n_retried == 0
        assert set(together(*[lambda shared=shared: digest(shared.encode([X]))] * N_THREADS)) == {expected}


def test_one_coder_of_incomplete_samples(data):
    _, holes = data
    atoms = [np.random.default_rng(2).standard_normal((20, view.shape[1])) for view in holes]
    recipe = Recipe(atoms, np.ones(2), np.dtype(np.float64), CodingRule(3), 900, missing=True)

    def encode(coder):
        energy, status = np.empty(900), np.empty(900, np.uint8)
        codes = coder.encode_rows(holes, Scratch(_native.Workspace(), CancelToken(), energy, status))
        return digest(codes.counts, codes.indices, *codes.values, energy, status)

    expected = encode(make_coder(recipe, Threads()))
    for _ in range(5):
        shared = make_coder(recipe, Threads())
        assert set(together(*[lambda shared=shared: encode(shared)] * N_THREADS)) == {expected}


@pytest.mark.slow
def test_tasks_with_one_model_each(data):
    views, _ = data
    labels = np.digitize(views[0][:, 0], [-0.5, 0.5])
    recognizer = coupledict.classification.CoupledClassifier(12, n_nonzero_coefs=3, random_state=0).fit(views, labels)
    matcher = coupledict.matching.CrossModalMatcher(12, random_state=0).fit([view[:300] for view in views])
    jobs = [
        lambda: digest(recognizer.predict_proba(views)),
        lambda: digest(matcher.similarity(views[0][:50], views[1][:50])),
    ]
    expected = [job() for job in jobs]
    assert together(*jobs * 3) == expected * 3


def test_fitted_attributes_change_in_one_step():
    class Estimator:
        pass

    estimator, n_steps = Estimator(), 20_000
    keep_fitted(estimator, dict.fromkeys("abcd", 0))

    def change():
        for step in range(1, n_steps):
            keep_fitted(estimator, dict.fromkeys("abcd", step))

    def look():
        while True:
            found = vars(estimator).copy()
            assert list(found) == list("abcd")
            assert len(set(found.values())) == 1, found
            if found["d"] == n_steps - 1:
                return True

    assert together(change, look, look) == [None, True, True]


def test_fitted_attributes_come_and_go():
    class Estimator:
        c = "of the class"

    estimator = Estimator()
    estimator.alpha = 0.1
    for given, expected in [
        ({"a": 1, "c": None}, {"alpha": 0.1, "a": 1}),  # one comes, and one was never there
        ({"a": 2, "c": None}, {"alpha": 0.1, "a": 2}),
        ({"a": 3, "c": 4}, {"alpha": 0.1, "a": 3, "c": 4}),
        ({"a": None, "c": 5}, {"alpha": 0.1, "c": 5}),  # one goes, the other changes
        ({"a": 6, "c": None}, {"alpha": 0.1, "a": 6}),  # as many as before, of other names
        ({}, {"alpha": 0.1, "a": 6}),
    ]:
        keep_fitted(estimator, given)
        assert vars(estimator) == expected
    assert estimator.c == "of the class"


# Several fits


def test_fits_of_all_kinds_at_once(data):
    views, _ = data

    def fit(update, seed):
        learner = CoupledDictionaryLearning(
            18, n_nonzero_coefs=3, max_iter=3, update=update, n_jobs=2, random_state=seed
        )
        learner.fit(views)
        return digest(learner.components_, learner.history_, learner.transform(views))

    wanted = [(update, seed) for update in UPDATES for seed in (0, 1)]
    expected = [fit(*one) for one in wanted]
    assert len(set(expected)) == len(expected)
    assert together(*[lambda one=one: fit(*one) for one in wanted]) == expected


def test_fits_with_missing_entries_leave_warnings_alone(data):
    _, holes = data

    def fit():
        learner = CoupledDictionaryLearning(12, n_nonzero_coefs=2, max_iter=2, missing="nan", random_state=0)
        return digest(learner.fit(holes).components_)

    expected, before = fit(), list(warnings.filters)
    assert set(together(*[fit] * N_THREADS)) == {expected}
    assert list(warnings.filters) == before


def test_warnings_are_held_back_by_overlapping_threads_and_heard_afterwards():
    # With catch_warnings alone, the second would restore what it found, which is the filter of the first.
    before = list(warnings.filters)
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def first():
        with without_warnings():
            first_is_in.set()
            second_is_in.wait()
            warnings.warn("not to be heard", UserWarning, stacklevel=1)
        first_is_out.set()

    def second():
        first_is_in.wait()
        with without_warnings():
            second_is_in.set()
            first_is_out.wait()
            warnings.warn("not to be heard", UserWarning, stacklevel=1)

    together(first, second)
    assert list(warnings.filters) == before
    with pytest.warns(UserWarning, match="heard again"):
        warnings.warn("heard again", UserWarning, stacklevel=1)


def test_the_limit_of_blas_threads_counts_all_threads():
    limit = one_blas_thread()._limit

    def hold():
        for _ in range(200):
            with one_blas_thread():
                assert limit._holds
        return True

    assert all(together(*[hold] * N_THREADS))
    assert not limit._holds
    assert not limit._before


def test_digests_do_not_depend_on_threads():
    for dtype in (np.float32, np.float64):
        assert dict(cases(dtype, 1)) == dict(cases(dtype, 2))


# Ordered work


def test_helpers_have_the_context_of_the_caller():
    def overflow(_):
        return np.float32(3e38) * np.float32(10)

    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        list(ordered.in_order(overflow, range(4), 2, take_part=False))
    with np.errstate(over="ignore"):
        assert list(ordered.in_order(overflow, range(4), 2, take_part=False)) == [np.inf] * 4

    def warn(_):
        warnings.warn("of a task", UserWarning, stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="of a task"):
            list(ordered.in_order(warn, range(4), 2, take_part=False))


def test_the_error_of_a_source_is_never_lost(monkeypatch):
    # The helper that met the end of the tasks in an error is slow to say which: the caller must not leave before.
    class SlowToTell(dict):
        def __setitem__(self, number, result):
            if isinstance(result, OSError):
                time.sleep(4 * ordered.LOOK_UP_SECONDS)
            super().__setitem__(number, result)

    class Pool(ordered._OrderedPool):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self._finished = SlowToTell()

    monkeypatch.setattr(ordered, "_OrderedPool", Pool)

    def tasks():
        yield 1
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="the file ends here"):
        list(ordered.in_order(abs, tasks(), 1, take_part=False))


# Without a GIL


def run(program, *options):
    """Run a program in an interpreter of its own, with warnings as errors; return what it printed."""
    command = [sys.executable, "-W", "error", *options, "-c", textwrap.dedent(program)]
    done = programs.run(command, seconds=200)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


@without_a_gil
def test_the_gil_stays_off():
    # Python switches it on, with a warning, for a module that does not say that it needs none.
    found = run(
        """
        import importlib, sys
        import coupledict
        from coupledict.kernels import _native
        assert not sys._is_gil_enabled(), "coupledict"
        for name in coupledict.__all__:
            getattr(coupledict, name)
        assert not sys._is_gil_enabled(), "the public names"
        lacking = []
        for name in coupledict._MODULES:
            try:
                importlib.import_module(f"coupledict.{name}")
            except ImportError as error:
                lacking.append(f"{name}:{error.name}")
            assert not sys._is_gil_enabled(), name
        import numpy as np
        X = np.random.default_rng(0).standard_normal((200, 6))
        learner = coupledict.CoupledDictionaryLearning(8, n_nonzero_coefs=2, max_iter=2, n_jobs=2).fit([X, X])
        learner.predict([X, None], view=1)
        assert not sys._is_gil_enabled(), "a fit"
        print("off", *lacking)
        """
    )
    assert found[0] == "off"
    # `distributed` is Dask's room; all others import without an extra.
    assert {what.partition(":")[0] for what in found[1:]} <= {"distributed"}


@without_a_gil
def test_two_fits_are_at_work_at_the_same_time():
    # Each callback waits, in plain Python that never lets go, until the other fit has come as far. With a GIL that is
    # not passed on (the interval is eleven days), the first to wait would wait in vain.
    found = run(
        """
        import sys, threading
        import numpy as np
        import coupledict
        coupledict.CoupledDictionaryLearning
        sys.setswitchinterval(1e6)
        X = np.random.default_rng(0).standard_normal((300, 6))
        reached, met = [0, 0], [0, 0]

        def learn(me):
            def callback(progress):
                reached[me] = progress.completed
                for _ in range(200_000_000):
                    if reached[1 - me] >= progress.completed:
                        met[me] += 1
                        return False
                return True

            coupledict.CoupledDictionaryLearning(
                8, n_nonzero_coefs=2, max_iter=10, random_state=0, callback=callback
            ).fit([X, X])

        threads = [threading.Thread(target=learn, args=(me,)) for me in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(*met)
        """
    )
    assert found == ["10", "10"]
