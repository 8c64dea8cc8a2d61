"""The fitted state of every learner: dictionaries, weights and history, and the methods that use them."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..coding.recipe import Recipe
from ..coding.results import Sums
from ..coding.rule import CodingRule
from ..data.interface import Data
from ..files.codes import CodeFile
from ..files.models import JSON
from ..files.state import (
    ModelState,
    check_file_count,
    check_file_weights,
    check_history,
    check_range,
    is_number,
    shorten,
)
from ..foundation.arrays import Array, Floats
from ..foundation.progress import Record
from ..parallel.jobs import Threads
from .atoms import group_atoms, ordinary_size, weight_unit
from .decoding import Decoder
from .moments import Moments
from .predictors import ANY_OTHERS, Predictors
from .running_sums import RunningSums
from .settings import LearningSettings

MOMENT_NAMES = ("mean", "covariance", "shares")
MOST_SHARE = 100.0  # a factor of a guess that is larger than this is in no file that was written here
ANY_NAME = "any"  # how ANY_OTHERS is written in files
OTHER_NORM = 0.01  # norms of atoms that differ from 1 by more than this are no rounding errors
LEAST_ROOM = 1e-6  # of the largest number of a dtype: larger atoms in a file are refused, for products would overflow


@dataclass(frozen=True)
class FittedDictionaries:
    """The result of learning.

    Attributes
    ----------
    components : list of arrays (n_components, n_features_v)
    weights : array of shape (n_views,)
    history : list of dict
        One record for each iteration or batch.
    n_iter : int
        Iterations or batches that were done.
    predictors : dict
        Refitted dictionaries; see :mod:`coupledict.learning.predictors`.
    moments : Moments or None
        Means and covariances that fill in missing entries beside the codes; see
        :mod:`coupledict.learning.imputation`.
    running : RunningSums or None
        State of learning from batches; None if there was no batch since the last fit.
    """

    components: list[Array]
    weights: Floats
    history: list[Record]
    n_iter: int
    predictors: Predictors = field(default_factory=dict)
    running: RunningSums | None = None
    moments: Moments | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type of the dictionaries."""
        return self.components[0].dtype

    def recipe_for(
        self, data: Data, rule: CodingRule, without: int | None = None, *, weighted_only: bool = False
    ) -> tuple[Recipe, list[int]]:
        """Return how to code samples, and which views to code, as positions among the views that are present.

        Views of weight 0 are not coded, except with ``coupling="support"``: there every given view gets a code, even if
        all its coefficients are 0, unless only those with a weight are wanted. The view `without` is ignored.
        """
        if data.n_views != len(self.components):
            raise ValueError(
                f"Expected {len(self.components)} views, one for each dictionary (None for an absent one), got"
                f" {data.n_views}."
            )
        widths = [self.components[v].shape[1] for v in data.present]
        if data.widths != widths:
            raise ValueError(f"Expected views of {widths} features, as their dictionaries have, got {data.widths}.")
        places = [i for i, v in enumerate(data.present) if v != without]
        if not places:
            raise ValueError(f"Expected at least one view other than the wanted one ({without}) in X, got none.")
        weighty = [i for i in places if self.weights[data.present[i]] > 0]
        if not weighty:
            raise ValueError("Expected a view of positive weight in X, got only views of weight 0.")
        sources = weighty if rule.coupling == "code" or weighted_only else places
        chosen = [data.present[i] for i in sources]
        dtype = np.result_type(data.dtype, self.dtype)
        dictionaries = [self.components[v] for v in chosen]
        return Recipe(dictionaries, self.weights[chosen], dtype, rule, data.n_samples, data.missing), sources

    def codes(self, data: Data, rule: CodingRule, threads: Threads) -> list[csr_array]:
        """Return the codes of samples, one array for each group of views that shares its coefficients."""
        return data.codes(*self.recipe_for(data, rule), threads)

    def write_codes(self, data: Data, rule: CodingRule, out: str | os.PathLike[str], threads: Threads) -> CodeFile:
        """Write the codes of samples to a file."""
        if rule.coupling == "support":
            raise ValueError("Codes are written to files with coupling='code' only; here every view has its own.")
        recipe, sources = self.recipe_for(data, rule)
        return data.write_codes(recipe, sources, out, threads)

    def predict(self, data: Data, settings: LearningSettings, view: int, threads: Threads) -> Array:
        """Return one view, predicted from the others."""
        if settings.rule.coupling == "support":
            raise ValueError("With coupling='support' views have no code in common, so none can predict another.")
        recipe, sources = self.recipe_for(data, settings.rule, without=view)
        decoder = self._decoder(data, settings, [view], keep=False)
        return data.decoded(recipe, sources, decoder, decoder.widths, threads)[0]

    def impute(self, data: Data, settings: LearningSettings, threads: Threads) -> list[Array]:
        """Return all views, with known entries as they are and all others filled in."""
        if settings.rule.coupling == "support":
            raise ValueError("With coupling='support' views have no code in common, so none can stand in for another.")
        recipe, sources = self.recipe_for(data, settings.rule)
        decoder = self._decoder(data, settings, list(range(len(self.components))), keep=True)
        decoder = dataclasses.replace(decoder, moments=self.moments, threads=threads.count, missing=data.missing)
        return data.decoded(recipe, sources, decoder, decoder.widths, threads)

    def _decoder(self, data: Data, settings: LearningSettings, wanted: list[int], *, keep: bool) -> Decoder:
        return Decoder(self.components, self.weights, self.predictors, settings.joint_norm, data.present, wanted, keep)

    def explained(self, data: Data, rule: CodingRule, threads: Threads) -> float:
        """Return the share of the weighted squared norm of samples that their codes explain; 1 if the norm is 0."""
        sources = self.recipe_for(data, rule, weighted_only=True)[1]
        data = data.scaled(data.find_scale(threads, sources))
        recipe, sources = self.recipe_for(data, rule.scaled(data.scale), weighted_only=True)
        unit = weight_unit(recipe.weights)
        recipe = dataclasses.replace(
            recipe,
            dictionaries=ordinary_size(recipe.dictionaries)[0],
            weights=recipe.weights / unit,
            rule=recipe.rule.scaled_objective(1 / unit),
        )
        residual, energies = data.energies(recipe, sources, threads)
        total = float(recipe.weights @ energies)
        return 1.0 - residual / total if total > 0 else 1.0

    # To files and back

    def tensors_and_facts(self) -> tuple[dict[str, Array], dict[str, JSON]]:
        """Return the state as arrays and JSON values."""
        tensors = {f"components.{v}": array for v, array in enumerate(self.components)}
        tensors["view_weights"] = np.asarray(self.weights, np.float64)
        for sources, targets in self.predictors.items():
            for view, array in targets.items():
                tensors[f"refit.{'-'.join(map(str, sources)) or ANY_NAME}.{view}"] = array
        if self.moments is not None:
            for name in MOMENT_NAMES:
                tensors[f"moments.{name}"] = np.asarray(getattr(self.moments, name), np.float64)
        facts: dict[str, JSON] = {"history": list[JSON](self.history), "n_views": len(self.components)}
        if (running := self.running) is not None:
            facts["stream"] = {"n_batches": running.n_batches, "n_iter": self.n_iter, "scale": running.scale}
            for g, group in enumerate(running.groups):
                tensors[f"stream.atoms.{g}"] = group.atoms / group.unit
            for g, (group, sums) in enumerate(zip(running.groups, running.sums, strict=False)):
                tensors[f"stream.a.{g}"] = sums.a * group.unit * group.unit
                tensors[f"stream.b.{g}"] = sums.b * group.unit
        return tensors, facts

    @classmethod
    def from_state(cls, state: ModelState, settings: LearningSettings) -> FittedDictionaries:
        """Return the checked contents of a file; raise one of ``CONTRADICTIONS`` if they are inconsistent."""
        tensors, facts = state.tensors, state.facts
        n_views = facts["n_views"]
        if not isinstance(n_views, int) or n_views < 1:
            raise ValueError(f"it claims {shorten(n_views)} views")
        components = check_dictionaries([tensors[f"components.{v}"] for v in range(n_views)])
        for start in ("components.", "refit.", "moments."):
            check_range(tensors, LEAST_ROOM * float(np.finfo(components[0].dtype).max), start)
        weights = check_file_weights(tensors["view_weights"], n_views)
        history = check_history(facts["history"])
        predictors = _read_predictors(tensors, components)
        moments = _read_moments(tensors, components)
        if "stream" not in facts:
            return cls(components, weights, history, len(history), predictors, moments=moments)
        n_iter = check_file_count(facts["stream"]["n_iter"], "number of iterations")
        running = _read_running_sums(state, components, weights, settings)
        if running.n_batches > n_iter:
            raise ValueError(f"it claims {running.n_batches} batches in {n_iter} iterations")
        return cls(components, weights, history, n_iter, predictors, running, moments)


