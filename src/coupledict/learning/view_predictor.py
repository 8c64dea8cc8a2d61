"""A predictor of one view from others: what it consists of, the sums that it follows from, and how it is applied.

The heads of :mod:`coupledict.learning.choice` are all linear in the coordinates t of the source views, in the code c of
the sample, in its similarities s to point anchors, or in t near an anchor. So their weighted mean is one function::

    y = bias + t @ linear + c @ codes + s @ kernel + sum_k g_k(t) * (u(t) @ maps[k])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from scipy.sparse import csr_array

from ..coding.coder import Coder, Shortfall
from ..coding.coders import make_coder
from ..coding.passes import encode
from ..coding.recipe import Recipe
from ..coding.samples import Samples
from ..data.jobs import Resources, Restore, RowJob, Rows, SumJob
from ..data.moments import Moments
from ..foundation.arrays import Array, Floats
from ..foundation.progress import Record
from ..parallel.blas import one_blas_thread
from ..parallel.cancel import CancelToken
from ..parallel.jobs import Threads
from ..parallel.ordered import in_order
from .choice import HEADS, RANKS, Scores, leading_axes, local_coordinates, n_local
from .linear_maps import Products
from .local_maps import KINDS, Anchors, Kind, LocalSums

MOST_COORDINATES = 1024  # of the source views; more features are reduced to their leading principal components
MOST_MAPPED = 128  # components of the target that local maps predict; the linear part predicts all
ROWS_AT_ONCE = 4096
LEAST_CHUNK = 8192
MOST_SIZE = 1e6  # of settings in a file: coordinates have a mean squared norm of 1 for each view
MOST_SQUARE = 1.01  # of the norm of an anchor in a file, up to rounding errors
MAPS_DTYPE = np.dtype(np.float32)
N_CHUNKS = 4  # at most, so that few sums are in memory at a time

Total = TypeVar("Total", bound=Any)


@dataclass(frozen=True)
class Coordinates:
    """From source views to coordinates: the views, each times a factor, side by side, centred and turned.

    Attributes
    ----------
    factors : list of float
        One for each source view; they bring the views to equal energy.
    mean : array of shape (n_features,)
    axes : array of shape (n_features, n_coordinates)
        Principal axes, the leading ones first.
    """

    factors: list[float]
    mean: Array
    axes: Array

    @classmethod
    def of(cls, views: Sequence[Floats]) -> Self:
        """Return the coordinates for views of some samples."""
        energies = [float(np.mean(np.square(view - view.mean(axis=0)))) * view.shape[1] for view in views]
        factors = [1 / np.sqrt(energy) if energy > 0 else 1.0 for energy in energies]
        table = np.hstack([view * factor for view, factor in zip(views, factors, strict=True)])
        mean = table.mean(axis=0)
        most = min(MOST_COORDINATES, max(1, len(table) - 1))
        return cls(factors, mean, leading_axes(table - mean, most))

    def side_by_side(self, views: Sequence[Array]) -> Array:
        """Return the views side by side, not yet turned."""
        return np.hstack([view * view.dtype.type(factor) for view, factor in zip(views, self.factors, strict=True)])

    def __call__(self, views: Sequence[Array]) -> Array:
        """Return the coordinates of samples."""
        return np.asarray((self.side_by_side(views) - self.mean) @ self.axes)

    def astype(self, dtype: np.dtype[Any]) -> Coordinates:
        """Return the same in another number type."""
        return Coordinates(self.factors, self.mean.astype(dtype), np.ascontiguousarray(self.axes, dtype))


@dataclass(frozen=True)
class Maps:
    """Local maps, and how they are applied.

    Attributes
    ----------
    anchors : Anchors
    maps : array of shape (n_anchors, n_local, n_components)
        Of type float32, which is as precise as regressions on a part of the samples are; of entries up to 1.
    unit : float
        What they predict is multiplied by it.
    axes : array of shape (n_components, n_features), or None
        From what the maps predict to the features of the target; None if these are the same.
    """

    anchors: Anchors
    maps: Array
    unit: float
    axes: Array | None


@dataclass(frozen=True)
class ViewPredictor:
    """Predicts one view from others.

    Attributes
    ----------
    sources : tuple of int
    target : int
    coordinates : Coordinates
    constant : float
        The first coordinate of point maps.
    bias : array of shape (n_features,)
    linear : array of shape (n_coordinates, n_features)
    n_nonzero : int or None
        Atoms of a code; None stands for the rule of the learner.
    codes : array of shape (n_components, n_features), or None
    points : Anchors or None
    width : float
        How steeply a similarity falls.
    kernel : array of shape (n_anchors, n_features), or None
    maps : Maps or None
    shares : dict of float
        Of the heads.
    scores : Scores
        Errors of samples that were held out.
    """

    sources: tuple[int, ...]
    target: int
    coordinates: Coordinates
    constant: float
    bias: Array
    linear: Array
    n_nonzero: int | None
    codes: Array | None
    points: Anchors | None
    width: float
    kernel: Array | None
    maps: Maps | None
    shares: dict[str, float]
    scores: Scores

    def describe(self, names: Sequence[str] | None = None) -> Record:
        """Return what samples held out have shown, as plain data; views by name, if they have names."""
        scores = self.scores
        called = (lambda v: v) if names is None else (lambda v: names[v])
        entries = float(np.sqrt(max(1, scores.n_samples * self.bias.size)))
        errors = {"": scores.prediction, "ridge_": scores.ridge, "mean_": scores.mean}
        found: Record = {
            "sources": tuple(called(v) for v in self.sources),
            "target": called(self.target),
            "n_samples": scores.n_samples,
        }
        for name, error in errors.items():
            found[f"{name}r2"] = 1 - (error / scores.mean) ** 2 if scores.mean > 0 else 0.0
            found[f"{name}rmse"] = error / entries
        return found | {"shares": dict(self.shares)}

    def to_tensors(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the predictor as arrays and plain data of a file."""
        tensors = {
            "mean": self.coordinates.mean,
            "axes": self.coordinates.axes,
            "bias": self.bias,
            "linear": self.linear,
        }
        facts: dict[str, Any] = {
            "sources": list(self.sources),
            "target": self.target,
            "factors": self.coordinates.factors,
            "constant": self.constant,
            "n_nonzero": self.n_nonzero,
            "width": self.width,
            "shares": dict(self.shares),
            "scores": asdict(self.scores),
        }
        if self.codes is not None:
            tensors["codes"] = self.codes
        anchors = {}
        if self.points is not None and self.kernel is not None:
            tensors["kernel"] = self.kernel
            anchors["points"] = self.points
        if self.maps is not None:
            tensors["maps"] = self.maps.maps
            facts["map_unit"] = self.maps.unit
            anchors["map_anchors"] = self.maps.anchors
            if self.maps.axes is not None:
                tensors["map_axes"] = self.maps.axes
        for name, own in anchors.items():
            tensors |= {f"{name}.directions": own.directions, f"{name}.constants": own.constants}
            facts[name] = {"kind": own.kind, "radius": own.radius}
        return tensors, facts

    @classmethod
    def from_tensors(cls, tensors: dict[str, Array], facts: dict[str, Any]) -> Self:
        """Return the predictor of a file; raise KeyError, TypeError or ValueError if something is wrong with it."""

        def anchors(name: str) -> Anchors:
            own = facts[name]
            if own["kind"] not in KINDS:
                raise ValueError("its anchors are of no known kind")
            radius = _number(own["radius"])
            return Anchors(own["kind"], tensors[f"{name}.directions"], tensors[f"{name}.constants"], radius)

        numbers = [*facts["sources"], facts["target"]]
        n_nonzero = facts["n_nonzero"]
        if any(type(v) is not int for v in numbers) or not (n_nonzero is None or type(n_nonzero) is int):
            raise ValueError("its predictors are for no views")
        maps = None
        if "maps" in tensors:
            unit = _number(facts["map_unit"])
            maps = Maps(anchors("map_anchors"), tensors["maps"], unit, tensors.get("map_axes"))
        factors = [_number(factor) for factor in facts["factors"]]
        scores = facts["scores"]
        return cls(
            sources=tuple(facts["sources"]),
            target=facts["target"],
            coordinates=Coordinates(factors, tensors["mean"], tensors["axes"]),
            constant=_number(facts["constant"]),
            bias=tensors["bias"],
            linear=tensors["linear"],
            n_nonzero=n_nonzero,
            codes=tensors.get("codes"),
            points=anchors("points") if "kernel" in tensors else None,
            width=_number(facts["width"]),
            kernel=tensors.get("kernel"),
            maps=maps,
            shares={name: _number(facts["shares"][name]) for name in HEADS},
            scores=Scores(
                int(_number(scores["n_samples"])),
                *(_number(scores[name]) for name in ("prediction", "ridge", "mean")),
            ),
        )

    def check(self, widths: Sequence[int], n_atoms: int, dtype: np.dtype[Any]) -> None:
        """Raise ValueError unless its arrays fit each other, views of these widths, and so many atoms."""
        views = [*self.sources, self.target]
        if not self.sources or not all(0 <= v < len(widths) for v in views) or len(set(views)) < len(views):
            raise ValueError("its predictors are for no views")
        if self.n_nonzero is not None and not self.n_nonzero >= 1:
            raise ValueError("its predictors take codes of no atoms")
        n_features = widths[self.target]
        n_coordinates = self.linear.shape[0]
        shapes = [
            (self.coordinates.mean, (sum(widths[v] for v in self.sources),)),
            (self.coordinates.axes, (sum(widths[v] for v in self.sources), n_coordinates)),
            (self.bias, (n_features,)),
            (self.linear, (n_coordinates, n_features)),
        ]
        if self.codes is not None:
            shapes.append((self.codes, (n_atoms, n_features)))
        if self.points is not None and self.kernel is not None:
            shapes += _anchor_shapes(self.points, n_coordinates)
            shapes.append((self.kernel, (len(self.points), n_features)))
        if self.maps is not None:
            maps = self.maps.maps
            if maps.ndim != 3 or maps.shape[1] > n_local(self.maps.anchors.kind, min(RANKS[-1], n_coordinates)):
                raise ValueError("its local maps do not fit its coordinates")
            shapes += _anchor_shapes(self.maps.anchors, n_coordinates)
            n_mapped = n_features if self.maps.axes is None else maps.shape[2]
            shapes.append((maps, (len(self.maps.anchors), maps.shape[1], n_mapped)))
            if self.maps.axes is not None:
                shapes.append((self.maps.axes, (n_mapped, n_features)))
        if len(self.coordinates.factors) != len(self.sources):
            raise ValueError("its predictors have factors for other views")
        types = {id(self.maps.maps): MAPS_DTYPE} if self.maps is not None else {}
        if any(array.shape != shape or array.dtype != types.get(id(array), dtype) for array, shape in shapes):
            raise ValueError("its predictors do not fit its dictionaries")
        self._check_numbers()

    def _check_numbers(self) -> None:
        """Raise ValueError for numbers that no predictor has, and unless it has the parts that its shares stand for."""
        shares, scores = self.shares, self.scores
        parts = {
            "codes": self.codes is not None,
            "kernel": self.kernel is not None,
            "ridge_maps": self.maps is not None,
            "mean_maps": self.maps is not None,
        }
        has_maps = shares["ridge_maps"] + shares["mean_maps"] > 0
        wanted = {name: shares[name] > 0 if name in ("codes", "kernel") else has_maps for name in parts}
        if parts != wanted or not all(0 <= share <= 1 for share in shares.values()):
            raise ValueError("its predictors do not have the parts that their shares stand for")
        if min(scores.n_samples, scores.prediction, scores.ridge, scores.mean) < 0:
            raise ValueError("its predictors have errors below 0")
        sizes = [self.constant, self.width, *(anchors.radius for anchors in self._anchors)]
        if not all(0 <= size <= MOST_SIZE for size in sizes) or min(self.coordinates.factors) <= 0:
            raise ValueError("its predictors have settings that no predictor has")
        for anchors in self._anchors:
            squares = np.square(anchors.directions, dtype=np.float64).sum(axis=-1)
            if not squares.size or np.any(squares + np.square(anchors.constants, dtype=np.float64) > MOST_SQUARE):
                raise ValueError("its anchors are not of norm 1")

    @property
    def _anchors(self) -> list[Anchors]:
        """All anchors."""
        own = [self.points, None if self.maps is None else self.maps.anchors]
        return [anchors for anchors in own if anchors is not None]

    def __call__(self, views: Sequence[Array], codes: csr_array | None) -> Array:
        """Return the target view of samples from their source views and, if it is needed, their codes."""
        t = self.coordinates([np.asarray(view, self.bias.dtype) for view in views])
        out = t @ self.linear
        out += self.bias
        if self.codes is not None and codes is not None:
            out += codes @ self.codes
        correlations: dict[Kind, Array] = {}
        if self.points is not None and self.kernel is not None:
            correlations["points"] = self.points.correlations(t)
            out += np.exp(out.dtype.type(self.width) * (correlations["points"] - 1)) @ self.kernel
        if self.maps is not None:
            anchors = self.maps.anchors
            if anchors.kind not in correlations:
                correlations[anchors.kind] = anchors.correlations(t)
            membership = anchors.weigh(correlations[anchors.kind])
            rank = self.maps.maps.shape[1]
            u = local_coordinates(t, anchors.kind, self.constant)[:, :rank]
            mapped = np.zeros((len(t), self.maps.maps.shape[2]), MAPS_DTYPE)
            membership.apply(self.maps.maps, u.astype(MAPS_DTYPE), mapped)
            mapped = mapped if self.maps.axes is None else mapped @ self.maps.axes
            out += mapped * out.dtype.type(self.maps.unit)
        return out


