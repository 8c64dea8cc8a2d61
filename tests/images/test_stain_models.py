"""Separators of stains as estimators and as files: scikit-learn's conventions, saving, progress and stopping."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_no_attributes_set_in_init, check_parameters_default_constructible

import coupledict
from coupledict import ModelFileError, StoppedByCallback
from coupledict.files import read_model, write_model
from coupledict.images import StainSeparator
from support.listening import Listener, check_course
from support.tissue import TILE


@pytest.fixture(scope="module")
def separator():
    return StainSeparator().fit(TILE)


def test_a_separator_among_the_tools_of_scikit_learn(separator):
    check_parameters_default_constructible("StainSeparator", StainSeparator())
    check_no_attributes_set_in_init("StainSeparator", StainSeparator())
    np.testing.assert_array_equal(StainSeparator().fit_transform(TILE), separator.transform(TILE))
    assert not hasattr(clone(separator), "stain_matrix_")
    same = pickle.loads(pickle.dumps(separator))
    np.testing.assert_array_equal(same.transform(TILE), separator.transform(TILE))


def test_using_a_separator_does_not_change_it(separator, tmp_path):
    before = pickle.dumps(copy.deepcopy(vars(separator)))
    separator.inverse_transform(separator.transform(TILE))
    separator.normalize(TILE)
    separator.save(tmp_path / "stains")
    assert pickle.dumps(copy.deepcopy(vars(separator))) == before


def test_a_saved_separator_is_the_same(separator, tmp_path):
    for own in (separator, StainSeparator(white=(1.0, 0.9, 1.0), alpha=0.05).fit(TILE)):
        own.save(tmp_path / "stains")
        for same in (StainSeparator.load(tmp_path / "stains"), coupledict.load(tmp_path / "stains")):
            assert {**same.get_params(), "white": None} == {**own.get_params(), "white": None}
            assert all(np.array_equal(vars(same)[name], vars(own)[name]) for name in vars(own) if name.endswith("_"))
            np.testing.assert_array_equal(same.normalize(TILE), own.normalize(TILE))


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors, metadata: metadata.pop("found"),
        lambda tensors, metadata: metadata.update(found=[1, 0]),
        lambda tensors, metadata: metadata.update(n_iter=-1),
        lambda tensors, metadata: metadata["parameters"].update(n_stains=3),
        lambda tensors, metadata: metadata["parameters"].update(white=200),
        lambda tensors, metadata: tensors.update(stain_matrix=tensors["stain_matrix"] * 2),
        lambda tensors, metadata: tensors.update(stain_matrix=-tensors["stain_matrix"]),
        lambda tensors, metadata: tensors.update(white=np.zeros(3)),
        lambda tensors, metadata: tensors.update(white=np.full(3, 1.5)),
        lambda tensors, metadata: tensors.update(max_density=np.array([1.0, 1e300])),
        lambda tensors, metadata: tensors.pop("max_density"),
    ],
)
def test_files_that_contradict_themselves(separator, tmp_path, damage):
    separator.save(tmp_path / "model")
    tensors, metadata = read_model(tmp_path / "model")
    damage(tensors, metadata)
    write_model(tmp_path / "model", tensors, metadata)
    with pytest.raises(ModelFileError, match=r"Expected '.*model' to hold a complete model, but"):
        StainSeparator.load(tmp_path / "model")


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_progress_is_told_and_a_stop_is_obeyed(separator, n_jobs):
    listener = Listener()
    own = StainSeparator(tile_size=1000, n_jobs=n_jobs, callback=listener).fit(TILE)
    assert [stage for stage, _, _ in listener.reports] == ["learning"] * own.n_iter_
    listener.reports.clear()
    densities = own.transform(TILE)
    check_course(listener.reports, ["separating"])
    listener.reports.clear()
    own.inverse_transform(densities)
    check_course(listener.reports, ["drawing"])
    listener.reports.clear()
    own.normalize(TILE, source=separator)
    check_course(listener.reports, ["normalizing"])
    before = dict(vars(own))
    own.set_params(callback=Listener(stop_at=2))
    with pytest.raises(StoppedByCallback):
        own.fit(255 - TILE // 2)
    assert {**vars(own), "callback": None} == {**before, "callback": None}
    own.set_params(callback=Listener(stop_at=2))
    with pytest.raises(StoppedByCallback):
        own.transform(TILE)
