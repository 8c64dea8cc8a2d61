"""The fitted parts of a classifier: how they turn samples into decisions, and how they are stored in files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.sparse import csr_array

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.ensemble import restore_learner, with_jobs
from ..files.models import JSON
from ..files.state import ModelState, check_history, make_estimator
from ..foundation.arrays import Array, Floats
from ..foundation.checks import check_choice
from ..foundation.views import ViewList
from ..learning.fitted import FittedDictionaries
from ._file_checks import check_dictionary
from ._heads import Head, Route
from ._scaling import Scaler

Sources: TypeAlias = tuple[int, ...]
#: How decisions are made: by a ridge regression on codes and features or on codes alone, or by the label dictionary.
HeadKind: TypeAlias = Literal["codes+features", "codes", "dictionary"]

FEATURES_GAIN = 2.0  # scale of the features beside the codes, for heads; 1 to 3 make little difference
MOST_SHARPNESS = 1e6  # fits give at most exp(6)
FIT_PARAMETERS = ("n_nonzero_coefs", "pursuit", "max_iter")  # of the learners, as they were in the fit


@dataclass(frozen=True)
class Recognizer:
    """Classifies samples by some or all of their views.

    Attributes
    ----------
    scalers : list of Scaler
        One per feature view.
    learners : list of CoupledDictionaryLearning
        The dictionaries; their first views are the feature views.
    head : {"codes+features", "codes", "dictionary"}
    dtype : float32 or float64
        Number type of the decisions.
    routes : dict
        The way from codes to decisions, for each set of views that has one.
    """

    scalers: list[Scaler]
    learners: list[CoupledDictionaryLearning]
    head: HeadKind
    dtype: np.dtype[Any]
    routes: dict[Sources, Route] = field(default_factory=dict)

    @property
    def widths(self) -> list[int]:
        """Features of each view."""
        return [scaler.n_features for scaler in self.scalers]

    def codes(self, sources: Sources, views: list[Array], learner: int, n_jobs: int | None) -> csr_array:
        """Return the codes of samples that have these views, by the learner of this index."""
        return _transform(self.learners[learner], self._coded(sources, views), n_jobs)

    def _coded(self, sources: Sources, views: list[Array]) -> ViewList:
        """Return all views of the learners, as they are coded, with None for those that are not given."""
        coded: ViewList = [None] * len(self.learners[0].components_)
        for v, view in zip(sources, views, strict=True):
            coded[v] = self.scalers[v].coded(view)
        return coded

    def inputs(self, sources: Sources, views: list[Array], n_jobs: int | None = None) -> Iterator[Floats]:
        """Yield, for each dictionary, the inputs of its head for samples that have these views."""
        coded = self._coded(sources, views)
        features = [self.scalers[v].features(view) * FEATURES_GAIN for v, view in zip(sources, views, strict=True)]
        for learner in self.learners:
            codes = _transform(learner, coded, n_jobs).toarray().astype(np.float64)
            if self.head != "dictionary":
                # Atoms have norm 1 over all views and may be small in these; heads get coefficients of unit atoms.
                codes *= np.sqrt(
                    sum(learner.view_weights_[v] * np.sum(learner.components_[v] ** 2.0, axis=1) for v in sources)
                )
            yield np.hstack([codes, *features]) if self.head == "codes+features" else codes

    def _decide(self, sources: Sources, views: list[Array], n_jobs: int | None) -> Floats:
        return self.routes[sources].decide(self.inputs(sources, views, n_jobs))

    def scores(self, sources: Sources, views: list[Array], n_jobs: int | None) -> tuple[Floats, float]:
        """Return a decision for each class, and the sharpness of their probabilities."""
        if sources in self.routes:
            return self._decide(sources, views, n_jobs), self.routes[sources].sharpness
        alone = [(v, view) for v, view in zip(sources, views, strict=True) if (v,) in self.routes]
        if not alone:
            raise ValueError(
                f"Expected views that a labelled sample had, or shared with one in fit, got views {list(sources)} only."
            )
        decided = [self._decide((v,), [view], n_jobs) for v, view in alone]
        sharpness = [self.routes[v,].sharpness for v, _ in alone]
        return np.asarray(np.mean(decided, axis=0)), float(np.mean(sharpness))

    # To files and back

    def tensors_and_facts(self) -> tuple[dict[str, Array], dict[str, JSON]]:
        """Return all fitted parts as arrays and JSON."""
        tensors: dict[str, Array] = {"view_weights": self.learners[0].view_weights_}
        for v, scaler in enumerate(self.scalers):
            tensors |= scaler.tensors(v)
        for number, learner in enumerate(self.learners):
            tensors |= {f"components.{number}.{v}": array for v, array in enumerate(learner.components_)}
        routes: dict[str, JSON] = {}
        for sources, route in self.routes.items():
            name = "-".join(map(str, sources))
            routes[name] = {"sharpness": route.sharpness, "alphas": [head.ridge_alpha for head in route.heads]}
            for number, head in enumerate(route.heads):
                tensors[f"head.{name}.{number}.coef"] = head.coef
                tensors[f"head.{name}.{number}.intercept"] = head.intercept
        facts: dict[str, JSON] = {
            "routes": routes,
            "dtype": self.dtype.name,
            "n_views": len(self.scalers),
            "n_dictionaries": len(self.learners),
            "fitted_with": {name: getattr(self.learners[0], name) for name in FIT_PARAMETERS} | {"head": self.head},
            "history": [list[JSON](learner.history_) for learner in self.learners],
        }
        return tensors, facts

    @classmethod
    def from_state(cls, state: ModelState, head: HeadKind, n_classes: int, **parameters: Any) -> Recognizer:
        """Return what a file holds, checked; raise one of ``CONTRADICTIONS`` for one that contradicts itself.

        `parameters` are those of the learners.
        """
        facts, n_views = state.facts, state.facts["n_views"]
        # The parameters of the estimator may have been changed after the fit.
        fitted_with = dict(facts.get("fitted_with", {}))
        head = fitted_with.pop("head", head)
        check_choice(head, "head", get_args(HeadKind))
        if not set(fitted_with) <= set(FIT_PARAMETERS):
            raise ValueError("it was fitted with parameters that it does not have")
        make_estimator(CoupledDictionaryLearning, fitted_with)  # checks them
        parameters |= fitted_with
        if facts["dtype"] not in ("float32", "float64"):
            raise ValueError("it contradicts itself about its views")
        scalers = [Scaler.from_tensors(state.tensors, v) for v in range(n_views)]
        learners = _read_learners(state, scalers, parameters)
        empty = cls(scalers, learners, head, np.dtype(facts["dtype"]))
        routes = {}
        for name, told in facts["routes"].items():
            sources = tuple(int(v) for v in name.split("-"))
            if not set(sources) <= set(range(n_views)):
                raise ValueError(f"it has a head for views {name}, which it does not have")
            routes[sources] = empty._read_route(state.tensors, name, told, empty._n_inputs(sources), n_classes)
        return cls(scalers, learners, head, empty.dtype, routes)

    def _n_inputs(self, sources: Sources) -> int:
        """Return how many inputs the heads of these views have."""
        n_features = sum(self.widths[v] for v in sources) if self.head == "codes+features" else 0
        return int(self.learners[0].components_[0].shape[0]) + n_features

    def _read_route(self, tensors: dict[str, Array], name: str, told: Any, n_inputs: int, n_classes: int) -> Route:
        heads = []
        for number, ridge_alpha in enumerate(told["alphas"]):
            coef, intercept = (tensors[f"head.{name}.{number}.{part}"] for part in ("coef", "intercept"))
            if coef.shape != (n_inputs, n_classes) or intercept.shape != (n_classes,):
                raise ValueError(f"its head for views {name} does not fit its dictionaries")
            heads.append(Head(coef, intercept, float(ridge_alpha)))
        if len(heads) != len(self.learners):
            raise ValueError("it has not as many heads as dictionaries")
        sharpness = float(told["sharpness"])
        if not 0 < sharpness <= MOST_SHARPNESS:
            raise ValueError(f"its head for views {name} has a sharpness of {sharpness}")
        return Route(heads, sharpness)


def _transform(learner: CoupledDictionaryLearning, coded: ViewList, n_jobs: int | None) -> csr_array:
    codes: Any = with_jobs(learner, n_jobs).transform(coded)
    return codes  # type: ignore[no-any-return]  # sparse, as the learners were told


def _read_learners(
    state: ModelState, scalers: list[Scaler], parameters: dict[str, Any]
) -> list[CoupledDictionaryLearning]:
    tensors, facts = state.tensors, state.facts
    weights = tensors["view_weights"]
    if weights.ndim != 1 or weights.size < len(scalers) or np.any(weights < 0) or not weights[: len(scalers)].all():
        raise ValueError("its view weights do not fit its views")
    learners = []
    for number in range(facts["n_dictionaries"]):
        components = [check_dictionary(tensors[f"components.{number}.{v}"]) for v in range(weights.size)]
        for atoms, scaler in zip(components, scalers, strict=False):  # label views have no scaler
            check_dictionary(atoms, scaler.width)
        if len({array.shape[0] for array in components}) != 1:
            raise ValueError("its dictionaries do not fit each other")
        history = check_history(facts["history"][number])
        learners.append(
            restore_learner(
                FittedDictionaries(components, weights, history, len(history)),
                n_components=components[0].shape[0],
                view_weights=weights.tolist(),
                **parameters,
            )
        )
    return learners