def check_dictionaries(components: list[Array]) -> list[Array]:
    """Return the dictionaries of a file; raise unless they fit each other."""
    if any(array.ndim != 2 or array.shape[0] != components[0].shape[0] for array in components):
        raise ValueError("its dictionaries do not fit each other")
    if any(array.dtype != components[0].dtype or array.dtype.kind != "f" for array in components):
        raise ValueError("its dictionaries have mixed number types")
    if any(array.size == 0 for array in components):
        raise ValueError("its dictionaries do not have at least one atom and one feature")
    return components


def _read_predictors(tensors: dict[str, Array], components: list[Array]) -> Predictors:
    predictors: Predictors = {}
    for key, array in tensors.items():
        if not key.startswith("refit."):
            continue
        _, sources, target = key.split(".")
        numbers = ANY_OTHERS if sources == ANY_NAME else tuple(int(v) for v in sources.split("-"))
        view = int(target)
        fits = all(0 <= v < len(components) for v in (*numbers, view)) and view not in numbers
        if not fits or array.shape != components[view].shape or array.dtype != components[view].dtype:
            raise ValueError(f"its tensor {key!r} does not fit its dictionaries")
        predictors.setdefault(numbers, {})[view] = array
    return predictors


def _read_moments(tensors: dict[str, Array], components: list[Array]) -> Moments | None:
    if not any(key.startswith("moments.") for key in tensors):
        return None
    moments = Moments(*(tensors[f"moments.{name}"] for name in MOMENT_NAMES))
    width = sum(array.shape[1] for array in components)
    shapes = [(width,), (width, width), (len(components), 2)]
    arrays = [moments.mean, moments.covariance, moments.shares]
    if [array.shape for array in arrays] != shapes or any(array.dtype != np.float64 for array in arrays):
        raise ValueError("its moments do not fit its dictionaries")
    if not np.array_equal(moments.covariance, moments.covariance.T) or np.any(np.diag(moments.covariance) <= 0):
        raise ValueError("its covariances are none")
    if np.any(moments.shares < 0) or np.any(moments.shares > MOST_SHARE):
        raise ValueError("its moments count for more than they can")
    return moments


