"""How a fit goes: unused atoms, its end, its history, and the same bits however it is computed."""

from __future__ import annotations

import numpy as np
import pytest

from coupledict import PAPER, InterruptedFitWarning, sparse_encode
from coupledict.learning import loop as looping
from coupledict.learning.loop import Loop
from support.learners import (
    UPDATES,
    WEIGHTS,
    WIDTHS,
    assert_same_model,
    energies,
    joint_norms,
    make,
    norms,
    plain,
    planted_views,
    shrunk,
)


@pytest.fixture
def Xs(rng):
    return planted_views(rng)[0]


# Unused atoms


def with_idle_atoms(rng, n_idle=2):
    """Samples that leave the last feature of every view alone, and a start with atoms that have nothing else."""
    Xs = [np.hstack([X, np.zeros((len(X), 1))]) for X in planted_views(rng, noise=0.3)[0]]
    start = [rng.standard_normal((8, X.shape[1])) for X in Xs]
    for D in start:
        D[:, -1] = 0
        D[3 : 3 + n_idle] = np.eye(D.shape[1])[-1]
    return Xs, start


def follow(learner, Xs):
    """Return the dictionaries after each iteration."""
    seen = []
    learner.set_params(callback=lambda state: seen.append(state.components)).fit(Xs)
    return seen


@pytest.mark.parametrize("update", UPDATES)
def test_keep_leaves_unused_atoms(rng, update):
    Xs, start = with_idle_atoms(rng)
    for normalize, size in (("joint", np.sqrt(0.5)), ("views", 1)):
        learner = make(8, init=start, unused_atoms="keep", update=update, growth=None, normalize=normalize).fit(Xs)
        for D in learner.components_:
            np.testing.assert_allclose(D[3:5], size * np.eye(D.shape[1])[[-1, -1]], rtol=1e-15)
        assert [record["unused"] for record in learner.history_] == [2] * 4


@pytest.mark.parametrize("normalize", ["views", "joint"])
@pytest.mark.parametrize("update", UPDATES)
def test_worst_puts_the_worst_represented_samples_in_their_place(rng, update, normalize):
    Xs, start = with_idle_atoms(rng)
    units = [D / (norms(D) if normalize == "views" else joint_norms(start))[:, None] for D in start]
    codes = sparse_encode(Xs, units, n_nonzero_coefs=2)
    left = sum(np.sum((X - codes @ D) ** 2, axis=1) for X, D in zip(Xs, units, strict=True))
    worst = np.argsort(-left)[:2]
    settings = {"init": start, "unused_atoms": "worst", "update": update, "normalize": normalize}
    learner = make(8, growth=None, schedule="constant", max_iter=3, **settings)
    after = follow(learner, Xs)
    for D, X in zip(after[0], Xs, strict=True):
        sizes = norms(X[worst]) if normalize == "views" else joint_norms([Y[worst] for Y in Xs])
        np.testing.assert_allclose(D[3:5], X[worst] / sizes[:, None], atol=1e-12)
    assert learner.history_[0]["unused"] == 2


def test_a_sample_that_one_view_does_not_have_is_no_atom(rng):
    Xs, start = with_idle_atoms(rng)
    Xs[0][:5] *= 50
    Xs[1][:5] = 0
    (first, second), *_ = follow(make(8, init=start, unused_atoms="worst", growth=None, normalize="views"), Xs)
    np.testing.assert_allclose(norms(first), 1)
    np.testing.assert_allclose(norms(second), 1)
    both, *_ = follow(make(8, init=start, unused_atoms="worst", growth=None), Xs)
    np.testing.assert_allclose(joint_norms(both), 1)
    assert min(norms(D)[3:5].min() for D in both) > 0.1


