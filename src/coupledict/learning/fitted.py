"""The fitted state of every learner: dictionaries, weights and history, and the methods that use them."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..coding.recipe import Recipe
from ..coding.rule import CodingRule
from ..data.interface import Data
from ..data.jobs import DecodeCodes, Encode, Restore, RowJob, SumResiduals
from ..data.moments import Moments
from ..files.codes import CodeFile
from ..foundation.arrays import Array, Floats
from ..foundation.progress import Record
from ..foundation.standardization import Standardization
from ..parallel.jobs import Threads
from .decoding import Decoder
from .imputation import Imputer
from .impute_views import ImputeViews
from .prediction import ViewPredictors
from .predictors import Predictors
from .scaling import Scaling, ordinary_size
from .settings import LearningSettings
from .updates import RunningSums
from .view_predictor import PredictView, TargetPredictors


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
    imputer : Imputer or None
        Fills in missing entries; see :mod:`coupledict.learning.imputation`.
    standard : Standardization or None
        Of the samples that were learned from; dictionaries, predictors and imputer are those of standardized samples.
    view_predictors : dict
        Separate predictors; see :mod:`coupledict.learning.view_predictor`.
    running : RunningSums or None
        State of learning from batches; None if there was no batch since the last fit.
    """

    components: list[Array]
    weights: Floats
    history: list[Record]
    n_iter: int
    predictors: Predictors = field(default_factory=dict)
    running: RunningSums | None = None
    imputer: Imputer | None = None
    standard: Standardization | None = None
    view_predictors: ViewPredictors = field(default_factory=dict)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type of the dictionaries."""
        return self.components[0].dtype

    @property
    def moments(self) -> Moments | None:
        """Means and covariances, if there are any."""
        return None if self.imputer is None else self.imputer.moments

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
        data = data.standardized(self.standard)
        return data.run(Encode(*self.recipe_for(data, rule)), threads)

    def write_codes(self, data: Data, rule: CodingRule, out: str | os.PathLike[str], threads: Threads) -> CodeFile:
        """Write the codes of samples to a file."""
        if rule.coupling == "support":
            raise ValueError("Codes are written to files with coupling='code' only; here every view has its own.")
        data = data.standardized(self.standard)
        recipe, sources = self.recipe_for(data, rule)
        return data.write_codes(recipe, sources, out, threads)

    def predict(self, data: Data, settings: LearningSettings, view: int, threads: Threads) -> Array:
        """Return one view, predicted from the others."""
        if settings.rule.coupling == "support":
            raise ValueError("With coupling='support' views have no code in common, so none can predict another.")
        recipe, sources = self.recipe_for(data, settings.rule, without=view)
        data = data.standardized(self.standard)
        restore = None if self.standard is None else Restore(self.standard, [view], [])
        targets = self._target_predictors(recipe, data, view)
        job: RowJob
        if targets is None:
            decoder = self._decoder(data, settings, [view], keep=False)
            job = DecodeCodes(recipe, sources, decoder, decoder.widths, restore)
        else:
            job = PredictView(targets, self.components[view].shape[1], restore)
        predicted: Array = data.run(job, threads)[0]
        return predicted

    def _target_predictors(self, recipe: Recipe, data: Data, view: int) -> TargetPredictors | None:
        """Return the separate predictors of a view from those that are given; None if there are none."""
        own = {sources: found for (sources, target), found in self.view_predictors.items() if target == view}
        whole = dataclasses.replace(recipe, dictionaries=self.components, weights=self.weights)
        return TargetPredictors(own, data.present, whole, self.moments) if own else None

    def impute(self, data: Data, settings: LearningSettings, threads: Threads) -> list[Array]:
        """Return all views, with known entries as they are and all others filled in."""
        if settings.rule.coupling == "support":
            raise ValueError("With coupling='support' views have no code in common, so none can stand in for another.")
        recipe, sources = self.recipe_for(data, settings.rule)
        data = data.standardized(self.standard)
        wanted = list(range(len(self.components)))
        restore = None if self.standard is None else Restore(self.standard, wanted, data.present)
        targets = {v: self._target_predictors(recipe, data, v) for v in wanted}
        coded = self.imputer is None or self.imputer.needs_codes
        job = ImputeViews(
            recipe=recipe if coded else None,
            sources=sources,
            decoder=dataclasses.replace(self._decoder(data, settings, wanted, keep=True), missing=data.missing),
            imputer=self.imputer,
            targets={v: found for v, found in targets.items() if found is not None},
            dtype=recipe.dtype,
            restore=restore,
        )
        return data.run(job, threads)

    def _decoder(self, data: Data, settings: LearningSettings, wanted: list[int], *, keep: bool) -> Decoder:
        return Decoder(self.components, self.weights, self.predictors, settings.joint_norm, data.present, wanted, keep)

    def explained(self, data: Data, rule: CodingRule, threads: Threads) -> float:
        """Return the share of the weighted squared norm of samples that their codes explain; 1 if the norm is 0."""
        sources = self.recipe_for(data, rule, weighted_only=True)[1]
        data = data.scaled(data.find_scale(threads, sources)).standardized(self.standard)
        recipe, sources = self.recipe_for(data, rule, weighted_only=True)
        scaling = Scaling.of(data.scale, recipe.weights)
        recipe = dataclasses.replace(
            recipe,
            dictionaries=ordinary_size(recipe.dictionaries)[0],
            weights=scaling.relative(recipe.weights),
            rule=scaling.rule(rule),
        )
        found = data.run(SumResiduals(recipe, sources), threads)
        total = float(recipe.weights @ found.energies)
        return 1.0 - found.residual / total if total > 0 else 1.0
