"""What classifiers and matchers promise alike: progress, stopping, views by name, files; use changes nothing."""

from __future__ import annotations

import _thread
import signal

import joblib
import numpy as np
import pytest

from coupledict import ModelFileError, Progress, StoppedByCallback
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.foundation.block_sizes import SIZES
from coupledict.matching import CrossModalMatcher
from coupledict.views import Views

SMALL = {"n_components": 8, "n_nonzero_coefs": 2, "max_iter": 3, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    return [2 * rng.standard_normal((3, width))[y] + rng.standard_normal((90, width)) for width in (6, 4)], y


def classifier(**parameters):
    return CoupledClassifier(**SMALL, n_dictionaries=2, **parameters)


def representation(**parameters):
    return SparseRepresentationClassifier(**SMALL, **parameters)


def matcher(**parameters):
    return CrossModalMatcher(**SMALL, n_dictionaries=2, **parameters)


#: How each is made and fitted, and the stages that its callback is reports of, with the units of work of each.
FITS = {
    "classifier": (classifier, lambda m, Xs, y: m.fit(Xs, y), {"learning": 2 * 3, "fitting heads": 3}),
    "label dictionary": (
        lambda **parameters: classifier(head="dictionary", **parameters),
        lambda m, Xs, y: m.fit(Xs[0], y),
        {"learning": 2 * 3, "fitting heads": 1},
    ),
    "samples": (representation, lambda m, Xs, y: m.fit(Xs[0], y), {"choosing": 6, "learning": 3}),
    "learned": (
        lambda **parameters: representation(atoms="learned", **parameters),
        lambda m, Xs, y: m.fit(Xs[0], y),
        {"choosing": 6, "learning": 3 * 3},
    ),
    "matcher": (matcher, lambda m, Xs, y: m.fit(Xs, y), {"learning": 2 * 3, "mapping": 2 * 2}),
    "semi-coupled": (
        lambda **parameters: matcher(semi_coupled=True, **parameters),
        lambda m, Xs, y: m.fit(Xs),
        {"learning": 2 * 2 * 3, "mapping": 2 * 2},
    ),
}


def snapshot(model):
    """Return a hash of everything that a model holds, its callback aside."""
    return joblib.hash({name: value for name, value in vars(model).items() if name != "callback"})


# Progress and stopping


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("name", FITS)
def test_a_callback_hears_of_all_work_in_order(data, name, n_jobs):
    make, fit, stages = FITS[name]
    reports = []
    plain, watched = fit(make(), *data), fit(make(n_jobs=n_jobs, callback=reports.append), *data)
    assert all(type(progress) is Progress for progress in reports)
    expected = [(stage, done, total) for stage, total in stages.items() for done in range(1, total + 1)]
    assert [(progress.stage, progress.completed, progress.total) for progress in reports] == expected
    ignored = {"callback", "n_jobs"}
    one, other = ({k: v for k, v in vars(model).items() if k not in ignored} for model in (plain, watched))
    for shown in (one, other):  # the time that iterations took
        for learner in shown.get("learners_", []):
            for record in learner.history_:
                record.pop("seconds")
    assert joblib.hash(one) == joblib.hash(other), "being watched changes no result"


@pytest.fixture
def interrupts():
    """Let SIGINT raise KeyboardInterrupt, wherever the tests run."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize(
    ("name", "error", "fitted"),
    [
        (name, error, (row + column) % 2 == 0)  # each pair of two of the three
        for row, name in enumerate(FITS)
        for column, error in enumerate((StoppedByCallback, RuntimeError, KeyboardInterrupt))
    ],
)
def test_a_fit_that_is_stopped_leaves_everything_as_it_was(data, name, error, fitted):
    make, fit, stages = FITS[name]
    model, (Xs, y) = make(), data
    if fitted:
        fit(model, [X[:60] for X in Xs], y[:60])
    for number in {1, next(iter(stages.values())), sum(stages.values())}:
        reports = []

        def stop(progress, reports=reports, number=number):
            reports.append(progress)
            if len(reports) == number and error is RuntimeError:
                raise RuntimeError("The callback failed.")
            if len(reports) == number and error is KeyboardInterrupt:
                _thread.interrupt_main()  # fits may run in other threads
            return len(reports) == number and error is StoppedByCallback

        before = snapshot(model)
        with pytest.raises(error):
            fit(model.set_params(callback=stop), Xs, y)
        assert len(reports) == number or error is not StoppedByCallback, "nobody is asked twice"
        assert snapshot(model) == before
    if not fitted:
        with pytest.raises(Exception, match="not fitted"):
            model.save("nowhere")


def test_matching_tells_how_far_it_is(data):
    (A, B), _ = data
    model, reports = matcher().fit([A, B]), []
    model.set_params(callback=lambda progress: reports.append((progress.stage, progress.completed, progress.total)))
    with SIZES.changed(gallery_rows=40):
        model.similarity(A, B)
        model.match(A, B)
        model.score([A, B])
    by_stage = {"comparing": [40, 80, 90], "matching": [40, 80, 90], "ranking": [1, 2]}
    assert reports == [(stage, done, counts[-1]) for stage, counts in by_stage.items() for done in counts]
    before = snapshot(model)
    model.set_params(callback=lambda progress: True)
    for use in (model.similarity, model.match, lambda A, B: model.score([A, B])):
        with pytest.raises(StoppedByCallback):
            use(A, B)
    assert snapshot(model) == before


@pytest.mark.parametrize("name", FITS)
def test_verbose_prints_lines(data, name, capsys):
    make, fit, stages = FITS[name]
    fit(make(verbose=1), *data)
    printed = capsys.readouterr().out
    for stage, total in stages.items():
        assert f"{type(make()).__name__}, {stage}: {total}/{total}" in printed


@pytest.mark.parametrize("make", [classifier, representation, matcher])
def test_callbacks_are_checked(data, make):
    with pytest.raises(TypeError, match="callback to be None or a callable"):
        make(callback=3).fit(data[0] if make is not representation else data[0][0], data[1])


# Use changes nothing


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_predicting_leaves_a_model_as_it_was(data, n_jobs):
    Xs, y = data
    uses = [
        (classifier().fit(Xs, y), [Xs, [None, Xs[1]]], ["predict", "predict_proba", "decision_function", "encode"]),
        (representation(atoms="learned").fit(Xs[0], y), [Xs[0]], ["predict", "decision_function"]),
        (matcher().fit(Xs, y), [Xs], ["score"]),
    ]
    for model, given, methods in uses:
        before = snapshot(model.set_params(n_jobs=n_jobs))
        for X in given:
            for method in methods:
                getattr(model, method)(X)
                assert snapshot(model) == before, method
    model.predict([Xs[0], None], view=1)
    model.similarity(*Xs)
    model.match(*Xs, n_matches=3)
    assert snapshot(model) == before


# Views by name


def test_a_classifier_of_views_by_name(data, tmp_path):
    (A, B), y = data
    by_name = classifier().fit({"upper": A, "lower": B}, y)
    listed = classifier().fit([A, B], y)
    assert by_name.view_names_in_ == ("upper", "lower")
    assert not hasattr(listed, "view_names_in_")
    by_name.save(tmp_path / "model")
    for model in (by_name, CoupledClassifier.load(tmp_path / "model")):
        for given, same in (
            ({"lower": B, "upper": A}, [A, B]),
            ({"lower": B}, [None, B]),
            (Views({"upper": A}), [A, None]),
            ([A, None], [A, None]),
        ):
            np.testing.assert_array_equal(model.decision_function(given), listed.decision_function(same))
            np.testing.assert_array_equal(model.encode(given, learner=1).toarray(), listed.encode(same, 1).toarray())
        with pytest.raises(ValueError, match=r"views named \['upper', 'lower'\] in X, got one named 'left'"):
            model.predict({"left": A})
    with pytest.raises(ValueError, match="had no names before"):
        listed.predict({"upper": A})
    assert "first dictionary, upper" in by_name._repr_html_()
    assert not hasattr(by_name.fit([A, B], y), "view_names_in_"), "a second fit forgets the names"


def test_one_array_for_a_classifier_of_samples(data):
    (A, B), y = data
    for views in ([A, B], {"a": A}, Views([A, B])):
        with pytest.raises(ValueError, match="Use CoupledClassifier for those"):
            representation().fit(views, y)


def test_a_matcher_of_views_by_name(data, tmp_path):
    (A, B), y = data
    by_name, listed = matcher().fit({"text": A, "picture": B}, y), matcher().fit([A, B], y)
    by_name.save(tmp_path / "model")
    for model in (by_name, CrossModalMatcher.load(tmp_path / "model")):
        assert model.view_names_in_ == ("text", "picture")
        np.testing.assert_array_equal(model.components_[1]["picture"], listed.components_[1][1])
        table = model.similarity(B, A, source="picture", target="text")
        np.testing.assert_array_equal(table, listed.similarity(B, A, source=1, target=0))
        found = model.match({"picture": B}, A, source=["picture"], target="text", n_matches=4)
        np.testing.assert_array_equal(found, listed.match(B, A, source=1, target=0, n_matches=4))
        predicted = listed.predict([A, None], view=1)
        for given in ({"text": A}, {"picture": None, "text": A}, {"picture": B, "text": A}, [A, None]):
            np.testing.assert_array_equal(model.predict(given, view="picture"), predicted)
        assert model.score({"picture": B, "text": A}, y) == listed.score([A, B], y)
        with pytest.raises(ValueError, match=r"source to be the name of a view, one of \['text', 'picture'\]"):
            model.match(A, B, source="sound", target="picture")
    for call in (lambda: listed.match(A, B, source="text"), lambda: listed.predict({"text": A}, view=1)):
        with pytest.raises(ValueError, match=r"no names|without names"):
            call()
    assert not hasattr(by_name.fit([A, B]), "view_names_in_")


def test_labels_by_name(data):
    (A, B), y = data
    views, labels = {"text": A[:60], "picture": B}, {"picture": y, "text": y[:60]}
    model = matcher(semi_coupled=True).fit(views, labels)
    same = matcher(semi_coupled=True).fit([A[:60], B], [y[:60], y])
    np.testing.assert_array_equal(model.similarity(A, B), same.similarity(A, B))
    assert model.score(views, labels) == same.score([A[:60], B], [y[:60], y])
    with pytest.raises(ValueError, match="labels for each of the views"):
        matcher(semi_coupled=True).fit(views, {"text": y[:60]})
    with pytest.raises(ValueError, match="had no names"):
        matcher(semi_coupled=True).fit([A, B], labels)


@pytest.mark.parametrize(
    ("given", "view", "error", "message"),
    [
        (lambda A, B: [A], 1, ValueError, r"Expected 2 views in X \(None for an absent one\), got 1"),
        (lambda A, B: A, 1, TypeError, "X to be a list of arrays"),
        (lambda A, B: [None, B], 1, ValueError, r"other than the wanted one \(1\)"),
        (lambda A, B: [B, None], 1, ValueError, r"X\[0\] to have the 6 features of view 0, got 4"),
        (lambda A, B: [A, None], 2, ValueError, "one of the 2 views, got 2"),
        (lambda A, B: [np.full_like(A, np.nan), None], 1, ValueError, r"X\[0\] to be finite"),
    ],
)
def test_errors_of_predicting_a_view(data, given, view, error, message):
    model = matcher().fit(data[0])
    with pytest.raises(error, match=message):
        model.predict(given(*data[0]), view=view)


@pytest.mark.parametrize("name", ["classifier", "samples", "matcher"])
def test_load_of_a_class_opens_its_own_kind_only(data, name, tmp_path):
    make, fit, _ = FITS[name]
    model = fit(make(), *data)
    model.save(tmp_path / "model")
    for cls in (CoupledClassifier, SparseRepresentationClassifier, CrossModalMatcher):
        if cls is type(model):
            assert type(cls.load(tmp_path / "model")) is cls
        else:
            with pytest.raises(ModelFileError, match=f"to hold a {cls.__name__}, got a {type(model).__name__}"):
                cls.load(tmp_path / "model")
