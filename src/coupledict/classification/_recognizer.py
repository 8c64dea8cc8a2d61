"""The fitted parts of a classifier: how they turn samples into decisions, and how they are stored in files."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.sparse import csr_array

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.ensemble import learned_tensors, read_learner, with_jobs
from ..files.models import JSON
from ..files.state import ModelState, check_file_count, check_history, make_estimator
from ..foundation.arrays import Array, Floats
from ..foundation.checks import check_choice
from ..foundation.views import ViewList
from ._file_checks import check_dictionary
from ._kernel import CalibratedKernelHead, KernelHead
from ._labelled import has_views
from ._scaling import Scaler
from ._source_heads import Landmarks, SourceHead, read_head, read_shares, stack_coded

Sources: TypeAlias = tuple[int, ...]
#: How decisions are made: by a ridge regression on codes and features or on codes alone, by one with a kernel on
#: features that are filled in where they are missing, by the label dictionary, or by several parts together.
HeadKind: TypeAlias = Literal["blend", "codes+features", "codes", "kernel", "dictionary"]

FEATURES_GAIN = 2.0  # scale of the features relative to the codes; 1 to 3 make little difference
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
    head : {"blend", "codes+features", "codes", "kernel", "dictionary"}
    dtype : float32 or float64
        Number type of the decisions.
    source_heads : dict
        The head of each set of source views that has one.
    kernel : CalibratedKernelHead or None
        The head for samples with any views; only with ``head="kernel"``.
    landmarks : Landmarks or None
        Training samples that new ones are compared with; only with ``head="blend"``.
    """

    scalers: list[Scaler]
    learners: list[CoupledDictionaryLearning]
    head: HeadKind
    dtype: np.dtype[Any]
    source_heads: dict[Sources, SourceHead] = field(default_factory=dict)
    kernel: CalibratedKernelHead | None = None
    landmarks: Landmarks | None = None

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

    @property
    def _sees_features(self) -> bool:
        """Whether heads on codes also see the features."""
        return self.head in ("blend", "codes+features")

    def inputs(self, sources: Sources, views: list[Array], n_jobs: int | None = None) -> Iterator[Floats]:
        """Yield, for each dictionary, the inputs of its head for samples that have these views, at least in part."""
        coded = self._coded(sources, views)
        views = self._whole(sources, views, n_jobs) if self._sees_features else views
        features = [self.scalers[v].features(view) * FEATURES_GAIN for v, view in zip(sources, views, strict=True)]
        for learner in self.learners:
            codes = _transform(learner, coded, n_jobs).toarray().astype(np.float64)
            if self.head != "dictionary":
                # Atoms have norm 1 over all views and may be small in these; heads get coefficients of unit atoms.
                codes *= np.sqrt(sum(_known_energies(learner, v, coded[v]) for v in sources))
            yield np.hstack([codes, *features]) if self._sees_features else codes

    def with_sparsity(self, n_nonzero_coefs: int, n_learners: int | None = None) -> Recognizer:
        """Return a recognizer whose learners, or some of them, code with another number of atoms."""
        learners = [copy.copy(learner) for learner in self.learners[:n_learners]]
        for learner in learners:
            learner.n_nonzero_coefs = n_nonzero_coefs
        return replace(self, learners=learners)

    def _whole(self, sources: Sources, views: list[Array], n_jobs: int | None) -> list[Array]:
        """Return these views of samples, with missing entries filled in."""
        if not any(np.isnan(view).any() for view in views):
            return views
        filled = self.filled(sources, views, n_jobs)
        return [filled[v] for v in sources]

    def filled(self, sources: Sources, views: list[Array], n_jobs: int | None) -> list[Array]:
        """Return all feature views of samples, with missing entries imputed by the mean over the dictionaries."""
        coded = self._coded(sources, views)
        given = dict(zip(sources, views, strict=True))
        n_samples = views[0].shape[0]
        found = [np.zeros((n_samples, scaler.width)) for scaler in self.scalers]
        for learner in self.learners:
            imputed = _configured(learner, coded, n_jobs).impute(coded)
            for total, part in zip(found, imputed, strict=False):  # label views have no scaler
                total += part
        whole = []
        for v, scaler in enumerate(self.scalers):
            view = given.get(v, np.full((n_samples, scaler.n_features), np.nan))
            whole.append(scaler.filled(view, found[v] / len(self.learners)))
        return whole

    def kernel_inputs(self, sources: Sources, views: list[Array], n_jobs: int | None) -> Floats:
        """Return the features of samples with any views, as the kernel head sees them."""
        if len(sources) < len(self.scalers) or any(np.isnan(view).any() for view in views):
            views = self.filled(sources, views, n_jobs)
        return np.hstack([scaler.features(view) for scaler, view in zip(self.scalers, views, strict=True)])

    def decide(self, sources: Sources, views: list[Array], n_jobs: int | None) -> Floats:
        """Return the decisions about samples that have these views, which have a head."""
        source_head, scalers = self.source_heads[sources], self.scalers
        found = []
        if "codes" in source_head.shares:
            own = zip(source_head.code_heads, self.inputs(sources, views, n_jobs), strict=True)
            found.append(source_head.factor("codes") * np.mean([head(inputs) for head, inputs in own], axis=0))
        if self.landmarks is not None:
            views = self._whole(sources, views, n_jobs)
            for part, head in (("features", source_head.features), ("kernel", source_head.kernel)):
                if head is not None:
                    found.append(
                        source_head.factor(part) * head(self.landmarks.features(part, scalers, sources, views))
                    )
            if source_head.residuals is not None:
                left = source_head.residuals.residuals(stack_coded(scalers, sources, views), n_jobs)
                found.append(-source_head.factor("residuals") * left)
        return np.asarray(sum(found[1:], start=found[0]))

    def scores(self, sources: Sources, views: list[Array], n_jobs: int | None) -> tuple[Floats, Floats]:
        """Return the decisions for each class and the inverse temperature of the probabilities, for each sample."""
        if self.kernel is not None:
            found = self.kernel.head(self.kernel_inputs(sources, views, n_jobs))
            return found, np.full((len(found), 1), self.kernel.inverse_temperature)
        present = has_views(views)
        if present.all():
            return self._scores_of_set(sources, views, n_jobs)
        present[~present.any(axis=1)] = True  # nothing is known: zero codes and mean features
        decided: Floats | None = None
        inverse_temperature = np.empty((len(present), 1))
        for pattern in np.unique(present, axis=0):
            rows = np.flatnonzero((present == pattern).all(axis=1))
            chosen = np.flatnonzero(pattern)
            found, inverse_temperatures = self._scores_of_set(
                tuple(sources[i] for i in chosen), [views[i][rows] for i in chosen], n_jobs
            )
            decided = np.empty((len(present), found.shape[1])) if decided is None else decided
            decided[rows], inverse_temperature[rows] = found, inverse_temperatures
        assert decided is not None
        return decided, inverse_temperature

    def _scores_of_set(self, sources: Sources, views: list[Array], n_jobs: int | None) -> tuple[Floats, Floats]:
        """Return decisions about samples that all have these views, and their inverse temperatures."""
        if sources in self.source_heads:
            inverse_temperatures = np.full((views[0].shape[0], 1), self.source_heads[sources].inverse_temperature)
            return self.decide(sources, views, n_jobs), inverse_temperatures
        alone = [(v, view) for v, view in zip(sources, views, strict=True) if (v,) in self.source_heads]
        if not alone:
            raise ValueError(
                f"Expected a view that labels reached in fit, possibly through others, got views {list(sources)} only."
            )
        decided = [self.decide((v,), [view], n_jobs) for v, view in alone]
        inverse_temperature = float(np.mean([self.source_heads[v,].inverse_temperature for v, _ in alone]))
        return np.asarray(np.mean(decided, axis=0)), np.full((len(decided[0]), 1), inverse_temperature)

    # To files and back

    def tensors_and_facts(self) -> tuple[dict[str, Array], dict[str, JSON]]:
        """Return all fitted parts as arrays and JSON."""
        tensors: dict[str, Array] = {"view_weights": self.learners[0].view_weights_}
        for v, scaler in enumerate(self.scalers):
            tensors |= scaler.tensors(v)
        for number, learner in enumerate(self.learners):
            for name, array in learned_tensors(learner).items():
                start, _, view = name.partition(".")
                if start == "components":
                    tensors[f"components.{number}.{view}"] = array
                elif name != "view_weights":  # those are the same for all
                    tensors[f"learner.{number}.{name}"] = array
        source_heads: dict[str, JSON] = {}
        for sources, source_head in self.source_heads.items():
            name = "-".join(map(str, sources))
            own, source_heads[name] = source_head.tensors_and_facts(name)
            tensors |= own
        if self.kernel is not None:
            tensors |= self.kernel.tensors()
        facts: dict[str, JSON] = {
            "source_heads": source_heads,
            "dtype": self.dtype.name,
            "n_views": len(self.scalers),
            "n_dictionaries": len(self.learners),
            "fitted_with": {name: getattr(self.learners[0], name) for name in FIT_PARAMETERS} | {"head": self.head},
            "history": [list[JSON](learner.history_) for learner in self.learners],
        }
        if self.landmarks is not None:
            tensors |= self.landmarks.tensors()
            facts["residual_coefs"] = self.landmarks.n_nonzero_coefs
        return tensors, facts

    @classmethod
    def from_state(cls, state: ModelState, n_classes: int, **parameters: Any) -> Recognizer:
        """Return the checked contents of a file; raise one of ``CONTRADICTIONS`` if they contradict each other.

        `parameters` are those of the learners.
        """
        facts, n_views = state.facts, state.facts["n_views"]
        # The parameters of the estimator may have been changed after the fit.
        fitted_with = dict(facts["fitted_with"])
        head: Any = check_choice(fitted_with.pop("head"), "head", get_args(HeadKind))
        if set(fitted_with) != set(FIT_PARAMETERS):
            raise ValueError("it lacks the parameters that it was fitted with")
        make_estimator(CoupledDictionaryLearning, fitted_with)  # checks them
        parameters |= fitted_with
        if facts["dtype"] not in ("float32", "float64"):
            raise ValueError("it contradicts itself about its views")
        scalers = [Scaler.from_tensors(state.tensors, v) for v in range(n_views)]
        learners = _read_learners(state, scalers, parameters)
        landmarks = None
        if head == "blend":
            n_nonzero = check_file_count(facts["residual_coefs"], "number of atoms for residuals", least=1)
            landmarks = Landmarks.from_tensors(state.tensors, scalers, n_classes, n_nonzero)
        empty = cls(scalers, learners, head, np.dtype(facts["dtype"]), landmarks=landmarks)
        source_heads = {}
        for name, described in facts["source_heads"].items():
            sources = tuple(int(v) for v in name.split("-"))
            if not set(sources) <= set(range(n_views)):
                raise ValueError(f"it has a head for views {name}, which it does not have")
            source_heads[sources] = empty._read_source_head(state.tensors, name, sources, described, n_classes)
        kernel = (
            CalibratedKernelHead.from_tensors(state.tensors, sum(empty.widths), n_classes) if head == "kernel" else None
        )
        return replace(empty, source_heads=source_heads, kernel=kernel)

    def _read_source_head(
        self, tensors: dict[str, Array], name: str, sources: Sources, described: Any, n_classes: int
    ) -> SourceHead:
        found, alphas, start = read_shares(described), described["alphas"], f"head.{name}"
        shares = found.shares
        n_features, n_atoms = sum(self.widths[v] for v in sources), self.learners[0].components_[0].shape[0]
        n_heads = len(self.learners) if "codes" in shares else 0
        if len(alphas) != n_heads + ("features" in shares):
            raise ValueError("its numbers of heads and dictionaries differ")
        shape = (n_atoms + n_features * self._sees_features, n_classes)
        heads = [read_head(tensors, f"{start}.{number}", shape, alphas[number]) for number in range(n_heads)]
        features, kernel, residuals = None, None, None
        if self.landmarks is None and set(shares) != {"codes"}:
            raise ValueError("it has parts that need landmarks, but no landmarks")
        if "features" in shares:
            features = read_head(tensors, f"{start}.features", (n_features, n_classes), alphas[-1])
        if self.landmarks is not None and "kernel" in shares:
            own = self.landmarks.inputs("kernel", self.scalers, sources)
            kernel = KernelHead.from_tensors(tensors, f"{start}.kernel", own, n_classes)
        if self.landmarks is not None and "residuals" in shares:
            residuals = self.landmarks.atoms(self.scalers, sources, n_classes)
        return SourceHead(1.0, heads, features, kernel, residuals).with_shares(found)


