"""``coupledict.load``, and the table of classes whose models can be loaded."""

from __future__ import annotations

import importlib
import os

from .estimators.saving import SavedMixin, restore
from .files.models import contradiction
from .files.state import ModelState, shorten

#: The module of each class that can be saved; it is imported only for a file that names the class.
PLACES = {
    "CoupledDictionaryLearning": "coupledict.estimators.coupled",
    "DictionaryLearning": "coupledict.estimators.single",
    "OnlineDictionaryLearning": "coupledict.estimators.online",
    "MultiFocusFusion": "coupledict.images",
    "SuperResolution": "coupledict.images",
    "StainSeparator": "coupledict.images",
    "BandwidthExtension": "coupledict.audio",
    "CoupledClassifier": "coupledict.classification",
    "SparseRepresentationClassifier": "coupledict.classification",
    "CrossModalMatcher": "coupledict.matching",
}


def load(path: str | os.PathLike[str]) -> SavedMixin:
    """Read any model that `save` wrote.

    The file is a safetensors file: it holds data, never code, so it is safe to open an untrusted one. Dictionaries are
    restored to the last bit, and so are the running sums of `partial_fit`, which can be continued. Parameters that are
    not data (a callable schedule or growth, a callback, a random generator, starting arrays) get their defaults; only
    another `fit` needs them. A checkpoint of a fit opens as the model of its last iteration.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    CoupledDictionaryLearning, DictionaryLearning, OnlineDictionaryLearning, or the estimator of a task
        The fitted estimator. If its class is known, the method `load` of that class returns only this class.

    Raises
    ------
    ModelFileError
        For a file that is damaged, not a model, or of a newer format.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib, coupledict
    >>> X = np.random.default_rng(0).standard_normal((100, 4))
    >>> learner = coupledict.DictionaryLearning(8, n_nonzero_coefs=2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.safetensors"
    ...     learner.save(path)
    ...     same = coupledict.load(path)
    >>> np.array_equal(same.components_, learner.components_)
    True
    """
    return from_state(ModelState.read(path), path)


def from_state(state: ModelState, path: str | os.PathLike[str]) -> SavedMixin:
    """Make the estimator from a state that was read from a file."""
    if state.estimator not in PLACES:
        error = ValueError(f"it names an unknown estimator {shorten(state.estimator)}")
        raise contradiction(path, "a complete model", error)
    cls: type[SavedMixin] = getattr(importlib.import_module(PLACES[state.estimator]), state.estimator)
    return restore(cls, state, path)