def _number(value: Any) -> float:
    """Return a finite number of a file."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError("its predictors have settings that are not numbers")
    return float(value)


def _anchor_shapes(anchors: Anchors, n_coordinates: int) -> list[tuple[Array, tuple[int, ...]]]:
    """Return the arrays of anchors, and the shapes that they must have."""
    n_anchors = anchors.constants.size
    return [(anchors.directions, (n_anchors, n_coordinates)), (anchors.constants, (n_anchors,))]


def samples_lack(views: Sequence[Array]) -> bool:
    """Return whether an entry is missing."""
    return any(bool(np.isnan(view).any()) for view in views)


def fill_sources(views: Sequence[Array], sources: Sequence[int], moments: Moments | None) -> list[Array]:
    """Return some views with missing entries filled in from what these views know; without moments, by 0."""
    chosen = [views[v] for v in sources]
    if not samples_lack(chosen):
        return chosen
    if moments is None:
        return [np.nan_to_num(view) for view in chosen]
    table = np.hstack([view if v in sources else np.full_like(view, np.nan) for v, view in enumerate(views)])
    rows = np.flatnonzero(np.logical_or.reduce([np.isnan(view).any(axis=1) for view in chosen]))
    filled = moments.expect(table[rows])
    edges = np.cumsum([0, *(view.shape[1] for view in views)])
    result = []
    for v, view in zip(sources, chosen, strict=True):
        whole = np.array(view)
        whole[rows] = filled[:, edges[v] : edges[v + 1]]
        result.append(whole)
    return result


@dataclass(frozen=True)
class SumProducts(SumJob[Products]):
    """Adds up products of coordinates, codes and similarities with each other and with the target.

    Attributes
    ----------
    sources, target : list of int, int
        Positions of these views among those that are present.
    coordinates : Coordinates
    recipe : Recipe or None
        Codes the sources; None if there is no head that needs codes.
    points : Anchors or None
        None if there is no head that needs similarities.
    width : float
    """

    sources: Sequence[int]
    target: int
    coordinates: Coordinates
    recipe: Recipe | None
    points: Anchors | None
    width: float

    def do(self, samples: Samples, resources: Resources) -> Products:
        """Return the sums of a block."""
        codes = None
        if self.recipe is not None:
            chosen = samples.select(self.sources, self.recipe.dtype)
            codes = encode(resources.coder, chosen, resources.threads).as_csr(self.recipe.n_atoms)[0]

        def work(chunk: tuple[int, int]) -> Products:
            views = [np.asarray(view, np.float64) for view in samples.read(*chunk)]
            t = self.coordinates([views[v] for v in self.sources])
            features = [t]
            if codes is not None:
                features.append(codes[chunk[0] : chunk[1]].toarray())
            if self.points is not None:
                features.append(np.exp(self.width * (self.points.correlations(t) - 1)))
            return Products.over(np.hstack(features), views[self.target])

        return sum_chunks(len(samples), resources.threads, work)


@dataclass(frozen=True)
class SumMaps(SumJob[LocalSums]):
    """Adds up what local maps follow from.

    Attributes
    ----------
    sources, target : list of int, int
        Positions of these views among those that are present.
    coordinates : Coordinates
    anchors : Anchors
    constant : float
    rank : int
        Number of coordinates that the maps see.
    bases : list of (bias, linear)
        What the maps are to add to, one for each head; the sums have columns for each.
    axes : array of shape (n_features, n_components), or None
        What is left of the target is projected on these.
    """

    sources: Sequence[int]
    target: int
    coordinates: Coordinates
    anchors: Anchors
    constant: float
    rank: int
    bases: list[tuple[Floats, Floats | None]]
    axes: Floats | None

    def do(self, samples: Samples, resources: Resources) -> LocalSums:
        """Return the sums of a block."""

        def work(chunk: tuple[int, int]) -> LocalSums:
            views = [np.asarray(view, np.float64) for view in samples.read(*chunk)]
            t = self.coordinates([views[v] for v in self.sources])
            y = views[self.target]
            left = [y - bias - (0 if linear is None else t @ linear) for bias, linear in self.bases]
            if self.axes is not None:
                left = [own @ self.axes for own in left]
            u = local_coordinates(t, self.anchors.kind, self.constant)[:, : self.rank]
            membership = self.anchors.weigh(self.anchors.correlations(t))
            return LocalSums.over(u, np.hstack(left), membership)

        return sum_chunks(len(samples), resources.threads, work)


def sum_chunks(n: int, threads: Threads, work: Callable[[tuple[int, int]], Total]) -> Total:
    """Return the sum of what `work` returns for chunks of n samples; it does not depend on the number of threads."""
    size = max(LEAST_CHUNK, -(-n // N_CHUNKS))
    chunks = [(start, min(start + size, n)) for start in range(0, max(n, 1), size)]
    total: Any = None
    with one_blas_thread():
        for part in in_order(work, chunks, min(threads.count, len(chunks)), CancelToken(threads.cancel)):
            if total is None:
                total = part
            else:
                total += part
    return total  # type: ignore[no-any-return]


@dataclass(frozen=True)
class TargetPredictors:
    """Predicts one view of samples, each from the views that it has.

    Attributes
    ----------
    predictors : dict
        By source views.
    given : list of int
        Numbers of the views that are given.
    recipe : Recipe
        How samples with all views would be coded.
    moments : Moments or None
        Fill in what is missing of the sources.
    """

    predictors: dict[tuple[int, ...], ViewPredictor]
    given: list[int]
    recipe: Recipe
    moments: Moments | None

    @property
    def usable(self) -> list[int]:
        """Numbers of the views that are given, and that a predictor may take."""
        known = {v for sources in self.predictors for v in sources}
        return [v for v in self.given if v in known]

    def predictor_for(self, sources: Sequence[int]) -> ViewPredictor:
        """Return the predictor from just these views.

        If there is none: with moments, which fill in the other views, that from the most views; otherwise the best of
        those from some of these views.
        """
        own = self.predictors.get(tuple(sources))
        if own is not None:
            return own
        parts = [found for found in self.predictors.values() if set(found.sources) <= set(sources)]
        if self.moments is None and parts:
            return min(parts, key=lambda found: found.scores.prediction)
        return max(self.predictors.values(), key=lambda found: len(found.sources))

    def recipe_for(self, predictor: ViewPredictor) -> Recipe | None:
        """Return how samples are coded for a predictor; None if it needs no codes."""
        if predictor.codes is None:
            return None
        chosen, whole = list(predictor.sources), self.recipe
        recipe = replace(
            whole,
            dictionaries=[whole.dictionaries[v] for v in chosen],
            weights=np.asarray(whole.weights)[chosen],
            missing=whole.missing or not set(chosen) <= set(self.given),
        )
        if predictor.n_nonzero is None:
            return recipe
        return replace(recipe, rule=replace(recipe.rule, n_nonzero=predictor.n_nonzero))

    def predict(self, samples: Samples, threads: Threads) -> tuple[Array, Shortfall]:
        """Return the view, given the views of samples, and how many samples were not coded as asked."""
        n, dtype = len(samples), self.recipe.dtype
        reachable = self.predictors.values() if samples.missing else [self.predictor_for(self.usable)]
        recipes = {found.sources: self.recipe_for(found) for found in reachable}
        coders = {sources: make_coder(recipe, threads) for sources, recipe in recipes.items() if recipe is not None}
        samples = samples.select([self.given.index(v) for v in self.usable], dtype)
        out = np.empty((n, next(iter(self.predictors.values())).bias.size), dtype)

        def work(chunk: tuple[int, int]) -> Shortfall:
            views = samples.read(*chunk)
            if not all(np.isfinite(view).all() for view in views):
                samples.check_finite()
            shortfall = Shortfall()
            for sources, rows in _patterns(self.usable, views):
                known = {v: view[rows] for v, view in zip(self.usable, views, strict=True)}
                predicted, own = self._predict(sources, known, coders)
                out[chunk[0] : chunk[1]][rows] = predicted
                shortfall += own if sources else Shortfall(len(predicted), unknown=len(predicted))
            return shortfall

        chunks = [(start, min(start + ROWS_AT_ONCE, n)) for start in range(0, n, ROWS_AT_ONCE)]
        total = Shortfall()
        with one_blas_thread():
            for part in in_order(work, chunks, max(1, min(threads.count, len(chunks))), CancelToken(threads.cancel)):
                total += part
        return out, total

    def _predict(
        self, sources: Sequence[int], known: dict[int, Array], coders: dict[tuple[int, ...], Coder]
    ) -> tuple[Array, Shortfall]:
        """Return the view of samples that have these source views, at least in part."""
        predictor = self.predictor_for(sources)
        n, dtype = len(next(iter(known.values()))), self.recipe.dtype
        every = [
            known[v] if v in known else np.full((n, atoms.shape[1]), np.nan, dtype)
            for v, atoms in enumerate(self.recipe.dictionaries)
        ]
        codes, shortfall = None, Shortfall()
        if predictor.sources in coders:
            coder = coders[predictor.sources]
            chosen = [every[v] for v in predictor.sources]
            coded = encode(coder, Samples(chosen, dtype, missing=True), Threads())
            codes, shortfall = coded.as_csr(coder.n_atoms)[0], coder.count_shortfall(coded)
        return predictor(fill_sources(every, predictor.sources, self.moments), codes), shortfall


def _patterns(numbers: list[int], views: Sequence[Array]) -> Iterator[tuple[list[int], Any]]:
    """Yield sets of these views with the samples that have just these."""
    absent = np.stack([np.isnan(view).all(axis=1) for view in views])
    if not absent.any():
        yield numbers, slice(None)
        return
    patterns, kinds = np.unique(absent, axis=1, return_inverse=True)
    for kind, pattern in enumerate(patterns.T):
        yield [v for v, gone in zip(numbers, pattern, strict=True) if not gone], np.flatnonzero(kinds.ravel() == kind)


@dataclass(frozen=True)
class PredictView(RowJob):
    """Predicts a view of samples.

    Attributes
    ----------
    targets : TargetPredictors
    width : int
        Number of features of the view.
    restore : callable or None
        From views to views in the units of the samples.
    """

    targets: TargetPredictors
    width: int
    restore: Restore | None

    @property
    def templates(self) -> list[Any]:
        """An empty view."""
        return [np.empty((0, self.width), self.targets.recipe.dtype)]

    def do(self, samples: Samples, resources: Resources) -> Rows:
        """Return the view of a block."""
        predicted, shortfall = self.targets.predict(samples, resources.threads)
        return Rows([predicted] if self.restore is None else self.restore([predicted]), shortfall)

    @property
    def tol(self) -> float | None:
        """The tolerance of the codes."""
        return self.targets.recipe.rule.tol
