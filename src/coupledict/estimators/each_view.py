"""A transformer that applies a scikit-learn transformer to each view."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..foundation.mapped import in_memory
from ..foundation.tensors import with_numpy
from ..foundation.views import SPLIT_HINT, Views, ViewsLike, explain_split_lists, list_views
from .tables import OutputMixin


class EachView(OutputMixin, BaseEstimator):  # type: ignore[misc]
    """Apply a scikit-learn transformer to each view.

    Parameters
    ----------
    transformer : transformer, or list with a transformer or None for each view
        A single transformer is cloned for every view; None leaves a view unchanged. Wrap a function in
        ``sklearn.preprocessing.FunctionTransformer``.

    Attributes
    ----------
    transformers_ : list
        The fitted transformer of each view; None for a view that stays unchanged.
    n_features_in_ : list of int
        Number of features of each view.
    view_names_in_ : tuple of str, or None
        Names of the views; None if they were not given by name.

    See Also
    --------
    Views : The type of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.views import EachView
    >>> rng = np.random.default_rng(0)
    >>> sources = rng.standard_normal((200, 3))
    >>> views = [sources @ rng.standard_normal((3, 4)), 1000 * sources @ rng.standard_normal((3, 6)) + 5]
    >>> pipeline = make_pipeline(EachView(StandardScaler()), CoupledDictionaryLearning(16, random_state=0))
    >>> pipeline.fit_transform(views).shape
    (200, 16)
    >>> pipeline.predict([views[0], None], view=1).shape
    (200, 6)
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: ViewsLike, y: object = None) -> Self:
        """Fit a transformer to each view.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), or Views
        y : array of shape (n_samples,), optional
            Passed on to the transformers.

        Returns
        -------
        self
        """
        given, y = Views(X), with_numpy(y, "y")
        views = given.views
        several = isinstance(self.transformer, list | tuple)
        chosen = list(self.transformer) if several else [self.transformer] * len(views)
        if len(chosen) != len(views):
            raise ValueError(f"Expected {len(views)} transformers, one per view, got {len(chosen)}.")
        for v, view in enumerate(views):
            if view is None:
                raise ValueError(f"Expected every view to be present in fit, got None for X[{v}].")
        self.transformers_ = [
            None if own is None else clone(own).fit(in_memory(view, f"X[{v}]"), y)
            for v, (own, view) in enumerate(zip(chosen, views, strict=True))
        ]
        self.n_features_in_ = [int(view.shape[1]) for view in views]
        self.view_names_in_ = given.names
        return self

    def transform(self, X: ViewsLike) -> Views:
        """Transform each view.

        Parameters
        ----------
        X : list of arrays of shape (n_samples, n_features_v), or None for absent views, or Views

        Returns
        -------
        Views
            The transformed views; absent views stay absent.
        """
        return self._apply("transform", X)

    def inverse_transform(self, X: ViewsLike) -> Views:
        """Undo what :meth:`transform` did to each view.

        Parameters
        ----------
        X : list of arrays, or None for absent views, or Views

        Returns
        -------
        Views
        """
        return self._apply("inverse_transform", X)

    def _apply(self, method: str, X: ViewsLike) -> Views:
        check_is_fitted(self)
        views = Views(list_views(X, self.view_names_in_)).views
        if len(views) != len(self.transformers_):
            raise ValueError(
                f"Expected {len(self.transformers_)} views in X (None for an absent one), got {len(views)}.{SPLIT_HINT}"
            )
        with explain_split_lists(X):
            changed = [
                view if view is None or own is None else getattr(own, method)(in_memory(view, f"X[{v}]"))
                for v, (own, view) in enumerate(zip(self.transformers_, views, strict=True))
            ]
        names = self.view_names_in_
        return Views(changed if names is None else dict(zip(names, changed, strict=True)))

    def _output_names(self) -> list[str]:
        """Return the names of all features: ``view0__`` or the name of the view, then the transformer's own name."""
        names: list[str] = []
        for v, (own, width) in enumerate(zip(self.transformers_, self.n_features_in_, strict=True)):
            inner = [f"x{i}" for i in range(width)] if own is None else own.get_feature_names_out()
            view = f"view{v}" if self.view_names_in_ is None else self.view_names_in_[v]
            names += [f"{view}__{name}" for name in inner]
        return names

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the type of the views that :meth:`transform` returns, by ``set_output`` of the transformers.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional

        Returns
        -------
        self
        """
        super().set_output(transform=transform)
        several = isinstance(self.transformer, list | tuple)
        for own in [*(self.transformer if several else [self.transformer]), *getattr(self, "transformers_", [])]:
            if own is not None:
                own.set_output(transform=transform)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # the input is a list of 2-D arrays
        return tags
