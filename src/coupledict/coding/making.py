"""From a recipe to its coder."""

from __future__ import annotations

from ..parallel.cancel import CancelToken
from .coder import Coder
from .filling import Filler
from .incomplete import IncompleteCoder
from .kernel import KernelCoder
from .preparing import FilledSamples, Teacher, WholeSamples
from .recipe import Recipe


def make_coder(recipe: Recipe, n_jobs: int, cancel: CancelToken | None = None) -> Coder:
    """Return the coder of a recipe; its preparation uses `n_jobs` threads."""
    coder = IncompleteCoder(recipe) if recipe.missing else KernelCoder(recipe, n_jobs, cancel)
    if recipe.filled_by is not None:
        coder.preparation = FilledSamples(make_coder(recipe.filled_by, n_jobs, cancel))
    elif recipe.whole_only:
        coder.preparation = WholeSamples()
    if recipe.teacher is not None:
        teacher = recipe.teacher
        coder.teacher = Teacher(make_coder(teacher, n_jobs, cancel), Filler(teacher.targets, teacher.dtype))
    elif recipe.targets:
        coder.target_filler = Filler(recipe.targets, recipe.dtype)
    return coder
