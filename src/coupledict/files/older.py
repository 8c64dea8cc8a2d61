"""Parameters of model files of format 1: their old names and their present ones."""

from __future__ import annotations

from typing import Any

#: For each estimator, the old names of parameters and the new ones.
RENAMED = {
    "CoupledDictionaryLearning": {"refit_alpha": "ridge_alpha"},
    "OnlineDictionaryLearning": {"refit_alpha": "ridge_alpha"},
    "CoupledClassifier": {"alpha": "ridge_alpha"},
    "SparseRepresentationClassifier": {"dictionary": "atoms"},
    "CrossModalMatcher": {"alpha": "ridge_alpha", "whiten_alpha": "whiten_shrinkage"},
    "SuperResolution": {"alpha": "ridge_alpha", "n_samples": "max_samples"},
    "BandwidthExtension": {"n_samples": "max_samples"},
}

#: For each estimator, parameters added since or with another default, with the value that means the former behaviour.
ADDED: dict[str, dict[str, Any]] = {
    "CoupledDictionaryLearning": {"alpha": None, "normalize": "views"},
    "DictionaryLearning": {"alpha": None},
    "OnlineDictionaryLearning": {"normalize": "views"},
    "BandwidthExtension": {"max_iter": 8},
}


def renamed_parameters(estimator: str, parameters: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the parameters of a model file under their present names."""
    if version != "1":
        return parameters
    names = RENAMED.get(estimator, {})
    told = {names.get(name, name): value for name, value in parameters.items()}
    refit = told.pop("refit", None)
    if refit is not None and estimator == "CoupledClassifier" and not refit:
        told["head"] = "dictionary"
    if refit is not None and estimator != "CoupledClassifier":
        told["predictor"] = "ridge" if refit else "dictionary"
    if estimator == "CrossModalMatcher" and "coupling" in told:
        told["semi_coupled"] = told.pop("coupling") == "mapped"
    if estimator == "SparseRepresentationClassifier" and told.get("atoms") == "classes":
        told["atoms"] = "learned"
    if estimator == "OnlineDictionaryLearning":
        told.pop("max_iter", None)  # it counted batches, now it counts passes; only another fit needs it
    return ADDED.get(estimator, {}) | told
