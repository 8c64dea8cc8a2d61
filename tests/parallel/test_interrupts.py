"""Interrupts at every moment at which Python hears one: nothing is lost, locked, limited or left running.

CPython looks for signals when a function begins, after a call and when a loop turns. Here a trace function raises
KeyboardInterrupt at the first such moment of a piece of work, then at the second, and so on until the work is done.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import gc
import os
import shutil
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import coupledict
from coupledict.parallel import blas
from coupledict.parallel.cancel import CancelToken
from coupledict.parallel.ordered import in_order
from support.learners import make, planted_views
from support.waiting import wait_for_threads

PACKAGE = os.path.dirname(coupledict.__file__)
HEARD_AFTER = {dis.opmap[name] for name in ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD") if name in dis.opmap}

pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython" or sys.version_info >= (3, 14), reason="it knows this interpreter's moments"
)


class Interrupt:
    """Raises KeyboardInterrupt in this thread at one moment of the code in some files; a context."""

    def __init__(self, moment, names):
        self._left, self._names = moment, names
        self.struck = None  # where

    def __enter__(self):
        self._before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 tells of opcodes only if a frame asked before settrace
        sys.settrace(self._enter_frame)
        return self

    def __exit__(self, *error):
        sys.settrace(self._before)

    def _enter_frame(self, frame, event, argument):
        path, _, name = frame.f_code.co_filename.rpartition(os.sep)
        if not path.startswith(PACKAGE) or not (self._names is None or name in self._names):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        last = dis.opmap["RESUME"]

        def step(frame, event, argument):
            nonlocal last
            if event == "opcode":
                heard, last = last in HEARD_AFTER, frame.f_code.co_code[frame.f_lasti]
                if heard and self.struck is None:
                    self._left -= 1
                    if self._left < 0:
                        self.struck = f"{name}:{frame.f_lineno}"
                        raise KeyboardInterrupt
            return step

        return step


def interrupt_everywhere(work, check, *, names=None, step=1, first=0):
    """Interrupt work at its moments, one after the other, and check after each; return how many there were."""
    moment = first
    while True:
        interrupt = Interrupt(moment, names)
        try:
            with interrupt:
                work()
        except KeyboardInterrupt:
            assert interrupt.struck
        if interrupt.struck is None:
            return moment
        try:
            check()
        except AssertionError as error:
            error.add_note(f"interrupted at moment {moment}, {interrupt.struck}")
            raise
        moment += step


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_the_limit_of_blas_is_given_back():
    def work():
        with blas.one_blas_thread():
            pass

    def check():
        assert blas_threads() == {2}
        with blas.one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {2}

    work()
    with threadpool_limits(2, "blas"):
        assert interrupt_everywhere(work, check) > 20


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="it counts threads as Linux does")
@pytest.mark.parametrize("take_part", [True, False])
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_threads_end_and_processors_are_free_again(n_threads, take_part):
    processors, n = os.sched_getaffinity(0), len(os.listdir("/proc/self/task"))
    found = []

    def work():
        found.clear()
        stop = CancelToken()
        found.extend(in_order(lambda task: 2 * task, range(6), n_threads, stop, take_part=take_part))

    def check():
        assert found == list(range(0, 2 * len(found), 2)), "results were lost or came in another order"
        assert os.sched_getaffinity(0) == processors
        wait_for_threads(n)

    assert interrupt_everywhere(work, check, names=["ordered.py"]) > 20
    assert found == [0, 2, 4, 6, 8, 10]


def test_an_interrupt_does_not_wait_for_the_results_before_it():
    """The calling thread has its own task interrupted while the task before it still runs elsewhere."""
    begun, stop = threading.Event(), CancelToken()

    def function(task):
        if task == 0 and threading.current_thread() is not threading.main_thread():
            begun.set()
            while not stop.cancelled:
                time.sleep(0.001)
        elif threading.current_thread() is threading.main_thread():
            begun.wait(0.2)
            raise KeyboardInterrupt
        return task

    with pytest.raises(KeyboardInterrupt):
        list(in_order(function, range(50), 2, stop))
    assert stop.cancelled


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_loop_stops_at_a_whole_iteration(n_jobs):
    """Every moment of the loop and of the passes: the model is that of the iterations in its history."""
    Xs = [X[:40] for X in planted_views(np.random.default_rng(0))[0]]
    states, learners = {}, []

    def keep(state):
        states[state.completed] = state.components

    make(6, max_iter=2, callback=keep).fit(Xs)
    before = blas_threads()

    def work():
        learners.append(make(6, max_iter=2, n_jobs=n_jobs, predictor="dictionary"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *arguments, **named: None)
            learners[-1].fit(Xs)

    def check():
        learner = learners.pop()
        if hasattr(learner, "components_"):
            for atoms, expected in zip(learner.components_, states[len(learner.history_)], strict=True):
                np.testing.assert_array_equal(atoms, expected)

    names = ["loop.py", "passes.py", "ordered.py", "updates.py", "atoms.py", "blas.py"]
    assert interrupt_everywhere(work, check, names=names, step=5) > 300
    assert blas_threads() == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the collector closes the file
def test_a_file_is_whole_or_absent(tmp_path):
    learner = make(6, max_iter=1).fit([X[:40] for X in planted_views(np.random.default_rng(0))[0]])
    place = tmp_path / "model.safetensors"

    def check():
        left = list(tmp_path.iterdir())
        assert left in ([], [place])
        if left:
            np.testing.assert_array_equal(coupledict.load(place).components_[0], learner.components_[0])
            place.unlink()

    assert interrupt_everywhere(lambda: learner.save(place), check, step=3) > 30
    check()


def test_an_error_does_not_outlive_its_handler():
    """An exception that holds the frame which holds the exception would keep the samples of a pass alive."""

    class Big:
        pass

    def function(task):
        raise ValueError

    def fail():
        big = Big()
        with contextlib.suppress(ValueError):
            list(in_order(function, [big], 1, CancelToken()))
        return weakref.ref(big)

    gc.collect()
    gc.disable()
    try:
        assert fail()() is None
    finally:
        gc.enable()


@pytest.fixture
def Xs():
    return [X[:40] for X in planted_views(np.random.default_rng(0))[0]]


def quietly(function):
    """Call a function; the warning that a fit was interrupted is expected."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *arguments, **named: None)
        function()


