"""Regressions that predict one view from another, each with settings chosen on training rows held out.

Below 1,000 rows five folds choose, above that the last fifth of the rows, which lies together: neighbours in a picture
are not independent. The chosen settings are then fitted on all training rows. What is capped to bound the time: at
most 10,000 rows tune, 4,000 of them kernel ridge, boosting and perceptron; kernel ridge has at most 2,000 landmarks
(1,000 while it is tuned); boosting learns from at most 5,000 rows and predicts 16 principal components of the target (4
while it is tuned) from 64 of the source; the perceptron sees at most 256 components and makes at most 60 passes.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
from _data import Array
from _prediction_sets import spread
from scipy.spatial.distance import pdist
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.metrics import euclidean_distances
from sklearn.model_selection import KFold
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

Predict = Callable[[Array], Array]
Setting = tuple[Any, ...]
FEW = 1_000
RIDGE_PENALTIES = np.logspace(-10, 4, 29)
KERNEL_PENALTIES = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
NEIGHBOURS = (1, 2, 3, 5, 9, 15, 25, 50, 100)
COMPONENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


class Rival:
    """A regression with settings; a subclass gives `settings` and `fit`, or `path` where settings share work."""

    tuning_rows = 10_000
    settings: Iterable[Setting] = ((),)

    def fit(self, setting: Setting, x: Array, y: Array, *, tuning: bool = False) -> Predict:
        """Fit one setting."""
        raise NotImplementedError

    def path(self, x: Array, y: Array, x_valid: Array) -> Iterator[tuple[Setting, Array]]:
        """Yield the predictions of all settings."""
        for setting in self.settings:
            yield setting, self.fit(setting, x, y, tuning=True)(x_valid)

    def tuned(self, x: Array, y: Array) -> tuple[Setting, Predict]:
        """Choose a setting on rows held out and fit it on all rows."""
        settings = list(self.settings)
        setting = settings[0] if len(settings) == 1 else self._choose(x, y)
        return setting, self.fit(setting, x, y)

    def _choose(self, x: Array, y: Array) -> Setting:
        rows = spread(len(x), self.tuning_rows)
        errors: dict[Setting, float] = {}
        counts: dict[Setting, int] = {}
        for train, valid in _folds(len(rows)):
            x_train, y_train, truth = x[rows[train]], y[rows[train]], y[rows[valid]]
            for setting, guess in self.path(x_train, y_train, x[rows[valid]]):
                errors[setting] = errors.get(setting, 0.0) + float(np.sum((guess - truth) ** 2))
                counts[setting] = counts.get(setting, 0) + 1
        everywhere = max(counts.values())
        return min((setting for setting in errors if counts[setting] == everywhere), key=errors.__getitem__)


def _folds(n_rows: int) -> list[tuple[Array, Array]]:
    if n_rows < FEW:
        return list(KFold(min(5, n_rows)).split(np.arange(n_rows)))
    cut = n_rows - n_rows // 5
    return [(np.arange(cut), np.arange(cut, n_rows))]


def _scaler(x: Array, scaled: bool) -> Predict:
    """Return what standardises features, or centres them and divides them by one number."""
    if scaled:
        scaler = StandardScaler().fit(x)
        return lambda given: np.asarray(scaler.transform(given))
    center = x.mean(axis=0)
    size = np.sqrt(np.mean((x - center) ** 2)) or 1.0
    return lambda given: (given - center) / size


def _components(x: Array, most: int) -> Predict:
    """Return what takes principal components where there are more features than `most`."""
    if x.shape[1] <= most:
        return np.asarray
    components = PCA(min(most, len(x) - 1), random_state=0).fit(x)
    return lambda given: np.asarray(components.transform(given))


class Mean(Rival):
    """The mean of the training rows."""

    def fit(self, setting: Setting, x: Array, y: Array, *, tuning: bool = False) -> Predict:
        mean = y.mean(axis=0)
        return lambda given: np.broadcast_to(mean, (len(given), len(mean)))


class Ridge(Rival):
    """``RidgeCV``, with or without ``StandardScaler``."""

    settings = ((False,), (True,))

    def fit(self, setting: Setting, x: Array, y: Array, *, tuning: bool = False) -> Predict:
        scale = _scaler(x, *setting)
        model = RidgeCV(RIDGE_PENALTIES * len(x)).fit(scale(x), y)
        return lambda given: np.asarray(model.predict(scale(given)))


class PartialLeastSquares(Rival):
    """``PLSRegression``; models of fewer components are part of the largest one."""

    settings = tuple((count,) for count in COMPONENTS)

    def fit(self, setting: Setting, x: Array, y: Array, *, tuning: bool = False) -> Predict:
        (count,) = setting
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns where a target is constant, and where nothing is left to explain
            model = PLSRegression(count, max_iter=100).fit(x, y)
        return lambda given: np.asarray(model.predict(given)).reshape(len(given), -1)

    def path(self, x: Array, y: Array, x_valid: Array) -> Iterator[tuple[Setting, Array]]:
        most = min(COMPONENTS[-1], x.shape[1], len(x) - 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PLSRegression(most, max_iter=100).fit(x, y)
        scores = ((x_valid - model._x_mean) / model._x_std) @ model.x_rotations_
        for count in COMPONENTS:
            if count <= most:
                guess = scores[:, :count] @ model.y_loadings_[:, :count].T * model._y_std + model._y_mean
                yield (count,), guess


class KernelRidge(Rival):
    """Ridge regression on Gaussian kernels at landmarks, drawn from the training rows."""

    tuning_rows = 4_000
    settings = tuple(itertools.product((False, True), WIDTHS, KERNEL_PENALTIES))

    def fit(self, setting: Setting, x: Array, y: Array, *, tuning: bool = False) -> Predict:
        scaled, width, penalty = setting
        kernel, solve = _landmarks(x, y, scaled, width, 2_000)
        weights, mean = solve(penalty), y.mean(axis=0)
        return lambda given: kernel(given) @ weights + mean

    def path(self, x: Array, y: Array, x_valid: Array) -> Iterator[tuple[Setting, Array]]:
        for scaled, width in itertools.product((False, True), WIDTHS):
            kernel, solve = _landmarks(x, y, scaled, width, 1_000)
            features, mean = kernel(x_valid), y.mean(axis=0)
            for penalty in KERNEL_PENALTIES:
                yield (scaled, width, penalty), features @ solve(penalty) + mean


def _landmarks(x: Array, y: Array, scaled: bool, width: float, most: int) -> tuple[Predict, Callable[[float], Array]]:
    """Return the kernels between samples and landmarks, and what solves for the weights of a penalty.

    The width is a multiple of the median distance between landmarks.
    """
    scale, mean = _scaler(x, scaled), y.mean(axis=0)
    z, rng = scale(x), np.random.default_rng(0)
    landmarks = z[np.sort(rng.choice(len(z), size=min(most, len(z)), replace=False))]
    gamma = 0.5 / (width * np.median(pdist(landmarks[:1_000]))) ** 2

    def kernel(given: Array) -> Array:
        return np.asarray(np.exp(-gamma * euclidean_distances(scale(given), landmarks, squared=True)))

    own = np.exp(-gamma * euclidean_distances(landmarks, squared=True))
    gram, moments = np.zeros_like(own), np.zeros((len(own), y.shape[1]))
    for start in range(0, len(x), 2_000):
        block = kernel(x[start : start + 2_000])
        gram += block.T @ block
        moments += block.T @ (y[start : start + 2_000] - mean)
    gram += 1e-10 * np.trace(gram) / len(gram) * np.eye(len(gram))

    def solve(penalty: float) -> Array:
        return np.asarray(scipy.linalg.solve(gram + penalty * len(x) * own, moments, assume_a="sym"))

    return kernel, solve


class Neighbours(Rival):
    """The mean of the targets of the nearest neighbours."""

    settings = tuple(itertools.product((False, True), NEIGHBOURS))

    def fit(self, setting: Setting, x: Array, y: Array, *, tuning: bool = False) -> Predict:
        scaled, count = setting
        scale = _scaler(x, scaled)
        model = NearestNeighbors(n_neighbors=count).fit(scale(x))
        return lambda given: np.asarray(y[model.kneighbors(scale(given), return_distance=False)].mean(axis=1))

    def path(self, x: Array, y: Array, x_valid: Array) -> Iterator[tuple[Setting, Array]]:
        most = min(NEIGHBOURS[-1], len(x))
        for scaled in (False, True):
            scale = _scaler(x, scaled)
            nearest = NearestNeighbors(n_neighbors=most).fit(scale(x))
            order = nearest.kneighbors(scale(x_valid), return_distance=False)
            for count in NEIGHBOURS:
                if count <= most:
                    yield (scaled, count), y[order[:, :count]].mean(axis=1)


class Boosting(Rival):
    """``HistGradientBoostingRegressor`` on principal components of source and target."""

    tuning_rows = 4_000
    settings = ((4,), (16,))

    def fit(self, setting: Setting, x: Array, y: Array, *, tuning: bool = False) -> Predict:
        (leaves,) = setting
        rows = spread(len(x), 5_000)
        narrow = _components(x[rows], 64)
        target = PCA(min(4 if tuning else 16, y.shape[1], len(rows) - 1), random_state=0).fit(y[rows])
        given = narrow(x[rows])
        models = [
            HistGradientBoostingRegressor(
                learning_rate=0.1,
                max_leaf_nodes=leaves,
                max_iter=100,
                min_samples_leaf=min(20, max(2, len(rows) // 10)),
                early_stopping=len(rows) >= 100,
                random_state=0,
            ).fit(given, score)
            for score in target.transform(y[rows]).T
        ]

        def predict(x_test: Array) -> Array:
            table = narrow(x_test)
            return np.asarray(target.inverse_transform(np.stack([model.predict(table) for model in models], axis=1)))

        return predict


class Perceptron(Rival):
    """``MLPRegressor`` with one hidden layer and early stopping."""

    tuning_rows = 4_000
    settings = tuple(itertools.product((64, 256), (1e-4, 1.0)))

    def fit(self, setting: Setting, x: Array, y: Array, *, tuning: bool = False) -> Predict:
        width, penalty = setting
        narrow, mean = _components(x, 256), y.mean(axis=0)
        scale = _scaler(narrow(x), True)
        size = np.sqrt(np.mean((y - mean) ** 2))
        model = MLPRegressor(
            hidden_layer_sizes=(width,),
            alpha=penalty,
            early_stopping=len(x) >= 100,
            max_iter=60 if len(x) >= FEW else 200,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(scale(narrow(x)), (y - mean) / size)
        return lambda given: np.asarray(model.predict(scale(narrow(given)))).reshape(len(given), -1) * size + mean


RIVALS: dict[str, Rival] = {
    "RidgeCV": Ridge(),
    "PLS": PartialLeastSquares(),
    "kernel ridge": KernelRidge(),
    "kNN": Neighbours(),
    "boosting": Boosting(),
    "MLP": Perceptron(),
    "mean": Mean(),
}
