"""Files of learners with predictors of views: what is wrong in them is refused."""

from __future__ import annotations

import copy

import model_files
import numpy as np
import pytest
from _models import forge

import coupledict
from coupledict import ModelFileError
from support.inner import read_model


@pytest.fixture(scope="module")
def model(kinds):
    """The tensors and the metadata of a learner whose predictors have heads of every kind."""
    tensors, metadata = read_model(kinds["coupled"].path)
    assert {"predictor.0.codes", "predictor.0.maps", "predictor.1.kernel"} <= set(tensors)
    return tensors, metadata


def opened(path, tensors, metadata):
    path.write_bytes(forge(tensors, metadata))
    return coupledict.load(path)


def refused(path, tensors, metadata):
    with pytest.raises(ModelFileError) as caught:
        opened(path, tensors, metadata)
    model_files.check_sentence(caught.value)


def test_what_is_right_is_opened(model, tmp_path):
    assert len(opened(tmp_path / "model", *model).prediction_scores_) == 2


def test_arrays_of_other_shapes_and_types(model, tmp_path):
    tensors, metadata = model
    for name, array in tensors.items():
        if name.startswith(("predictor.", "standard.")):
            others = [array[:-1], array[:0], array[..., :-1], array[None], array.ravel()[0]]
            others.append(array.astype(np.float64 if array.dtype == np.float32 else np.float32))
            others += [np.concatenate([array, array[:1]]), array.astype(np.int64)]
            for other in others:
                refused(
                    tmp_path / "model",
                    tensors | {name: np.ascontiguousarray(other) if np.ndim(other) else np.asarray(other)},
                    metadata,
                )


def test_arrays_that_are_missing_or_left_over(model, tmp_path):
    tensors, metadata = model
    for name in tensors:
        if name.startswith(("predictor.", "standard.")):
            refused(tmp_path / "model", {key: own for key, own in tensors.items() if key != name}, metadata)
    refused(tmp_path / "model", tensors | {"predictor.2.bias": np.zeros(4)}, metadata)
    refused(tmp_path / "model", tensors | {"predictor.0.kernel": np.zeros((4, 5))}, metadata)
    refused(tmp_path / "model", tensors, {key: own for key, own in metadata.items() if key != "predictors"})


def test_without_standardization_it_is_another_model(model, tmp_path):
    tensors, metadata = model
    plain = {key: own for key, own in tensors.items() if not key.startswith("standard.")}
    assert all((mean == 0).all() for mean in opened(tmp_path / "model", plain, metadata).mean_)


@pytest.mark.parametrize("factor", [0.0, -0.5, 3.0, 1e300, 5e-324])
def test_factors_that_are_no_powers_of_two_or_out_of_range(model, tmp_path, factor):
    tensors, metadata = model
    refused(tmp_path / "model", tensors | {"standard.factors.0": np.full(4, factor)}, metadata)


def test_anchors_that_are_not_of_norm_1(model, tmp_path):
    tensors, metadata = model
    for name in tensors:
        if name.endswith(("directions", "constants")):
            refused(tmp_path / "model", tensors | {name: tensors[name] + 3}, metadata)


WRONG = {
    "sources": [[], [0, 0], [1], [-1], [2], [0.0], ["0"], [True], 0, None, [[0]]],
    "target": [0, -1, 2, "1", 1.0, True, None, [1]],
    "factors": [[], [1.0, 1.0], [0.0], [-1.0], ["1"], [None], [True], 1.0, None],
    "constant": [-1.0, 1e300, "1", None, True, [1.0]],
    "n_nonzero": [0, -3, 1.5, "2", True, [1]],
    "width": [-1.0, 1e9, "8", None, True],
    "shares": [
        {},
        [],
        None,
        dict.fromkeys(("ridge", "codes", "kernel", "ridge_maps", "mean_maps"), 2.0),
        dict.fromkeys(("ridge", "codes", "kernel", "ridge_maps", "mean_maps"), -0.1),
        {"ridge": 1.0, "codes": 0.0, "kernel": 0.0, "ridge_maps": 0.0, "mean_maps": 0.0},
        {"ridge": 0.0, "codes": 0.5, "kernel": 0.5, "ridge_maps": 0.0, "mean_maps": 0.0},
    ],
    "scores": [
        {},
        None,
        {"n_samples": 40, "prediction": -1.0, "ridge": 1.0, "mean": 1.0},
        {"n_samples": -40, "prediction": 1.0, "ridge": 1.0, "mean": 1.0},
        {"n_samples": 40, "prediction": "1", "ridge": 1.0, "mean": 1.0},
        {"n_samples": 40, "prediction": 1.0, "ridge": 1.0},
    ],
    "map_anchors": [
        {},
        None,
        {"kind": "planes", "radius": 1.0},
        {"kind": ["lines"], "radius": 1.0},
        {"kind": "lines", "radius": -1.0},
        {"kind": "lines", "radius": 1e300},
        {"kind": "lines", "radius": "1"},
        {"kind": "lines"},
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_facts_that_are_wrong_or_missing(model, tmp_path, name):
    tensors, metadata = model
    for value in WRONG[name]:
        wrong = copy.deepcopy(metadata)
        wrong["predictors"][0][name] = value
        refused(tmp_path / "model", tensors, wrong)
    wrong = copy.deepcopy(metadata)
    del wrong["predictors"][0][name]
    refused(tmp_path / "model", tensors, wrong)


@pytest.mark.parametrize("predictors", [None, 3, "abc", {}, {"a": 1}, [1, 2], [None], [[], []], []])
def test_predictors_that_are_none(model, tmp_path, predictors):
    tensors, metadata = model
    refused(tmp_path / "model", tensors, metadata | {"predictors": predictors})
