"""Checks of queries and galleries by a fitted matcher, and the views in which they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..estimators.tables import check_names_of
from ..foundation.arrays import Array
from ..foundation.missing import Missing
from ..foundation.tables import check_same_rows
from ..foundation.views import ViewLike, check_same_samples, check_view, list_views
from ._checks import Compare, Names, check_compare, check_direction, check_entries
from ._comparing import Sides
from ._direct import Pair
from ._fitted import Comparison, FittedMatcher
from ._whitening import check_finite, has_view


class SidesMixin:
    """The part of a matcher that checks queries and galleries."""

    compare: Compare | int
    missing: Missing
    n_jobs: int | None
    n_features_in_: list[int]
    _fitted: FittedMatcher

    @property
    def _names(self) -> Names:
        return getattr(self, "view_names_in_", None)

    def _sides(
        self, queries: Any, gallery: ViewLike, source: int | str | Sequence[int | str], target: int | str
    ) -> Sides:
        """Return queries and gallery, checked."""
        sources, target_view = self._direction(source, target)
        given = self._queries(queries, sources, single=is_single(source))
        checked = self._check_side(gallery, target_view, "gallery", keep_mapped=True)
        return Sides(self._fitted, given, checked, target_view, self._comparison(sources, target_view), self.n_jobs)

    def _direction(self, source: int | str | Sequence[int | str], target: int | str) -> tuple[tuple[int, ...], int]:
        """Return the numbers of the source views and of the target view."""
        check_is_fitted(self)
        return check_direction(source, target, len(self.n_features_in_), self._names)

    def _comparison(self, sources: tuple[int, ...], target: int) -> Comparison:
        """Return the views in which query and gallery are compared, with weights, or the name of another comparison."""
        kind = check_compare(self.compare, len(self.n_features_in_), labelled=hasattr(self, "classes_"))
        if kind == "labels":
            return "labels"
        if kind == "codes":
            return "codes"
        if isinstance(kind, int):
            return [(kind, 1.0)]
        if kind == "target":
            return [(target, 1.0)]
        if kind == "source":
            return [(view, 1 / len(sources)) for view in sources]
        chosen = self._fitted.choice.comparison_weights
        comparison_weights = chosen if self.compare == "auto" else (1.0,) * len(chosen)
        shares: list[tuple[int | Pair, float]] = [(target, comparison_weights[target])]
        shares += [(view, comparison_weights[view] / len(sources)) for view in sources]
        pair = (min(sources[0], target), max(sources[0], target))
        direct = self._fitted.choice.direct_weight if len(sources) == 1 and pair in self._fitted.metrics else 0.0
        total = sum(share for _, share in shares)
        both = [(place, (1 - direct) * share / total) for place, share in shares] + [(pair, direct)]
        return [(place, share) for place, share in both if share > 0]

    def _queries(self, queries: Any, sources: tuple[int, ...], *, single: bool) -> dict[int, Array]:
        """Return the checked views of the queries by their numbers."""
        if single:
            return self._checked({sources[0]: queries}, {sources[0]: "queries"}, "queries")
        names = None if self._names is None else [self._names[v] for v in sources]
        queries = list_views(queries, names, name="queries")
        if not isinstance(queries, list | tuple) or len(queries) != len(sources):
            raise ValueError(f"Expected queries to be a list of {len(sources)} arrays, one for each view in source.")
        called = {v: f"queries[{i}]" for i, v in enumerate(sources)}
        return self._checked(dict(zip(sources, queries, strict=True)), called, "queries")

    def _checked(self, given: dict[int, Any], called: dict[int, str], name: str) -> dict[int, Array]:
        """Return views of the same samples, checked; `called` and `name` are their names in errors."""
        views = {v: self._check_side(value, v, called[v], whole=len(given) == 1) for v, value in given.items()}
        check_same_samples(list(views.values()), [called[v] for v in given])
        check_same_rows(list(given.values()), [called[v] for v in given])
        some = np.logical_or.reduce([has_view(view) for view in views.values()])
        if not some.all():
            raise ValueError(f"Expected each sample of {name} to have a view, got none in sample {np.argmin(some)}.")
        return views

    def _check_side(self, value: Any, view: int, name: str, *, whole: bool = True, keep_mapped: bool = False) -> Array:
        """Return checked samples of a view; some may lack the view, except with `whole`.

        A memory-mapped gallery is not loaded here; it is read block by block.
        """
        array = check_view(value, name, keep_mapped=keep_mapped)
        width = self.n_features_in_[view]
        if array.shape[1] != width:
            raise ValueError(f"Expected {name} to have the {width} features of view {view}, got {array.shape[1]}.")
        check_names_of(self, view, value, name)
        if whole:
            check_finite(array, name)
        else:
            check_entries(value, array, name, self.missing)
        return array


def is_single(source: object) -> bool:
    """Return whether queries come in one view rather than in a list of views."""
    return not isinstance(source, list | tuple | np.ndarray)
