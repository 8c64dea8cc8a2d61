"""Makes the coder of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..foundation.arrays import Array, Floats
from ..parallel.cancel import CancelToken
from ..parallel.jobs import Threads
from .coder import Coder, Filler
from .incomplete import IncompleteCoder
from .kernel import KernelCoder
from .passes import encode
from .recipe import Recipe
from .rule import CodingRule
from .samples import Samples


def make_coder(recipe: Recipe, threads: Threads) -> Coder:
    """Return the coder of a recipe; `threads` are used to make it."""
    coder = IncompleteCoder(recipe) if recipe.missing else KernelCoder(recipe, threads.count, threads.cancel)
    if recipe.filled_by is not None:
        coder.filled_by = IncompleteCoder(recipe.filled_by)
    if recipe.targets:
        coder.target_filler = Filler(recipe.targets, recipe.dtype)
    return coder


class PreparedCoder:
    """Dictionaries of one or more views, prepared for samples that have all these views.

    Codes equal those of :func:`coupledict.sparse_encode`, to the last bit. Several threads may share one object.

    Parameters
    ----------
    dictionaries : list of arrays (n_components, n_features_v)
    rule : CodingRule
        Its coupling is ``"code"``: one code for all views.
    dtype : float32 or float64
        Number type of the samples and the codes.
    n_samples : int
        Approximate number of samples that will be coded in all calls together.
    weights : array of shape (n_views,), optional
        Positive weights of the views; 1 if left out.
    n_jobs : int
        Threads for the preparation.
    """

    def __init__(
        self,
        dictionaries: Sequence[Array],
        rule: CodingRule,
        dtype: np.dtype[Any],
        n_samples: int,
        *,
        weights: Floats | None = None,
        n_jobs: int = 1,
    ) -> None:
        weights = np.ones(len(dictionaries)) if weights is None else weights
        self._coder = make_coder(Recipe(list(dictionaries), weights, np.dtype(dtype), rule, n_samples), Threads(n_jobs))

    def encode(self, views: Sequence[Array], n_jobs: int = 1, cancel: CancelToken | None = None) -> csr_array:
        """Return the codes of samples; the arrays must have been checked."""
        coded = encode(self._coder, Samples(list(views), self._coder.dtype), Threads(n_jobs, cancel))
        return coded.as_csr(self._coder.n_atoms)[0]