def test_worst_finds_the_samples_of_a_shuffled_pass(rng):
    Xs, start = with_idle_atoms(rng)
    after = follow(make(8, init=start, unused_atoms="worst", growth=lambda k, n_iter, n: 100), Xs)
    units = [X / norms(X)[:, None] for X in Xs]
    rows = [[int(np.argmax(U @ d)) for d in D[3:5]] for U, D in zip(units, after[0], strict=True)]
    assert rows[0] == rows[1]
    for D, X in zip(after[0], Xs, strict=True):
        np.testing.assert_allclose(D[3:5], (X / joint_norms(Xs)[:, None])[rows[0]], atol=1e-12)


def test_late_waits_for_the_second_half_and_spares_the_last_iteration(rng):
    Xs, start = with_idle_atoms(rng, n_idle=1)
    after = follow(make(8, init=start, unused_atoms="late", growth=None, max_iter=6), Xs)
    idle = [bool(np.isclose(Ds[0][3, -1], np.sqrt(0.5), rtol=1e-15)) for Ds in after]  # of joint norm 1
    assert idle == [True, True, True, False, False, False]
    for rule in ("late", "worst"):
        learner = make(8, init=start, unused_atoms=rule, growth=None, max_iter=1).fit(Xs)
        assert learner.components_[0][3, -1] == pytest.approx(np.sqrt(0.5), rel=1e-15), (
            "an atom that no code was ever made with does not leave the fit"
        )


def test_the_rule_of_the_letter_makes_unused_atoms_equal(rng):
    """Patches that are nearly constant use only the constant atom; all others become the mean residual."""
    Xs = [5 + rng.standard_normal((50, 4)) * [0.1, 0.2, 0.3, 0.4] for _ in range(2)]
    learner = plain(9, n_nonzero_coefs=2, max_iter=2, **PAPER)
    after = follow(learner, Xs)
    assert learner.history_[0]["unused"] == 8
    # Eq. 14 and 15 for the one atom in use, by hand.
    code = sum(X.sum(axis=1) / 2 for X in Xs) / 2
    atoms = [code @ X / np.linalg.norm(code @ X) for X in Xs]
    code = sum(X @ d for X, d in zip(Xs, atoms, strict=True)) / 2
    for X, d, D in zip(Xs, atoms, after[0], strict=True):
        np.testing.assert_allclose(D[0], d)
        mean = (X - np.outer(code, d)).mean(axis=0)
        for atom in D[1:]:
            np.testing.assert_allclose(atom, mean / np.linalg.norm(mean), rtol=1e-8)


@pytest.mark.parametrize("update", ["sequential", "ksvd"])
def test_a_mean_residual_of_zero_is_no_atom(Xs, update):
    learner = make(update=update, unused_atoms="mean", predictor="dictionary").fit([np.zeros_like(X) for X in Xs])
    np.testing.assert_allclose(joint_norms(learner.components_), 1)
    assert min(norms(D).min() for D in learner.components_) > 0


# When learning ends


def test_stop_tol_stops_when_the_objective_settles(Xs):
    learner = make(max_iter=50, stop_tol=0.03, growth=None, schedule="constant").fit(Xs)
    objectives = np.array([record["objective"] for record in learner.history_])
    falls = 1 - objectives[1:] / objectives[:-1]
    assert 2 < learner.n_iter_ < 50
    assert falls[-1] <= 0.03 < falls[:-1].min()
    assert make(max_iter=50, growth=None, schedule="constant").fit(Xs).n_iter_ == 50


def test_stop_tol_waits_for_the_full_limit(Xs):
    learner = make(n_nonzero_coefs=3, max_iter=6, stop_tol=0.99, growth=None, schedule=[1, 1, 2, 2, 3, 3]).fit(Xs)
    assert learner.n_iter_ == 6


def test_stop_tol_is_not_ignored_with_the_default_growth(Xs):
    assert make(max_iter=30, stop_tol=0.9, schedule="constant").fit(Xs).n_iter_ < 30


