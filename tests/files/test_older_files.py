"""Learners in files of format 1, which had other names for some parameters: they open and give what they gave.

The files were written by the code before the names were settled, and the numbers beside them computed by it. Tasks have
such files as well; see tests/classification/test_recognition_contracts.py and tests/images/test_fusion.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import coupledict
from coupledict.files import read_model
from coupledict.files.models import FORMAT_VERSION, read_versioned
from coupledict.files.older import renamed_parameters

FOLDER = Path(__file__).parents[1] / "data" / "models-1"
KINDS = ["batches", "checkpoint", "online", "single", "support"]


def samples():
    """The samples of which the numbers tell."""
    rng = np.random.default_rng(0)
    sources = rng.standard_normal((8, 6)) * (rng.random((8, 6)) < 0.4)
    return [sources @ rng.standard_normal((6, width)) for width in (4, 5)]


@pytest.mark.parametrize("kind", KINDS)
def test_learners_give_what_they_gave(kind, tmp_path):
    Xs, expected = samples(), json.loads((FOLDER / f"{kind}.json").read_text())
    path = FOLDER / f"{kind}.safetensors"
    assert read_versioned(path)[2] == "1"
    learner = coupledict.load(path)
    learner.save(tmp_path / "model")
    assert read_versioned(tmp_path / "model")[2] == FORMAT_VERSION == "2"
    for model in (learner, coupledict.load(tmp_path / "model"), type(learner).load(path)):
        given = Xs[0] if kind == "single" else Xs
        codes = model.transform(given)
        for mine, theirs in zip(codes if isinstance(codes, list) else [codes], expected["codes"], strict=True):
            np.testing.assert_allclose(mine.toarray(), theirs, rtol=1e-5, atol=1e-9)
        assert model.score(given) == pytest.approx(expected["score"], rel=1e-5)
        assert model.n_iter_ == expected["n_iter"]
        if "predicted" in expected:
            np.testing.assert_allclose(model.predict([Xs[0], None], view=1), expected["predicted"], atol=1e-9)
        if "after" in expected:
            after = model.partial_fit(given).components_
            np.testing.assert_allclose(after if kind == "single" else after[0], expected["after"], atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_have_their_new_names(kind):
    expected = json.loads((FOLDER / f"{kind}.json").read_text())["parameters"]
    parameters = coupledict.load(FOLDER / f"{kind}.safetensors").get_params()
    if "refit" in expected:
        assert parameters["predictor"] == ("ridge" if expected.pop("refit") else "dictionary")
        assert parameters["ridge_alpha"] == expected.pop("refit_alpha")
    if kind == "online":
        expected["max_iter"] = 30  # it counted batches
    assert {name: parameters[name] for name in expected} == expected


def test_a_checkpoint_is_taken_up(tmp_path):
    """With the parameters of then, by their names of now. Iterations were a little different then."""
    rng = np.random.default_rng(0)
    sources = rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.4)
    Xs = [sources @ rng.standard_normal((6, width)) for width in (4, 5)]
    parameters = {"n_components": 6, "n_nonzero_coefs": 2, "max_iter": 3, "random_state": 0, "normalize": "views"}
    learner = coupledict.CoupledDictionaryLearning(**parameters)
    resumed = learner.fit(Xs, resume=FOLDER / "checkpoint.safetensors")
    expected = coupledict.CoupledDictionaryLearning(**parameters).fit(Xs)
    saved = read_model(FOLDER / "checkpoint.safetensors")[1]
    assert resumed.n_iter_ == 3
    assert resumed.history_[: len(saved["history"])] == saved["history"]
    again = coupledict.CoupledDictionaryLearning(**parameters).fit(Xs, resume=FOLDER / "checkpoint.safetensors")
    for mine, theirs in zip(resumed.components_, again.components_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert resumed.score(Xs) == pytest.approx(expected.score(Xs), abs=0.03)
    for mine, theirs in zip(resumed.components_, expected.components_, strict=True):
        assert np.sum(mine * theirs, axis=1).min() > 0.9  # of the same random start


def test_new_files_keep_their_names():
    told = {"alpha": 1.0, "refit": True, "max_iter": 3}
    assert renamed_parameters("OnlineDictionaryLearning", told, "2") is told
    assert "estimator" in read_model(FOLDER / "single.safetensors")[1]
