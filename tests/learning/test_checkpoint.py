"""Fits that were stopped and taken up again: the same to the last bit as if nothing had happened."""

from __future__ import annotations

import json
import os
import sys
import textwrap

import numpy as np
import pytest
from safetensors.numpy import load_file

import coupledict
from coupledict import DictionaryLearning, ModelFileError
from coupledict.files import read_model, write_model
from support.cases import first_and_slow
from support.learners import make, planted_views, without_times
from support.programs import run_python

N_ITER = 5


@pytest.fixture
def views(rng):
    return planted_views(rng, n=330)[0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.safetensors"


def cut(views, rows=40):
    return [[view[start : start + rows] for view in views] for start in range(0, len(views[0]), rows)]


class Killed(Exception):  # noqa: N818
    pass


def kill_at(iteration):
    def callback(state):
        if state.completed == iteration:
            raise Killed

    return callback


def fit_and_kill(learner, Xs, iteration, **given):
    with pytest.raises(Killed):
        learner.set_params(callback=kill_at(iteration)).fit(Xs, **given)


def assert_same(one, other):
    for D, E in zip(one._fitted.components, other._fitted.components, strict=True):
        assert D.dtype == E.dtype
        np.testing.assert_array_equal(D, E)
    assert without_times(one.history_) == without_times(other.history_)
    assert one.n_iter_ == other.n_iter_
    assert one.n_features_in_ == other.n_features_in_
    np.testing.assert_array_equal(one._fitted.weights, other._fitted.weights)
    refits, others = getattr(one, "predictors_", {}), getattr(other, "predictors_", {})
    assert refits.keys() == others.keys()
    for sources, targets in refits.items():
        assert targets.keys() == others[sources].keys()
        for view, atoms in targets.items():
            np.testing.assert_array_equal(atoms, others[sources][view])


# Killed at every iteration

CASES = {
    "default": {},
    "all samples": {"growth": None},
    "tolerance": {"tol": 0.05, "n_nonzero_coefs": None},
    "settles": {"stop_tol": 0.05, "max_iter": 12, "schedule": "constant"},
    "settles while growing": {"stop_tol": 0.3, "max_iter": 9, "schedule": "constant"},
    "sequential": {"update": "sequential", "unused_atoms": "mean"},
    "ksvd": {"update": "ksvd"},
    "mod": {"update": "mod", "growth": "auto"},
    "worst": {"unused_atoms": "worst", "n_components": 40, "init": "random"},
    "late": {"unused_atoms": "late", "n_components": 40, "init": "random"},
    "joint": {"normalize": "joint", "view_weights": "balanced"},
    "support": {"coupling": "support", "view_weights": [1, 3]},
    "constant atom": {"constant_atom": True, "schedule": [1, 1, 2, 2, 2]},
    "ols": {"pursuit": "ols"},
    "callables": {"growth": lambda k, n_iter, n: 90 + 60 * k, "schedule": lambda k, n_iter, limit: 1 + k // 3},
}
CHUNKED = [name for name in CASES if name not in ("sequential", "ksvd")]


EVERY = [(case, False) for case in CASES] + [(case, True) for case in CHUNKED]


@pytest.mark.parametrize(("case", "chunked"), first_and_slow([*EVERY[:5], ("joint", True), ("late", True)], EVERY))
def test_resumed_after_every_iteration(path, views, case, chunked):
    Xs = cut([view.astype(np.float32) for view in views]) if chunked else views

    def fresh(**parameters):
        return make(**{"max_iter": N_ITER} | CASES[case] | parameters)

    expected = fresh().fit(Xs)
    if case.startswith("settles"):
        assert expected.n_iter_ < expected.max_iter
    for iteration in range(1, expected.n_iter_ + 1):
        fit_and_kill(fresh(), Xs, iteration, checkpoint=path)
        seen = []
        resumed = fresh(n_jobs=2, random_state=None, callback=lambda state, seen=seen: seen.append(state.completed))
        resumed.fit(Xs, resume=path)
        assert seen == list(range(iteration + 1, expected.n_iter_ + 1)), "what was done is not done again"
        assert_same(expected, resumed)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("parameters", [{}, {"update": "ksvd"}, {"growth": None}], ids=str)
def test_a_single_view(path, views, chunked, parameters):
    if chunked and "update" in parameters:
        parameters = {"update": "mod"}

    def fresh():
        return DictionaryLearning(12, n_nonzero_coefs=2, max_iter=N_ITER, random_state=0, **parameters)

    X = [chunk[0] for chunk in cut(views)] if chunked else views[0]
    expected = fresh().fit(X)
    for iteration in range(1, N_ITER + 1):
        fit_and_kill(fresh(), X, iteration, checkpoint=path)
        assert_same(expected, fresh().fit(X, resume=path))


def random_states():
    kinds = {name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")}
    made = {name: lambda kind=kind: np.random.Generator(kind(7)) for name, kind in kinds.items()}
    return made | {"int": lambda: 7, "RandomState": lambda: np.random.RandomState(7)}


@pytest.mark.parametrize("kind", random_states())
def test_any_random_state(path, views, kind):
    """The refit of 330 samples over 4 atoms draws after the last iteration: the generator goes on where it was."""

    def fresh(random_state):
        return make(4, max_iter=N_ITER, random_state=random_state)

    make_state = random_states()[kind]
    expected = fresh(make_state()).fit(views)
    fit_and_kill(fresh(make_state()), views, 2, checkpoint=path)
    assert_same(expected, fresh(99).fit(views, resume=path))
    fit_and_kill(fresh(make_state()), views, N_ITER, checkpoint=path)
    assert_same(expected, fresh(None).fit(views, resume=path))


# How checkpoints come about


def iteration_of(path):
    return read_model(path)[1]["checkpoint"]["iteration"] if path.exists() else None


def test_every_few_iterations(path, views):
    seen = []
    learner = make(max_iter=8, callback=lambda state: seen.append(iteration_of(path)))
    learner.fit(views, checkpoint=path, checkpoint_every=3)
    assert seen == [None, None, 3, 3, 3, 6, 6, 8]
    expected = make(max_iter=8).fit(views)
    assert_same(expected, learner)
    for iteration in (4, 5, 7):
        fit_and_kill(make(max_iter=8), views, iteration, checkpoint=path, checkpoint_every=3)
        assert iteration_of(path) == iteration // 3 * 3
        assert_same(expected, make(max_iter=8).fit(views, resume=path))


def test_one_file_for_going_on_and_for_the_next_stop(path, views):
    expected = make(max_iter=6).fit(cut(views))
    for iteration in range(1, 7):
        resume = path if iteration > 1 else None
        fit_and_kill(make(max_iter=6), cut(views), iteration, checkpoint=path, resume=resume)
        assert iteration_of(path) == iteration
    assert_same(expected, make(max_iter=6).fit(cut(views), resume=path, checkpoint=path))


@pytest.mark.parametrize("parameters", [{}, {"stop_tol": 0.05, "max_iter": 12, "schedule": "constant"}], ids=str)
def test_a_finished_fit_has_nothing_to_do(path, views, parameters):
    finished = make(**parameters).fit(views, checkpoint=path)
    again = make(**parameters, callback=kill_at(1)).fit(views, resume=path)
    assert_same(finished, again)
    assert again.history_[-1]["seconds"] == finished.history_[-1]["seconds"]


def test_a_callback_that_stops(path, views):
    stopped = make(callback=lambda state: state.completed == 2).fit(views, checkpoint=path)
    assert stopped.n_iter_ == 2
    assert_same(make().fit(views), make().fit(views, resume=path))


def test_an_interrupt(path, views):
    def interrupt(state):
        if state.completed == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="The fit was interrupted; the model is that of iteration 2 of 4"):
        make(callback=interrupt).fit(views, checkpoint=path)
    assert_same(make().fit(views), make().fit(views, resume=path))


def test_what_may_differ(path, views):
    fit_and_kill(make(), views, 2, checkpoint=path)
    resumed = make(n_jobs=2, verbose=0, predictor="dictionary", random_state=None).fit(views, resume=path)
    assert resumed.predictors_ == {}
    np.testing.assert_array_equal(resumed.components_[0], make().fit(views).components_[0])


def test_chunks_may_come_from_elsewhere(path, views):
    fit_and_kill(make(), cut(views), 2, checkpoint=path)
    assert_same(make().fit(cut(views)), make().fit(lambda: iter(cut(views)), resume=path))


def test_time_goes_on(path, views):
    fit_and_kill(make(), views, 3, checkpoint=path)
    before = read_model(path)[1]["history"]
    resumed = make().fit(views, resume=path)
    assert [record["seconds"] for record in resumed.history_[:3]] == [record["seconds"] for record in before]
    assert resumed.history_[3]["seconds"] > before[2]["seconds"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_checkpoint_is_a_model(path, views, dtype):
    views, states = [view.astype(dtype) for view in views], []

    def look(state):
        states.append((state, coupledict.load(path)))

    make(callback=look).fit(views, checkpoint=path)
    assert len(states) == 4
    for state, model in states:
        for D, E in zip(state.components, model.components_, strict=True):
            assert E.dtype == dtype
            np.testing.assert_array_equal(D, E)
        assert model.history_ == state.history
        assert model.n_iter_ == state.completed
        assert model.predict([views[0], None], view=1).shape == views[1].shape
        assert model.partial_fit(views).n_iter_ == state.completed + 1
    X = views[0]
    fit_and_kill(DictionaryLearning(8, n_nonzero_coefs=2, random_state=0), X, 3, checkpoint=path)
    assert coupledict.load(path).transform(X).shape == (330, 8)


# What is refused


def test_bad_arguments(tmp_path, path, views):
    def refuse(kind, message, **given):
        with pytest.raises(kind, match=message):
            make(callback=kill_at(1)).fit(views, **given)

    refuse(FileNotFoundError, r"Expected the folder '.*none' for the checkpoint to exist\. Make it\.",
           checkpoint=tmp_path / "none" / "x")  # fmt: skip
    refuse(IsADirectoryError, "Expected a file to write, or a new name for one, got the folder", checkpoint=tmp_path)
    refuse(ValueError, "Expected checkpoint_every to be at least 1, got 0", checkpoint=path, checkpoint_every=0)
    refuse(TypeError, "Expected checkpoint_every to be an integer, got 1.5", checkpoint=path, checkpoint_every=1.5)
    refuse(ValueError, "Expected a name for the checkpoint with checkpoint_every=3, got", checkpoint_every=3)
    refuse(FileNotFoundError, "none", resume=tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_nonzero_coefs": 3}, r"n_nonzero_coefs \(2 then, 3 now\) differ"),
        ({"max_iter": 9, "pursuit": "ols"}, r"max_iter \(4 then, 9 now\), pursuit \('omp' then, 'ols' now\) differ"),
        ({"view_weights": [1, 2]}, r"view_weights \(None then, \[1, 2\] now\) differ"),
        ({"growth": lambda k, n_iter, n: n}, r"growth \('auto' then, 'something else' now\) differ"),
        ({"init": [np.eye(12, 6), np.eye(12, 9)]}, r"init \('auto' then, 'something else' now\) differ"),
    ],
    ids=["number", "two", "list", "callable", "arrays"],
)
def test_other_parameters(path, views, change, message):
    fit_and_kill(make(), views, 2, checkpoint=path)
    with pytest.raises(ValueError, match="Expected the parameters that '.*' was made with; " + message):
        make(**change).fit(views, resume=path)
    fit_and_kill(make(**change), views, 2, checkpoint=path)
    with pytest.raises(ValueError, match=r"Expected the parameters that '.*' was made with; "):
        make().fit(views, resume=path)


def test_other_samples(path, views):
    fit_and_kill(make(), views, 2, checkpoint=path)
    message = r"Expected the samples that '.*' was made with, 330 of \[6, 9\] float64 features, got "
    for other, got in [
        ([view[:-1] for view in views], r"329 of \[6, 9\] float64"),
        (views[::-1], r"330 of \[9, 6\] float64"),
        ([view.astype(np.float32) for view in views], r"330 of \[6, 9\] float32"),
    ]:
        with pytest.raises(ValueError, match=message + got):
            make().fit(other, resume=path)


def test_samples_that_are_cut_otherwise(path, views):
    """Growing samples are taken in an order of chunks, or of single samples."""
    message = "Expected the samples in the same chunks as when '.*' was made, {} of them, got {}"
    ways = {330: views, 9: cut(views), 5: cut(views, 70)}
    for made, Xs in ways.items():
        fit_and_kill(make(), Xs, 2, checkpoint=path)
        for now, others in ways.items():
            if now != made:
                with pytest.raises(ValueError, match=message.format(made, now)):
                    make().fit(others, resume=path)


def test_other_learners(path, views):
    fit_and_kill(DictionaryLearning(12, n_nonzero_coefs=2, max_iter=4), views[0], 2, checkpoint=path)
    message = "to be a checkpoint of a CoupledDictionaryLearning, got one of a DictionaryLearning"
    with pytest.raises(ValueError, match=message):
        make().fit([views[0]], resume=path)


def test_a_model_that_is_no_checkpoint(path, views):
    make().fit(views).save(path)
    with pytest.raises(ModelFileError, match="to be a checkpoint of a fit, got a model without one"):
        make().fit(views, resume=path)


def test_damaged_files(path, views):
    fit_and_kill(make(), views, 2, checkpoint=path)
    whole = path.read_bytes()
    for content in (b"", whole[:-1], whole[: len(whole) // 2], whole[:-9] + b"\x01" + whole[-8:], b"nothing" * 99):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"^Expected '.*' to be a complete coupledict model, got one [^.]*\.$"):
            make().fit(views, resume=path)


@pytest.mark.parametrize(
    "change",
    [
        {"checkpoint": None},
        {"checkpoint": 3},
        {"iteration": 1},
        {"order": [1, 2]},
        {"order": "x"},
        {"place": None},
        {"generator": {"bit_generator": "os"}},
        {"generator": {"bit_generator": "PCG64"}},
        {"generator": None},
        {"n_samples": None},
        {"history": 3},
        {"parameters": 3},
    ],
    ids=str,
)
def test_files_that_lie(path, views, change):
    """Well-formed, but no checkpoint that we would write."""
    fit_and_kill(make(), views, 2, checkpoint=path)
    tensors, metadata = read_model(path)
    place = metadata if next(iter(change)) in metadata else metadata["checkpoint"]
    place.update(change)
    write_model(path, tensors, metadata)
    what = "model" if "parameters" in change else "checkpoint"  # without parameters it is not even a model
    with pytest.raises(ModelFileError, match=f"to hold a complete {what}, but"):
        make().fit(views, resume=path)


def test_tensors_that_are_missing(path, views):
    fit_and_kill(make(), views, 2, checkpoint=path)
    tensors, metadata = read_model(path)
    for name in tensors:
        if name.startswith(("components", "standard")):
            continue  # these are for those who take the checkpoint for a model
        write_model(path, {key: array for key, array in tensors.items() if key != name}, metadata)
        with pytest.raises(ModelFileError, match="to hold a complete checkpoint, but"):
            make().fit(views, resume=path)
    write_model(path, tensors | {"checkpoint.atoms.1": np.zeros((3, 9))}, metadata)
    with pytest.raises(ModelFileError, match="its arrays do not fit each other"):
        make().fit(views, resume=path)


# Ends without warning

PROGRAM = """
    import json, os, random, resource, signal, sys, time
    import numpy as np
    import coupledict
    from coupledict import CoupledDictionaryLearning, load  # all that a fork needs is imported before it

    path = sys.argv[1]
    rng = np.random.default_rng(0)
    sources = rng.standard_normal((900, 10)) * (rng.random((900, 10)) < 0.3)
    views = [sources @ rng.standard_normal((10, p)) + 0.1 * rng.standard_normal((900, p)) for p in (6, 9)]
    chunks = [[view[start : start + 100] for view in views] for start in range(0, 900, 100)]

    def fit(callback=None, **given):
        learner = CoupledDictionaryLearning(12, n_nonzero_coefs=2, max_iter=40, random_state=0, callback=callback)
        return learner.fit(chunks, **given)

    def same(one, other):
        return all(np.array_equal(D, E) for D, E in zip(one.components_, other.components_, strict=True))
"""

KILLED = """
    moments, n_killed, done = random.Random(0), 0, []
    while n_killed < 8:
        news, tell = os.pipe()
        child = os.fork()
        if child == 0:
            callback = lambda state: os.write(tell, b".") and None
            fit(callback, checkpoint=path, resume=path if os.path.exists(path) else None)
            os._exit(0)
        os.close(tell)
        for _ in range(moments.randrange(8)):  # an iteration each, or the end
            os.read(news, 1)
        time.sleep(moments.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.close(news)
        n_killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        if os.path.exists(path):
            done.append(coupledict.load(path).n_iter_)  # whenever it was, the file is whole
            if done[-1] == 40:
                os.unlink(path)
    assert done, "no child got as far as the first checkpoint"
    resume = path if os.path.exists(path) else None
    print(json.dumps([same(fit(), fit(resume=resume)), done]))
"""

FULL = """
    def fill(state):
        if state.completed == 3:
            size = os.path.getsize(path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    try:
        fit(fill, checkpoint=path)
    except OSError as error:
        print(json.dumps([error.errno, str(error), coupledict.load(path).n_iter_, same(fit(), fit(resume=path))]))
"""


def run(program, path):
    program = textwrap.dedent(PROGRAM) + textwrap.dedent(program)
    done = run_python(program, path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs that are killed are forks, which Windows has not")
def test_killed_at_any_moment(path):
    same, done = run(KILLED, path)
    assert same
    assert max(done) > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the disk is full by a limit (resource), which Windows has not")
def test_a_full_disk(path):
    number, message, n_iter, same = run(FULL, path)
    assert number == 27
    assert "Could not write the checkpoint of iteration 4; an older one is as it was. File too large" in message
    assert str(path) in message
    assert n_iter == 3
    assert same
    assert os.listdir(path.parent) == [path.name]
    assert load_file(path)["checkpoint.atoms.0"].shape == (12, 6)


def test_an_early_end_is_written_too(views, tmp_path):
    """With some iterations between two checkpoints, the last finished one is kept whatever its number."""
    path = tmp_path / "checkpoint"
    stopped = make(max_iter=9, callback=lambda progress: progress.completed == 5).fit(
        views, checkpoint=path, checkpoint_every=3
    )
    kept = coupledict.load(path)
    assert len(kept.history_) == 5
    np.testing.assert_array_equal(kept.components_[0], stopped.components_[0])