def test_stop_tol_does_not_take_other_samples_for_a_settled_objective(rng):
    """Passes over growing samples see other samples each time; their errors differ by more than a small stop_tol."""
    Xs = [rng.standard_normal((4000, 16))]
    whole, stopped = (make(64, n_nonzero_coefs=3, max_iter=30, stop_tol=tol).fit(Xs).score(Xs) for tol in (0, 1e-4))
    assert 1 - stopped < 1.03 * (1 - whole)


@pytest.mark.parametrize("coupling", ["code", "support"])
def test_warm_start_goes_on(Xs, coupling):
    learner = make(max_iter=2, coupling=coupling, growth=None, schedule="constant", warm_start=True).fit(Xs)
    middle = energies(Xs, learner.components_, learner.transform(Xs)).sum()
    learner.fit(Xs)
    assert learner.history_[0]["objective"] == pytest.approx(middle, rel=1e-10)
    assert energies(Xs, learner.components_, learner.transform(Xs)).sum() < middle
    assert learner.n_iter_ == 2, "the history is that of the last fit"


def test_warm_start_needs_the_same_shapes(Xs):
    learner = make(warm_start=True).fit(Xs)
    with pytest.raises(ValueError, match=r"12 atoms to go on from the dictionaries that were learned, got .* and 13"):
        learner.set_params(n_components=13).fit(Xs)


def test_without_warm_start_fit_forgets(Xs):
    learner = make().fit([2 * X[::-1] + 1 for X in Xs])
    assert_same_model(learner.fit(Xs), make().fit(Xs))


@pytest.mark.parametrize("n_views", [1, 2])
def test_callback_sees_the_state_and_may_stop(Xs, n_views):
    seen = []

    def callback(state):
        seen.append(state)
        return state.completed == 3

    learner = make(max_iter=9, callback=callback).fit(Xs[:n_views])
    assert [(state.completed, state.total, len(state.history)) for state in seen] == [(1, 9, 1), (2, 9, 2), (3, 9, 3)]
    assert learner.n_iter_ == 3
    assert learner.history_ == seen[-1].history
    for D, E, F in zip(learner.components_, seen[-1].components, seen[0].components, strict=True):
        np.testing.assert_array_equal(D, E)
        assert np.abs(D - F).max() > 1e-3, "what a callback keeps does not change any more"


@pytest.mark.parametrize("n_views", [1, 2])
def test_callback_cannot_spoil_the_atoms(Xs, n_views):
    def callback(state):
        for D in state.components:
            D[:] = 0

    assert_same_model(make(callback=callback).fit(Xs[:n_views]), make().fit(Xs[:n_views]))


def test_verbose_tells_each_iteration(Xs, capsys):
    make(verbose=1, predictor="dictionary").fit(Xs)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"CoupledDictionaryLearning {k}/4" for k in (1, 2, 3, 4)]
    make().fit(Xs)
    assert capsys.readouterr().out == ""


def fit_or_fail(learner, Xs):
    """Fit; an interrupt that goes on fails the test and not the whole run."""
    try:
        learner.fit(Xs)
    except KeyboardInterrupt:
        pytest.fail("the interrupt went on")


def fit_interrupted(learner, Xs, words):
    with pytest.warns(InterruptedFitWarning, match=words) as caught:
        fit_or_fail(learner, Xs)
    assert caught[0].filename == __file__, "the warning points at the call of fit"


def test_an_interrupt_leaves_the_finished_iterations(Xs):
    def interrupt(state):
        if state.completed == 3:
            raise KeyboardInterrupt

    learner = make(max_iter=9, callback=interrupt, schedule="constant", growth=None)
    fit_interrupted(learner, Xs, "The fit was interrupted; the model is that of iteration 3 of 9")
    assert_same_model(learner, make(max_iter=3, schedule="constant", growth=None).fit(Xs))
    assert learner.predict([Xs[0], None], view=1).shape == (300, 9)
    assert learner.n_features_in_ == [6, 9]


