"""Views for scikit-learn's tools: a table of several views, and transformers that work on each of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from ._views import Views, as_list

__all__ = ["EachView", "Views"]


class EachView(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc, call-arg]
    """Do to each view what a scikit-learn transformer does to a table.

    Parameters
    ----------
    transformer : transformer, or list with a transformer or None for each view
        One is copied for every view; None leaves a view as it is. Whole functions go through
        ``sklearn.preprocessing.FunctionTransformer``.

    Attributes
    ----------
    transformers_ : list of transformers, or None
        The fitted transformer of each view.
    n_features_in_ : list of int
        Features of each view.

    See Also
    --------
    Views : What it returns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.views import EachView
    >>> rng = np.random.default_rng(0)
    >>> views = [rng.standard_normal((200, 4)), 1000 * rng.standard_normal((200, 6)) + 5]
    >>> pipeline = make_pipeline(EachView(StandardScaler()), CoupledDictionaryLearning(16, random_state=0))
    >>> pipeline.fit_transform(views).shape
    (200, 16)
    >>> pipeline.predict([views[0], None], view=1).shape
    (200, 6)
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, Xs: Any, y: object = None) -> Self:
        """Fit a transformer to each view.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or Views
        y : array of shape (n_samples,), optional
            Handed on to the transformers.

        Returns
        -------
        self
        """
        views = Views(as_list(Xs)).views
        several = isinstance(self.transformer, list | tuple)
        chosen = list(self.transformer) if several else [self.transformer] * len(views)
        if len(chosen) != len(views):
            raise ValueError(f"Expected {len(views)} transformers, one a view, got {len(chosen)}.")
        for v, view in enumerate(views):
            if view is None:
                raise ValueError(f"Expected every view to be present in fit, got None for Xs[{v}].")
        self.transformers_ = [
            None if own is None else clone(own).fit(view, y) for own, view in zip(chosen, views, strict=True)
        ]
        self.n_features_in_ = [int(view.shape[1]) for view in views]
        return self

    def transform(self, Xs: Any) -> Views:
        """Transform each view.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or None for absent views, or Views

        Returns
        -------
        Views
            Those that are absent stay absent.
        """
        return self._apply("transform", Xs)

    def inverse_transform(self, Xs: Any) -> Views:
        """Undo what :meth:`transform` did to each view.

        Parameters
        ----------
        Xs : list of arrays, or None for absent views, or Views

        Returns
        -------
        Views
        """
        return self._apply("inverse_transform", Xs)

    def _apply(self, method: str, Xs: Any) -> Views:
        check_is_fitted(self)
        views = Views(as_list(Xs)).views
        if len(views) != len(self.transformers_):
            raise ValueError(
                f"Expected {len(self.transformers_)} views in Xs (None for an absent one), got {len(views)}."
            )
        return Views(
            [
                view if view is None or own is None else getattr(own, method)(view)
                for own, view in zip(self.transformers_, views, strict=True)
            ]
        )

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of all features: ``view0__`` and so on, and the name that the transformer gives.

        Parameters
        ----------
        input_features : ignored
            Accepted for pipelines.

        Returns
        -------
        array of str
        """
        check_is_fitted(self)
        names: list[str] = []
        for v, (own, width) in enumerate(zip(self.transformers_, self.n_features_in_, strict=True)):
            inner = [f"x{i}" for i in range(width)] if own is None else own.get_feature_names_out()
            names += [f"view{v}__{name}" for name in inner]
        return np.asarray(names, dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what the views are after :meth:`transform`; see ``set_output`` of the transformers.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional

        Returns
        -------
        self
        """
        several = isinstance(self.transformer, list | tuple)
        for own in [*(self.transformer if several else [self.transformer]), *getattr(self, "transformers_", [])]:
            if own is not None:
                own.set_output(transform=transform)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a list of them
        return tags
