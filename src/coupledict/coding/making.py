"""From a recipe to its coder."""

from __future__ import annotations

from ..parallel.cancel import CancelToken
from .coder import Coder
from .filling import Filler
from .greedy import GreedyCoder
from .incomplete import IncompleteCoder
from .lasso import LassoCoder
from .recipe import Recipe


def make_coder(recipe: Recipe, n_jobs: int, cancel: CancelToken | None = None) -> Coder:
    """Return the coder of a recipe; its preparation uses `n_jobs` threads."""
    coder: Coder
    if recipe.rule.pursuit == "lasso":
        coder = LassoCoder(recipe)
    elif recipe.missing:
        coder = IncompleteCoder(recipe)
    else:
        coder = GreedyCoder(recipe, n_jobs, cancel)
    if recipe.targets:
        coder.target_filler = Filler(recipe.targets, recipe.dtype)
    return coder