@pytest.mark.parametrize("update", ["statistics", "sequential"])
def test_an_interrupt_within_an_iteration_takes_it_back(Xs, monkeypatch, update):
    iterate, calls = Loop._iterate, []

    def interrupted(self, *arguments):
        outcome = iterate(self, *arguments)
        calls.append(1)
        if len(calls) == 3:  # the atoms have changed already
            raise KeyboardInterrupt
        return outcome

    parameters = {"update": update, "schedule": "constant", "growth": None}
    expected = make(max_iter=2, **parameters).fit(Xs)
    monkeypatch.setattr(Loop, "_iterate", interrupted)
    learner = make(max_iter=9, **parameters)
    fit_interrupted(learner, Xs, "iteration 2 of 9")
    assert_same_model(learner, expected)


def test_an_interrupt_of_the_refit_leaves_the_dictionaries(Xs):
    chunks, learned = [[X[rows] for X in Xs] for rows in (slice(150), slice(150, None))], []

    def read():
        if learned:
            raise KeyboardInterrupt
        yield from chunks

    learner = make(callback=lambda state: learned.append(state.completed) if state.completed == 4 else None)
    fit_interrupted(learner, read, "interrupted after its last iteration")
    assert_same_model(learner, make().fit(chunks))
    expected = learner.transform([Xs[0], None]).toarray() @ shrunk(learner.components_, [0], 1)
    np.testing.assert_allclose(learner.predict([Xs[0], None], view=1), expected, atol=1e-12)
    assert learner.partial_fit(Xs).n_iter_ == 5


def test_an_interrupt_of_the_first_iteration_is_an_interrupt(Xs):
    passes, reads = [], []  # how many passes there were before each iteration ended

    def read():
        reads.append(None)
        if passes and len(reads) == passes[0]:
            raise KeyboardInterrupt
        yield Xs

    make(callback=lambda state: passes.append(len(reads))).fit(read)
    assert passes == list(range(passes[0], passes[0] + 4)), "an iteration is a pass"
    reads.clear()
    learner = make()
    with pytest.raises(KeyboardInterrupt):
        learner.fit(read)
    assert not hasattr(learner, "components_")


# History


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("tol", [None, 0.3])
def test_history_is_what_the_codes_say(rng, update, n_views, tol):
    """Every figure again, from codes made anew with the dictionaries that the callback saw."""
    Xs, start = planted_views(rng, noise=0.3, widths=WIDTHS[:n_views])
    start = [D + 0.3 * rng.standard_normal(D.shape) for D in start]
    start = [D / norms(D)[:, None] for D in start]
    weights = np.array(WEIGHTS[:n_views])
    learner = make(n_nonzero_coefs=4, tol=tol, init=start, update=update, view_weights=weights, growth=None)
    before = [start, *follow(learner.set_params(schedule="linear"), Xs)[:-1]]
    for record, Ds in zip(learner.history_, before, strict=True):
        codes = sparse_encode(Xs, Ds, n_nonzero_coefs=record["limit"], tol=tol, view_weights=weights)
        left = energies(Xs, Ds, codes)
        assert record["objective"] == pytest.approx(weights @ left, rel=1e-10)
        assert record["error"] == pytest.approx(np.sqrt(weights @ left) / 300, rel=1e-10)
        assert record["rms"] == pytest.approx(np.sqrt(weights @ left / 300), rel=1e-10)
        assert record["view_errors"] == pytest.approx(np.sqrt(left) / 300, rel=1e-8)
        assert record["mean_nonzeros"] == codes.nnz / 300
        assert record["unused"] == np.count_nonzero(np.count_nonzero(codes.toarray(), axis=0) == 0)
        assert record["n_samples"] == 300
    assert learner.history_[0].keys() == {
        "seconds", "limit", "n_samples", "mean_nonzeros", "objective", "error", "rms", "view_errors", "unused",
    }  # fmt: skip


@pytest.mark.parametrize("update", UPDATES)
def test_an_atom_that_one_sample_uses_is_used(update):
    X = np.eye(4)[[1] + [0] * 1500]
    learner = make(4, n_nonzero_coefs=1, max_iter=1, init=[np.eye(4)], update=update, growth=None).fit([X])
    assert learner.history_[0]["unused"] == 2


