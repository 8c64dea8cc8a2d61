"""How every fit tells how far it has come, and hears that it is to stop."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from coupledict import DictionaryLearning, LearningProgress, OnlineDictionaryLearning, Progress, StoppedByCallback
from coupledict.foundation.progress import Meter, tell_all
from support.inner import fit_many, watched
from support.learners import assert_same_model, make, planted_views


@pytest.fixture
def Xs(rng):
    return planted_views(rng)[0]


def test_share():
    assert Progress("fusing", 1, 4).share == 0.25
    assert Progress("fusing", 9, 4).share == 1
    assert Progress("fusing", 3, None).share == 0
    assert Progress("fusing", 0, 0).share == 0


@pytest.mark.parametrize("kind", ["coupled", "single", "online"])
def test_learners_tell_after_each_iteration(Xs, kind):
    seen = []
    settings = {"n_nonzero_coefs": 2, "max_iter": 4, "random_state": 0, "callback": seen.append}
    if kind == "coupled":
        learner = make(12, callback=seen.append).fit(Xs)
    elif kind == "single":
        learner = DictionaryLearning(12, **settings).fit(Xs[0])
    else:
        learner = OnlineDictionaryLearning(12, batch_size=150, **settings).fit(Xs)
    assert [progress.completed for progress in seen] == list(range(1, learner.n_iter_ + 1))
    assert {progress.total for progress in seen} == {learner.n_iter_}
    assert all(isinstance(progress, LearningProgress) and progress.stage == "learning" for progress in seen)
    last = learner.components_ if kind == "single" else learner.components_[0]
    np.testing.assert_array_equal(seen[-1].components[0], last)
    assert seen[-1].history == learner.history_
    assert len(seen[0].history) == 1, "what was reported does not change afterwards"


def test_a_true_answer_stops_a_learner_where_it_is(Xs):
    stopped = make(12, max_iter=30, growth=None, callback=lambda progress: progress.completed == 3).fit(Xs)
    assert stopped.n_iter_ == 3
    online = OnlineDictionaryLearning(12, n_nonzero_coefs=2, random_state=0, callback=lambda progress: True).fit(Xs)
    assert online.n_iter_ == 1
    assert online.predict([Xs[0], None], view=1).shape == Xs[1].shape


def test_an_ensemble_counts_all_iterations(Xs):
    seen = []
    learners = fit_many([make(random_state=seed) for seed in range(3)], Xs, 2, seen.append)
    assert [progress.completed for progress in seen] == list(range(1, 13))
    assert {(progress.stage, progress.total) for progress in seen} == {("learning", 12)}
    assert_same_model(learners[1], make(random_state=1).fit(Xs))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_ensemble_that_is_stopped_has_no_result(Xs, n_jobs):
    before = threading.active_count()
    with pytest.raises(StoppedByCallback):
        fit_many([make(max_iter=10**6) for _ in range(3)], Xs, n_jobs, lambda progress: progress.completed >= 5)
    assert threading.active_count() == before


def test_a_meter_counts_for_many_threads():
    seen = []
    meter = Meter(seen.append, "reading", 400)

    def work():
        for _ in range(100):
            meter.advance()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [progress.completed for progress in seen] == list(range(1, 401))


def test_a_meter_nobody_looks_at():
    Meter(None, "reading").advance(10)
    with pytest.raises(StoppedByCallback, match="reading"):
        Meter(lambda progress: True, "reading").advance()


def test_several_are_told_whatever_the_first_answers():
    first, second = [], []
    tell = tell_all(lambda progress: first.append(progress) or True, None, second.append)
    assert tell(Progress("x", 1, 1))
    assert len(first) == len(second) == 1
    assert tell_all(None, None) is None
    assert tell_all(second.append)(Progress("x", 1, 1)) is None


def test_verbose_prints_lines_where_there_is_no_terminal(Xs, capsys):
    make(verbose=1, max_iter=3, predictor="dictionary").fit(Xs)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"CoupledDictionaryLearning {k}/3" for k in (1, 2, 3)]
    assert "RMS error" in lines[0]
    with watched(1, "Task") as report:
        for k in range(1, 101):
            report(Progress("fusing", k, 100))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11, "some, not all"
    assert lines[-1] == "Task, fusing: 100/100"


def test_verbose_and_callback_go_together(Xs, capsys):
    learner = make(verbose=1, predictor="dictionary", callback=lambda progress: progress.completed == 2).fit(Xs)
    assert learner.n_iter_ == 2
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_what_is_no_callback(Xs):
    with pytest.raises(TypeError, match="Expected callback to be None or a callable, got 3"):
        make(callback=3).fit(Xs)
