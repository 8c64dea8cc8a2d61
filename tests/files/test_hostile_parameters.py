"""Parameters in files of strangers: what opens works, and what cannot work does not open."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings

import model_files
import numpy as np
import pytest
from _models import _tile, forge, labels, views

import coupledict
from coupledict import ModelFileError
from coupledict.files.models import read_model
from support.inner import PLACES

#: Wrong for most parameters, each right for some.
VALUES = [
    *(None, True, False, 0, 1, -1, 10**6, 2**62, 0.5, -0.5, 1e-320, 1e308),
    *("", "x", "auto", "none", "samples", "balanced", "\x1b[31m"),
    *([], [1], [1, 1], [True, False], [0.0, 0.0], ["x"], [[1]], {}, {"0": 1}),
]
#: Files whose parameters, or those of learners within them, are changed.
KINDS = [
    *("coupled", "coupled by support", "single", "online", "running sums", "classifier", "representation", "matcher"),
    *("fusion", "super-resolution", "stains", "bandwidth"),
]
PLACES_OF_PARAMETERS = ("parameters", "learner", "fitted_with", "choice", "chosen")
#: Those with which models are fitted again, if they open; larger numbers make a fit long, which is no fault.
FITTED = {repr(value) for value in (None, True, 0.5, 1e-320, 1e308, "auto", [], [1, 1], {"0": 1})}


def lies(metadata):
    """Yield the place, the name and the value of each lie about a parameter."""
    for place in PLACES_OF_PARAMETERS:
        for name in metadata.get(place, {}):
            for value in VALUES:
                yield place, name, value


def fit_again(model):
    """Fit a model as `torture/_models.py` did; return the words of a ValueError, or None."""
    Xs, rng = views(), np.random.default_rng(1)
    given = {
        "DictionaryLearning": (Xs[0],),
        "CoupledClassifier": (Xs, labels()),
        "CrossModalMatcher": (Xs, labels()),
        "SparseRepresentationClassifier": (Xs[0], labels()),
        "MultiFocusFusion": (list(rng.random((2, 24, 24))),),
        "StainSeparator": (_tile(),),
        "SuperResolution": ([rng.random((40, 40)).cumsum(axis=0) % 1],),
        "BandwidthExtension": ([rng.standard_normal(8000).cumsum() % 1 - 0.5],),
    }
    try:
        model.fit(*given.get(type(model).__name__, (Xs,)))
    except ValueError as error:
        return str(error)
    return None


def uses(kind, model):
    """Do all that needs no new samples to learn from; nothing may fail."""
    yield from kind.use(model)
    if isinstance(model, coupledict.matching.CrossModalMatcher):
        yield np.asarray(model.score(views(8), labels()[:8]))
        yield model.index(views(8)[1]).match(views(8)[0])
    if hasattr(model, "predict_proba"):
        given = views(8)[0] if type(model).__name__.startswith("Sparse") else views(8)
        yield np.asarray(model.score(given, labels()[:8]))


def test_all_classes_of_files_are_among_them(kinds):
    assert {type(kinds[name].model).__name__ for name in KINDS} == set(PLACES)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_parameters_of_strangers_are_refused_or_work(kinds, tmp_path, name):
    kind, path = kinds[name], tmp_path / "model"
    tensors, metadata = read_model(kind.path)
    n_refused = n_worked = 0
    for place, parameter, value in lies(metadata):
        forged = copy.deepcopy(metadata)
        forged[place][parameter] = copy.deepcopy(value)
        path.write_bytes(forge(tensors, forged))
        what = f"{place}[{parameter!r}] = {value!r}"
        with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            try:
                model = kind.open(path)
            except ModelFileError as error:
                model_files.check_sentence(error)
                n_refused += 1
                continue
            except Exception as error:
                raise AssertionError(f"{what} was opened by {type(error).__name__}: {error}") from error
            try:
                for result in uses(kind, model):
                    assert np.isfinite(result).all(), what
                assert "\x1b" not in repr(model)
            except Exception as error:
                raise AssertionError(f"{what} was opened, but not used: {type(error).__name__}: {error}") from error
            n_worked += 1
            if repr(value) not in FITTED:
                continue
            try:
                refusal = fit_again(kind.open(path))
            except Exception as error:
                raise AssertionError(f"{what} was not fitted again: {type(error).__name__}: {error}") from error
            # The samples are not those that the stranger had.
            assert refusal is None or refusal.startswith("Expected ") or parameter in refusal, (what, refusal)
    assert n_refused > 2 * n_worked > 0


@pytest.mark.parametrize("n_components", [1, 5, 7, 10**9])
@pytest.mark.parametrize("name", ["coupled", "coupled by support", "single", "online", "running sums"])
def test_the_number_of_atoms_is_that_of_the_dictionaries(kinds, tmp_path, name, n_components):
    tensors, metadata = read_model(kinds[name].path)
    metadata["parameters"]["n_components"] = n_components
    (tmp_path / "model").write_bytes(forge(tensors, metadata))
    with pytest.raises(ModelFileError, match="n_components to be 6, as in the dictionaries, got"):
        coupledict.load(tmp_path / "model")


def test_learning_goes_on_with_the_atoms_there_are_unless_their_number_was_set(kinds, tmp_path):
    tensors, metadata = read_model(kinds["coupled"].path)
    metadata["parameters"]["n_components"] = None
    (tmp_path / "model").write_bytes(forge(tensors, metadata))
    model = coupledict.load(tmp_path / "model").partial_fit(views())
    assert [atoms.shape for atoms in model.components_] == [(6, 4), (6, 5)]


@pytest.mark.parametrize("compare", [False, True, None, 2, -1, 0.5, "views", "labels"])
def test_what_a_matcher_compares_is_checked(kinds, tmp_path, compare):
    tensors, metadata = read_model(kinds["matcher"].path)
    metadata["parameters"]["compare"] = compare
    if compare == "labels":  # of which it has none
        del metadata["classes"], metadata["classes_dtype"]
    (tmp_path / "model").write_bytes(forge(tensors, metadata))
    with pytest.raises(ModelFileError, match="compare"):
        coupledict.load(tmp_path / "model")


@pytest.mark.parametrize("changed", [{"n_components": 7}, {"n_jobs": 5000}, {"positive_dict": True}, {"tol": "x"}])
def test_what_could_not_be_opened_is_not_saved(tmp_path, changed):
    learner = coupledict.CoupledDictionaryLearning(6, n_nonzero_coefs=2, max_iter=2, random_state=0).fit(views())
    learner.save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()
    learner.set_params(**changed)
    with pytest.raises((ValueError, TypeError), match=next(iter(changed))):
        learner.save(tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
