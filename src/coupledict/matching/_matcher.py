"""Cross-modal matching: samples seen in one view find their like in another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._base import check_choice
from .._containers import check_names_of, keep_names
from .._ensemble import seeds
from .._passes import count_jobs, in_order, one_blas_thread
from .._views import Array, as_list, check_count, check_tol, check_view, common_dtype
from . import _ranking
from ._checks import check_all_views, check_compare, check_direction, check_labels, one_hot
from ._mapped import LABELS, Settings, Target, fit_coupled, fit_mapped
from ._ranking import Indices, partner_ranks
from ._whitening import check_finite, fit_whitening

WHITEN_ALPHA = 3.0  # a compromise: near copies want less than 1, Wikipedia's texts and pictures more than 3
SAMPLES_PER_ATOM, FEWEST_ATOMS, MOST_ATOMS = 4, 64, 256  # fewer samples than that for an atom, and it is left to chance
GALLERY_BLOCK = 4096
QUERY_BLOCK = 1024
Parts: TypeAlias = Literal["labels", "codes"] | list[tuple[int, float]]


class CrossModalMatcher(BaseEstimator):  # type: ignore[misc]
    """Rank samples given in one view by their likeness to samples given in another: pictures for texts, say.

    Views are centred and whitened, and dictionaries are learned for them so that one sparse code explains all views of
    a sample [1]_. At matching time, a query has one view and the gallery another. The code of a view alone predicts the
    other, by a ridge regression fitted to codes made in the same way, and what was predicted is compared with what is
    there, by the cosine. The default does so in both views, predicting the gallery's view from the query and the
    query's view from the gallery, and averages the two cosines. Several dictionaries, which differ in their random
    start only, predict together: each is a rough partition of the samples, and their mean is a finer one.

    With labels, these are one more view (one of n indicators), predicted from either side. Samples are then compared by
    the probability that their classes are the same.

    With ``coupling="mapped"``, each view has a dictionary of its own, and a ridge regression maps codes to codes, as in
    semi-coupled [2]_ and generalised coupled [3]_ dictionary learning. Samples then need not come in pairs: with labels
    for each view, the codes of one view are mapped to the mean codes of their classes in the other.

    Parameters
    ----------
    n_components : int, optional
        Atoms of each dictionary; a quarter of the samples if left out, but at least 64 and at most 256.
    n_nonzero_coefs : int, default=8
        At most this many atoms in the code of a sample.
    n_dictionaries : int, default=10
        Dictionaries that are learned, from different starts, and predict together.
    coupling : {"code", "mapped"}, default="code"
        One code for all views, or a dictionary for each and maps between their codes.
    compare : {"auto", "both", "target", "source", "codes", "labels"} or int, default="auto"
        Where query and gallery meet. ``"target"``: in the view of the gallery, predicted from the query. ``"source"``:
        in the view of the query, predicted from the gallery. ``"both"``: the mean of the two. An integer: in the view
        of that number, whichever of the two it is; or predicted from both where it is a third. ``"labels"``: by the
        probability that both are of one class. ``"codes"``: by the cosine of codes, mapped codes with
        ``coupling="mapped"``. ``"auto"`` is ``"labels"`` where `fit` had labels and ``"both"`` otherwise.
    whiten : bool, default=True
        Divide the principal components of each view by ``sqrt(variance + whiten_alpha * mean variance)``. If False,
        views are only centred and scaled as a whole.
    whiten_alpha : float, optional
        See `whiten`; 3 if left out. The larger, the less is changed. Only with ``whiten=True``.
    alpha : float, default=0.1
        Ridge penalty of the maps from codes, relative to the mean squared use of an atom.
    label_weight : float, optional
        Weight of the labels in learning, beside views of weight 1; 1 if left out. Only with labels and
        ``coupling="code"``.
    max_iter : int, default=30
        Iterations of dictionary learning.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Source of the starts of learning. The same number gives the same result, to the last bit.

    Attributes
    ----------
    components_ : list of lists of arrays of shape (n_components, n_whitened_features_v)
        For each of the `n_dictionaries`, a dictionary a view, of whitened features.
    classes_ : array of shape (n_classes,)
        The classes, where `fit` had labels.
    n_features_in_ : list of int
        Features of each view.
    view_feature_names_in_ : list of arrays of str, or None
        Names of the features of each view, where at least one view was a table that had them.

    See Also
    --------
    CoupledDictionaryLearning : The learner behind it.

    Notes
    -----
    `fit` keeps a whitened copy of the views while it learns. Whitening takes the eigenvectors of a matrix as large as
    the smaller of features and samples. `match` reads the gallery in blocks: beyond input and output it takes
    some 200 MB whatever the size of the gallery, and the queries' predictions.

    References
    ----------
    .. [1] F. G. Veshki and S. A. Vorobyov, "A Fast Dictionary Learning Method for Coupled Feature Space Learning",
       IEEE Signal Processing Letters 26(10), 2019. doi:10.1109/LSP.2019.2934045
    .. [2] S. Wang, L. Zhang, Y. Liang and Q. Pan, "Semi-Coupled Dictionary Learning with Applications to Image
       Super-Resolution and Photo-Sketch Synthesis", CVPR 2012.
    .. [3] D. Mandal and S. Biswas, "Generalized Coupled Dictionary Learning Approach With Applications to Cross-Modal
       Matching", IEEE Transactions on Image Processing 25(8), 2016.

    Examples
    --------
    Left halves of digits find their right halves among 300:

    >>> from sklearn.datasets import load_digits
    >>> from coupledict.matching import CrossModalMatcher
    >>> images = load_digits().images
    >>> halves = [images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)]
    >>> train, test = [half[:1497] for half in halves], [half[1497:] for half in halves]
    >>> matcher = CrossModalMatcher(n_dictionaries=3, random_state=0).fit(train)
    >>> matcher.match(test[0], test[1], n=5).shape
    (300, 5)
    >>> matcher.score(test) > 0.2
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int = 8,
        n_dictionaries: int = 10,
        coupling: Literal["code", "mapped"] = "code",
        compare: str | int = "auto",
        whiten: bool = True,
        whiten_alpha: float | None = None,
        alpha: float = 0.1,
        label_weight: float | None = None,
        max_iter: int = 30,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.n_dictionaries = n_dictionaries
        self.coupling = coupling
        self.compare = compare
        self.whiten = whiten
        self.whiten_alpha = whiten_alpha
        self.alpha = alpha
        self.label_weight = label_weight
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_parameters(self) -> None:
        for name in ("n_nonzero_coefs", "n_dictionaries", "max_iter"):
            check_count(getattr(self, name), name)
        if self.n_components is not None:
            check_count(self.n_components, "n_components")
        check_choice(self.coupling, "coupling", ("code", "mapped"))
        check_tol(self.alpha, "alpha")
        if not isinstance(self.whiten, bool | np.bool_):
            raise TypeError(f"Expected whiten to be True or False, got {self.whiten!r}.")
        if self.whiten_alpha is not None:
            check_tol(self.whiten_alpha, "whiten_alpha")
            if not self.whiten:
                raise ValueError(f"whiten_alpha={self.whiten_alpha} means nothing with whiten=False.")
        if self.label_weight is not None:
            check_tol(self.label_weight, "label_weight")
            if self.coupling == "mapped":
                raise ValueError("label_weight means nothing with coupling='mapped', which learns views apart.")
        count_jobs(self.n_jobs)

    def _check_use_of_labels(self, labelled: bool, paired: bool) -> None:
        if not paired and self.coupling != "mapped":
            raise ValueError(
                "Labels for each view say that views are of different samples, from which only coupling='mapped' can"
                f" learn; got coupling={self.coupling!r}. Give one array of labels for pairs."
            )
        if self.label_weight is not None and not labelled:
            raise ValueError("label_weight needs labels: give y to fit.")

    def fit(self, Xs: Sequence[npt.ArrayLike], y: Any = None) -> Self:
        """Learn from samples seen in every view.

        Parameters
        ----------
        Xs : list of two or more arrays of shape (n_samples, n_features_v), or Views
            The views; row i of each belongs to the same sample.
        y : array of shape (n_samples,), or list of one such array a view, optional
            Labels of classes. A list of arrays, with ``coupling="mapped"``, says that the views are of different
            samples, whose numbers may differ: what they have in common are the classes.

        Returns
        -------
        self
        """
        self._check_parameters()
        views = check_all_views(Xs)
        widths = [view.shape[1] for view in views]
        labels, paired = check_labels(y, views)
        self._check_use_of_labels(labels is not None, paired)
        check_compare(self.compare, len(views), labelled=labels is not None)
        dtype = common_dtype(views)
        strength = (WHITEN_ALPHA if self.whiten_alpha is None else float(self.whiten_alpha)) if self.whiten else None
        whitenings = [fit_whitening(view, strength) for view in views]
        white = [whitening.apply(view, dtype) for whitening, view in zip(whitenings, views, strict=True)]
        few = min(len(view) for view in views) // SAMPLES_PER_ATOM
        n_components = self.n_components or min(max(few, FEWEST_ATOMS), MOST_ATOMS)
        settings = Settings(n_components, self.n_nonzero_coefs, self.max_iter, float(self.alpha), self.n_jobs)
        starts = seeds(self.random_state, self.n_dictionaries)
        classes, hot = (None, None) if labels is None else one_hot(labels)
        if self.coupling == "code":
            weight = 1.0 if self.label_weight is None else float(self.label_weight)
            members = fit_coupled(white, None if hot is None else hot[0], weight, starts, settings)
        else:
            members = fit_mapped(white, hot, paired, starts, settings)
        self._whitenings, self._members = whitenings, members
        self._keep(widths, classes, None if hot is None else np.concatenate(hot).mean(axis=0))
        keep_names(self, as_list(Xs))
        return self

    def _keep(self, widths: list[int], classes: Array | None, prior: Array | None) -> None:
        """Set what a fitted matcher shows; the whitenings and members are there."""
        self.components_ = [member.components for member in self._members]
        self.n_features_in_ = widths
        self._prior = prior
        if classes is not None:
            self.classes_ = classes
        elif hasattr(self, "classes_"):
            del self.classes_

    def similarity(
        self, queries: Any, gallery: npt.ArrayLike, *, source: int | Sequence[int] = 0, target: int = 1
    ) -> Array:
        """Return how alike each query and each sample of the gallery are.

        Parameters
        ----------
        queries : array of shape (n_queries, n_features_source), or list of such arrays
            Samples in the source view; a list, one array a view, where `source` is a list.
        gallery : array of shape (n_gallery, n_features_target)
            Samples in the target view.
        source : int or list of int, default=0
            Number of the view of the queries, or numbers of their views.
        target : int, default=1
            Number of the view of the gallery.

        Returns
        -------
        array of shape (n_queries, n_gallery)
            From -1 to 1, or with ``compare="labels"`` probabilities. Larger is more alike.
        """
        left, blocks, n_gallery = self._sides(queries, gallery, source, target)
        table: Array = np.empty((left.shape[0], n_gallery), left.dtype)

        def compare(rows: slice, *, start: int, right: Array) -> None:
            table[rows, start : start + right.shape[0]] = left[rows] @ right.T

        for start, right in blocks:
            self._over_queries(partial(compare, start=start, right=right), left.shape[0])
        return table

    def match(
        self,
        queries: Any,
        gallery: npt.ArrayLike,
        *,
        source: int | Sequence[int] = 0,
        target: int = 1,
        n: int | None = None,
        return_similarity: bool = False,
    ) -> Indices | tuple[Indices, Array]:
        """Rank the gallery for each query.

        Parameters
        ----------
        queries, gallery, source, target
            As in :meth:`similarity`.
        n : int, optional
            Return the n best only; all if left out, or if the gallery has fewer.
        return_similarity : bool, default=False
            Return the similarities, too.

        Returns
        -------
        indices : array of shape (n_queries, n)
            Numbers of samples of the gallery, the best first; of equally good ones the lower number.
        similarities : array of shape (n_queries, n)
            How alike they are; only with ``return_similarity=True``.
        """
        most = None if n is None else check_count(n, "n")
        left, blocks, n_gallery = self._sides(queries, gallery, source, target)
        most = n_gallery if most is None else min(most, n_gallery)
        indices: Indices = np.empty((left.shape[0], most), np.int64)
        values: Array = np.empty((left.shape[0], most), left.dtype)

        def rank(rows: slice, *, start: int, right: Array) -> None:
            known = indices[rows, : min(most, start)], values[rows, : min(most, start)]
            size = min(most, start + right.shape[0])
            indices[rows, :size], values[rows, :size] = _ranking.merge(*known, left[rows] @ right.T, start, most)

        for start, right in blocks:
            self._over_queries(partial(rank, start=start, right=right), left.shape[0])
        return (indices, values) if return_similarity else indices

    def predict(self, queries: Any, *, source: int | Sequence[int] = 0, target: int = 1) -> Array:
        """Predict one view from another, or from others.

        Parameters
        ----------
        queries, source
            As in :meth:`similarity`.
        target : int, default=1
            Number of the wanted view.

        Returns
        -------
        array of shape (n_queries, n_features_target)
            In the units of the view.
        """
        check_is_fitted(self, "components_")
        sources, wanted = check_direction(source, target, len(self.n_features_in_))
        given = self._given(queries, source, sources)
        return self._whitenings[wanted].undo(self._predicted(given, wanted))

    def score(self, Xs: Sequence[npt.ArrayLike], y: Any = None) -> float:
        """Return how well views find each other, as the mean over all pairs of views, in both directions.

        Parameters
        ----------
        Xs : list of arrays of shape (n_samples, n_features_v), or Views
            All views; each is the queries, and the gallery, of each other.
        y : array of shape (n_samples,), or list of one such array a view, optional
            Labels. With a list, views may be of different samples.

        Returns
        -------
        float
            The mean average precision (:func:`mean_average_precision`) with labels, the mean reciprocal rank of
            partners (:func:`mean_reciprocal_rank`) without.
        """
        check_is_fitted(self, "components_")
        views = check_all_views(Xs)
        if len(views) != len(self.n_features_in_):
            raise ValueError(f"Expected {len(self.n_features_in_)} views in Xs, got {len(views)}.")
        labels, _ = check_labels(y, views)
        found = [
            self._direction_score(as_list(Xs), labels, source, target)
            for source in range(len(views))
            for target in range(len(views))
            if source != target
        ]
        return float(np.mean(found))

    def _direction_score(self, views: Sequence[Any], labels: list[Array] | None, source: int, target: int) -> float:
        left, blocks, _ = self._sides(views[source], views[target], source, target)
        right = np.concatenate([block for _, block in blocks])

        def rate(rows: slice) -> Array:
            similarities = left[rows] @ right.T
            if labels is None:
                partners = np.arange(rows.start, rows.start + similarities.shape[0])
                return np.asarray(1 / partner_ranks(similarities, partners))
            return _ranking.average_precisions(similarities, labels[source][rows, None] == labels[target])

        return _ranking.mean_defined(np.concatenate(self._over_queries(rate, left.shape[0])))

    def _over_queries(self, function: Callable[[slice], Any], n_queries: int) -> list[Any]:
        """Return what a function gives for each block of queries; `n_jobs` threads in all, matrix products included."""
        blocks = [slice(start, start + QUERY_BLOCK) for start in range(0, n_queries, QUERY_BLOCK)]
        with one_blas_thread():
            return list(in_order(function, blocks, count_jobs(self.n_jobs), np.zeros(1, np.int32)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matcher to a file of data, without code, that :func:`coupledict.load` reads.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced, as a whole.
        """
        from ._saving import save

        check_is_fitted(self, "components_")
        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CrossModalMatcher:
        """Read a matcher that :meth:`save` wrote; it matches to the same bits.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        CrossModalMatcher

        Raises
        ------
        ModelFileError
            For a file that is damaged, not such a model, or written by a newer version.
        """
        from ._saving import load

        return load(path)

    def _sides(
        self, queries: Any, gallery: npt.ArrayLike, source: int | Sequence[int], target: int
    ) -> tuple[Array, Iterator[tuple[int, Array]], int]:
        """Return vectors of the queries, blocks of vectors of the gallery, and the gallery's size.

        However things are compared, the similarity is the product of two such vectors.
        """
        check_is_fitted(self, "components_")
        sources, wanted = check_direction(source, target, len(self.n_features_in_))
        parts = self._parts(sources, wanted)
        given = self._given(queries, source, sources)
        there = self._check_side(gallery, wanted, "gallery")
        dtype = common_dtype([*given.values(), there, *self._members[0].components])
        left = self._vectors(given, parts, sources, wanted).astype(dtype, copy=False)

        def blocks() -> Iterator[tuple[int, Array]]:
            for start in range(0, there.shape[0], GALLERY_BLOCK):
                block = self._whiten(there[start : start + GALLERY_BLOCK], wanted)
                yield start, self._vectors({wanted: block}, parts, sources, wanted).astype(dtype, copy=False)

        return left, blocks(), there.shape[0]

    def _vectors(self, views: dict[int, Array], parts: Parts, sources: tuple[int, ...], target: int) -> Array:
        """Return one vector a sample, from whitened views of it."""
        if parts == "labels":
            return self._probabilities(views)
        if parts == "codes":
            codes = [member.compared_codes(views, target, self.n_jobs) for member in self._members]
            return np.asarray(np.hstack([_unit(table) for table in codes]) / np.sqrt(len(codes)))
        found = []
        for view, weight in parts:
            own = views[view] if view in views else self._predicted(views, view)
            found.append(_unit(own) * np.sqrt(weight))
        return np.hstack(found)

    def _predicted(self, views: dict[int, Array], target: Target) -> Array:
        """Return the mean of what the dictionaries predict."""
        total = self._members[0].predict(views, target, self.n_jobs)
        for member in self._members[1:]:
            total += member.predict(views, target, self.n_jobs)
        return np.asarray(total / len(self._members))

    def _probabilities(self, views: dict[int, Array]) -> Array:
        """Return probabilities of the classes: predicted indicators, cut at 0 and made to sum up to 1."""
        scores = np.clip(self._predicted(views, LABELS) + self._prior, 0, None)
        total = scores.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, scores / np.where(total > 0, total, 1), self._prior))

    def _parts(self, sources: tuple[int, ...], target: int) -> Parts:
        """Return the views in which query and gallery are compared, with weights, or another comparison's name."""
        kind = check_compare(self.compare, len(self.n_features_in_), labelled=hasattr(self, "classes_"))
        if kind == "labels":
            return "labels"
        if kind == "codes":
            return "codes"
        if isinstance(kind, int):
            return [(kind, 1.0)]
        of_source = [(view, 1 / len(sources)) for view in sources]
        return {
            "target": [(target, 1.0)],
            "source": of_source,
            "both": [(target, 0.5), *((view, weight / 2) for view, weight in of_source)],
        }[kind]

    def _given(self, queries: Any, source: object, sources: tuple[int, ...]) -> dict[int, Array]:
        """Return the checked and whitened views of the queries by their numbers."""
        single = not isinstance(source, list | tuple | np.ndarray)
        queries = queries if single else as_list(queries)
        if not single and (not isinstance(queries, list | tuple) or len(queries) != len(sources)):
            raise ValueError(f"Expected queries to be a list of {len(sources)} arrays, one for each view of source.")
        arrays = [queries] if single else list(queries)
        names = ["queries"] if single else [f"queries[{i}]" for i in range(len(arrays))]
        views = {v: self._check_side(a, v, name) for v, a, name in zip(sources, arrays, names, strict=True)}
        counts = {len(view) for view in views.values()}
        if len(counts) > 1:
            raise ValueError(f"Expected the same number of samples in every view of queries, got {sorted(counts)}.")
        return {v: self._whiten(view, v) for v, view in views.items()}

    def _check_side(self, value: Any, view: int, name: str) -> Array:
        array = check_view(value, name)
        width = self.n_features_in_[view]
        if array.shape[1] != width:
            raise ValueError(f"Expected {name} to have the {width} features of view {view}, got {array.shape[1]}.")
        check_names_of(self, view, value, name)
        check_finite(array, name)
        return array

    def _whiten(self, array: Array, view: int) -> Array:
        dtype = common_dtype([array, *self._members[0].components])
        return self._whitenings[view].apply(array, dtype)


def _unit(table: Array) -> Array:
    """Return rows of norm 1; rows of zeros stay."""
    norms = np.sqrt(np.einsum("ij,ij->i", table, table))
    return np.asarray(table / np.where(norms > 0, norms, 1)[:, None])