@pytest.mark.slow
def test_a_fit_leaves_a_whole_model_or_none(Xs):
    """Of a fit after another: the old model or one of the new, with everything that belongs to it."""
    states = {}
    make(6, max_iter=2, callback=lambda state: states.update({state.completed: state.components})).fit(Xs)
    old = make(6, max_iter=2).fit([X[::-1] + 1 for X in Xs])
    learners = []

    def work():
        learners.append(copy.deepcopy(old))
        quietly(lambda: learners[-1].fit(Xs))

    def check():
        learner = learners.pop()
        unchanged = np.array_equal(learner.components_[0], old.components_[0])
        assert len(learner.history_) == learner.n_iter_
        for atoms, wanted in zip(
            learner.components_, old.components_ if unchanged else states[learner.n_iter_], strict=True
        ):
            np.testing.assert_array_equal(atoms, wanted)
        one, other = (model.predict([Xs[0], None], view=1) for model in (learner, old))
        assert np.array_equal(one, other) == unchanged, "what predicts belongs to the other model"

    names = ["base.py", "coupled.py", "several_views.py", "engine.py", "loop.py"]
    assert interrupt_everywhere(work, check, names=names) > 200


def test_a_batch_counts_as_a_whole_or_not_at_all(Xs):
    first = make(6).partial_fit(Xs)
    second = copy.deepcopy(first).partial_fit(Xs)
    learners = []

    def work():
        learners.append(copy.deepcopy(first))
        learners[-1].partial_fit(Xs)

    def check():
        learner = learners.pop()
        while learner.n_iter_ < 2:
            learner.partial_fit(Xs)
        for atoms, wanted in zip(learner.components_, second.components_, strict=True):
            np.testing.assert_array_equal(atoms, wanted)

    names = ["base.py", "several_views.py", "batches.py", "updates.py"]
    assert interrupt_everywhere(work, check, names=names) > 30


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the collector closes the file
def test_codes_in_a_file_are_whole_or_absent(Xs, tmp_path):
    learner = make(6, max_iter=1).fit(Xs)
    place, expected = tmp_path / "codes", learner.transform(Xs).toarray()

    def check():
        left = list(tmp_path.iterdir())
        assert left in ([], [place])
        if left:
            np.testing.assert_array_equal(coupledict.open_codes(place).load().toarray(), expected)
            shutil.rmtree(place)

    work = functools.partial(learner.transform, Xs, out=place)
    assert interrupt_everywhere(work, check, names=["codes.py", "blocks.py"]) > 30
