"""A coder that is made once, for samples that are coded in many calls: the tiles of an image, the bands of a stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..foundation.arrays import Array, Floats
from ..parallel.cancel import CancelToken
from .making import make_coder
from .passes import encode
from .recipe import Recipe
from .rule import CodingRule
from .samples import Samples


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
        About how many samples will be coded, in all calls together.
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
        self._coder = make_coder(Recipe(list(dictionaries), weights, np.dtype(dtype), rule, n_samples), n_jobs)

    def encode(self, views: Sequence[Array], n_jobs: int = 1, cancel: CancelToken | None = None) -> csr_array:
        """Return the codes of samples; the arrays must have been checked."""
        coded = encode(self._coder, Samples(list(views), self._coder.dtype), n_jobs, cancel=cancel)
        return coded.as_csr(self._coder.n_atoms)[0]