def _read_running_sums(
    state: ModelState, components: list[Array], weights: Floats, settings: LearningSettings
) -> RunningSums:
    told, tensors = state.facts["stream"], state.tensors
    scale = told["scale"]
    if not is_number(scale) or not scale > 0:
        raise ValueError(f"it claims that its batches were multiplied by {shorten(scale)}")
    groups = group_atoms(
        [np.asarray(array, np.float64) for array in components],
        weights,
        coupled=settings.rule.coupling == "code",
        joint=settings.joint_norm,
        n_fixed=int(settings.constant_atom),
        relative=not settings.balanced,
    )
    sums = []
    for g, group in enumerate(groups):
        atoms, a, b = (tensors[f"stream.{part}.{g}"] for part in ("atoms", "a", "b"))
        n_atoms = group.atoms.shape[0]
        if atoms.shape != group.atoms.shape or a.shape != (n_atoms, n_atoms) or b.shape != group.atoms.shape:
            raise ValueError("the sums of its batches do not fit its dictionaries")
        if any(array.dtype != np.float64 for array in (atoms, a, b)) or np.any(a.diagonal() < 0):
            raise ValueError("the sums of its batches are no sums")
        unit = group.unit
        with np.errstate(over="ignore"):
            size = group.largest_norm(atoms * unit)
        if not np.isfinite(size):
            raise ValueError("the atoms of its batches are too large")
        if size > 0 and abs(size - 1) > OTHER_NORM:
            unit /= size  # view_weights was changed after the batches
        group.atoms[:] = atoms * unit  # normalising again could change the last bit
        sums.append(Sums(a / unit / unit, b / unit))
    return RunningSums(groups, float(scale), check_file_count(told["n_batches"], "number of batches", 1), sums)