def _known_energies(learner: CoupledDictionaryLearning, v: int, coded: Array | None) -> Floats:
    """Return the weighted squared norm of each atom of a view, over the known entries of each sample."""
    squares = learner.view_weights_[v] * learner.components_[v] ** 2.0
    assert coded is not None
    missing = np.isnan(coded)
    return np.asarray(~missing @ squares.T if missing.any() else np.sum(squares, axis=1))


def _configured(learner: CoupledDictionaryLearning, coded: ViewList, n_jobs: int | None) -> CoupledDictionaryLearning:
    """Return a shallow copy of a learner that uses `n_jobs` threads and accepts missing entries if there are any."""
    other = with_jobs(learner, n_jobs)
    other.missing = "nan" if any(view is not None and np.isnan(view).any() for view in coded) else "error"
    return other


def _transform(learner: CoupledDictionaryLearning, coded: ViewList, n_jobs: int | None) -> csr_array:
    codes: Any = _configured(learner, coded, n_jobs).transform(coded)
    return codes  # type: ignore[no-any-return]  # sparse, as the learners are configured


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
        start = f"learner.{number}."
        own = {name[len(start) :]: array for name, array in tensors.items() if name.startswith(start)}
        own |= {f"components.{v}": atoms for v, atoms in enumerate(components)} | {"view_weights": weights}
        given = parameters | {"n_components": components[0].shape[0], "view_weights": weights.tolist()}
        learners.append(read_learner(own, check_history(facts["history"][number]), **given))
    return learners