def test_seconds_rise_and_leave_callbacks_out(Xs, monkeypatch):
    class Clock:
        now = 0.0

        def perf_counter(self):
            self.now += 1e-3
            return self.now

        def sleep(self, state):
            self.now += 1000

    clock = Clock()
    monkeypatch.setattr(looping, "time", clock)
    learner = make(callback=clock.sleep).fit(Xs)
    seconds = [record["seconds"] for record in learner.history_]
    assert 0 < seconds[0] < seconds[1] < seconds[2] < seconds[3] < 1000 < clock.now


# The same result, however it is computed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("coupling", ["code", "support"])
def test_threads_do_not_change_a_bit(rng, update, coupling, dtype):
    Xs = [X.astype(dtype) for X in planted_views(rng, n=1600)[0]]
    models = [make(max_iter=3, update=update, coupling=coupling, n_jobs=n, unused_atoms="worst") for n in (1, 2, 3)]
    for model in models:
        model.fit(Xs)
    for model in models[1:]:
        assert_same_model(models[0], model)
        if coupling == "code":
            np.testing.assert_array_equal(*(m.predict([Xs[0], None], view=1) for m in (models[0], model)))


@pytest.mark.parametrize("update", UPDATES)
def test_seeds(Xs, update):
    one, same, other = (make(update=update, random_state=seed).fit(Xs) for seed in (5, 5, 6))
    assert_same_model(one, same)
    assert np.abs(one.components_[0] - other.components_[0]).max() > 1e-3


def test_forms_of_random_state(Xs):
    for kind in (np.random.default_rng, np.random.RandomState):
        assert_same_model(*(make(random_state=kind(1)).fit(Xs) for _ in range(2)))
    shared = np.random.default_rng(1)
    one, other = (make(random_state=shared).fit(Xs) for _ in range(2))
    assert np.abs(one.components_[0] - other.components_[0]).max() > 1e-3, "a generator goes on"
    one, other = (make(random_state=None).fit(Xs) for _ in range(2))
    assert np.abs(one.components_[0] - other.components_[0]).max() > 1e-3


def read_only(X, tmp_path):
    X.flags.writeable = False
    return X


def mapped(X, tmp_path):
    path = tmp_path / f"{X.shape[1]}.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


LAYOUTS = {
    "read-only": read_only,
    "Fortran": lambda X, _: np.asfortranarray(X),
    "mapped": mapped,
    "every other row": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X, _: X[:, ::-1].copy()[:, ::-1],
    "lists": lambda X, _: X.tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("update", UPDATES)
def test_layouts_of_memory(Xs, tmp_path, layout, update):
    expected = make(update=update).fit(Xs)
    given = [LAYOUTS[layout](X.copy(), tmp_path) for X in Xs]
    learner = make(update=update).fit(given)
    for D, E in zip(learner.components_, expected.components_, strict=True):
        np.testing.assert_array_equal(D, E)
    np.testing.assert_array_equal(learner.transform(given).toarray(), expected.transform(Xs).toarray())


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("coupling", ["code", "support"])
def test_inputs_are_never_changed(Xs, update, coupling):
    before = [X.copy() for X in Xs]
    learner = make(update=update, coupling=coupling, unused_atoms="worst").fit(Xs)
    learner.transform(Xs)
    learner.score(Xs)
    learner.partial_fit(Xs)
    for X, same in zip(Xs, before, strict=True):
        np.testing.assert_array_equal(X, same)


def test_partial_fit_goes_on_after_fit(Xs):
    learner = make().fit(Xs)
    before, kept = learner.score(Xs), learner.components_
    copies = [D.copy() for D in kept]
    learner.partial_fit(Xs)
    assert learner.score(Xs) > before
    assert learner.n_iter_ == 5
    for D, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(D, copy)
