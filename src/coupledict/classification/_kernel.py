"""From features to classes: ridge regression with a Gaussian kernel around training samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ._blending import MOST_SHARPNESS
from ._heads import fit_head, misfit, stretch
from ._label_views import Numbers

MOST_EXACT = 2000  # samples that are all landmarks
MOST_LANDMARKS = 1500  # of more samples; of 5,000 made ones, 1,000 are a point of accuracy worse than 2,000
MOST_CHOOSING = 600  # samples by which width and penalty of the kernel are chosen
ROWS = 4096
JITTER = 1e-8  # added to the kernel matrix of landmarks, which may be alike
FACTORS, FURTHER = (0.5, 1.5), (0.15, 5.0)  # rates to choose from, relative to 1 / median squared distance
PENALTIES = 10.0 ** np.arange(-5.0, 2.1, 0.5)
SMALLER = (1.0, 10**-0.5)  # more samples need smaller penalties than those that choose


@dataclass(frozen=True)
class KernelHead:
    """A decision by likeness to landmarks: ``exp(-rate * ||x - landmark||^2) @ coef + intercept``.

    Attributes
    ----------
    landmarks : array of shape (n_landmarks, n_features)
        Training samples, as the head sees them.
    rate : float
    coef : array of shape (n_landmarks, n_classes)
    intercept : array of shape (n_classes,)
    ridge_alpha : float
        The penalty, relative to the mean squared column of the features that the kernel stands for.
    """

    landmarks: Floats
    rate: float
    coef: Floats
    intercept: Floats
    ridge_alpha: float

    def __call__(self, inputs: Floats) -> Floats:
        """Return the decisions for inputs (n_samples, n_features)."""
        out = np.empty((inputs.shape[0], self.intercept.size))
        with one_blas_thread():
            for start in range(0, inputs.shape[0], ROWS):
                alike = likeness(inputs[start : start + ROWS], self.landmarks, self.rate)
                out[start : start + ROWS] = alike @ self.coef + self.intercept
        return out

    def tensors(self, start: str) -> dict[str, Array]:
        """Return all parts but the landmarks as arrays, for a file."""
        numbers = np.array([self.rate, self.ridge_alpha])
        return {f"{start}.coef": self.coef, f"{start}.intercept": self.intercept, f"{start}.numbers": numbers}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], start: str, landmarks: Floats, n_classes: int) -> KernelHead:
        """Return the head of which :meth:`tensors` gave the arrays."""
        coef, intercept, numbers = (tensors[f"{start}.{name}"] for name in ("coef", "intercept", "numbers"))
        n = landmarks.shape[0]
        if (coef.shape, intercept.shape, numbers.shape) != ((n, n_classes), (n_classes,), (2,)):
            raise ValueError("its head with a kernel does not fit its features")
        rate, ridge_alpha = (float(number) for number in numbers)
        if not rate > 0 or not ridge_alpha >= 0:
            raise ValueError(f"its head with a kernel has a rate of {rate} and a penalty of {ridge_alpha}")
        return cls(landmarks, rate, coef, intercept, ridge_alpha)


@dataclass(frozen=True)
class KernelRoute:
    """The way from samples with any views to decisions, and the sharpness of the probabilities."""

    head: KernelHead
    sharpness: float

    def tensors(self) -> dict[str, Array]:
        """Return all parts as arrays, for a file."""
        found = self.head.tensors("kernel") | {"kernel.landmarks": self.head.landmarks}
        found["kernel.numbers"] = np.append(found["kernel.numbers"], self.sharpness)
        return found

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], n_features: int, n_classes: int) -> KernelRoute:
        """Return the route of which :meth:`tensors` gave the arrays."""
        landmarks, numbers = check_landmarks(tensors["kernel.landmarks"], n_features), tensors["kernel.numbers"]
        if numbers.shape != (3,) or not 0 < numbers[2] <= MOST_SHARPNESS:
            raise ValueError(f"its head with a kernel has a sharpness of {numbers[2:]}")
        own = {**tensors, "kernel.numbers": numbers[:2]}
        return cls(KernelHead.from_tensors(own, "kernel", landmarks, n_classes), float(numbers[2]))


def check_landmarks(landmarks: Array, n_features: int) -> Floats:
    """Return the landmarks of a file."""
    if landmarks.ndim != 2 or landmarks.shape[0] == 0 or landmarks.shape[1] != n_features:
        raise ValueError("its head with a kernel does not fit its features")
    return landmarks


def likeness(left: Floats, right: Floats, rate: float) -> Floats:
    """Return the Gaussian kernel of each row of the one and each row of the other."""
    return np.asarray(np.exp(-rate * squared_distances(left, right)))


def squared_distances(left: Floats, right: Floats) -> Floats:
    """Return the squared distance of each row of the one and each row of the other."""
    lengths = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    return np.asarray(np.maximum(lengths - 2 * left @ right.T, 0))


def choose_landmarks(y: Numbers, most_exact: int = MOST_EXACT, most: int = MOST_LANDMARKS) -> Numbers:
    """Return the numbers of the samples that others are compared with: all, or `most` of more than `most_exact`."""
    return spread(y, y.size if y.size <= most_exact else most)


def spread(y: Numbers, most: int) -> Numbers:
    """Return the numbers of up to `most` samples, spread evenly over the classes, in order."""
    order = np.argsort(y, kind="stable")
    n = min(y.size, most)
    return np.sort(order[np.arange(n) * y.size // n])


def _median(distances: Floats) -> float:
    n = distances.shape[0]
    return float(np.median(distances[~np.eye(n, dtype=bool)])) or 1.0 if n > 1 else 1.0


def choose_kernel(inputs: list[Floats], targets: Floats, weights: Floats, y: Numbers) -> tuple[int, float, float]:
    """Return which of several ways to scale the features is best, the factor of the rate, and the penalty.

    All are chosen by the leave-one-out errors of some samples, up to `MOST_CHOOSING`; the way by usual rates, and then
    the rate.
    """
    chosen = spread(y, MOST_CHOOSING)
    roots = np.sqrt(weights[chosen])[:, None]
    Y = (targets[chosen] - np.average(targets[chosen], axis=0, weights=weights[chosen])) * roots
    with one_blas_thread():
        distances = [squared_distances(features[chosen], features[chosen]) for features in inputs]
        medians = [_median(own) for own in distances]

        def attempt(number: int, factor: float) -> tuple[float, int, float, float]:
            kernel = np.exp(-factor / medians[number] * distances[number])
            error, penalty = _least_error((kernel + kernel.mean()) * roots * roots.T, Y)
            return error, number, factor, penalty

        best = min(attempt(number, factor) for number in range(len(inputs)) for factor in FACTORS)
        best = min(best, *(attempt(best[1], factor) for factor in FURTHER))
    return best[1:]


def _least_error(kernel: Floats, Y: Floats) -> tuple[float, float]:
    """Return the smallest leave-one-out error over all penalties, and its penalty."""
    energies, axes = scipy.linalg.eigh(kernel)
    energies = np.maximum(energies, 0)
    products, squares = axes.T @ Y, axes**2
    errors = []
    for penalty in PENALTIES:
        inverse = 1 / (energies + penalty)
        errors.append(misfit(axes @ (inverse[:, None] * products) / (squares @ inverse)[:, None], Y))
    least = int(np.argmin(errors))
    return errors[least], float(PENALTIES[least])


def fit_kernel_head(
    inputs: Floats,
    targets: Floats,
    weights: Floats,
    ridge_alpha: float | None,
    chosen: Numbers,
    factor: float = 1.0,
    penalty: float = 1.0,
) -> tuple[KernelHead, Floats]:
    """Return the head, and its decision for each sample when left out of the regression.

    Landmarks are the `chosen` samples; if these are not all, this is Nystroem's method. The rate is `factor` over the
    median squared distance of landmarks. If `ridge_alpha` is None, the penalty is `penalty`, which was chosen with a
    part of the samples, or a smaller one if that gives smaller leave-one-out errors.
    """
    landmarks = inputs[chosen]
    penalties = [penalty] if len(inputs) <= MOST_CHOOSING else [penalty * step for step in SMALLER]
    with one_blas_thread():
        distances = squared_distances(landmarks, landmarks)
        rate = factor / _median(distances)
        kernel = np.exp(-rate * distances)
        kernel[np.diag_indices_from(kernel)] += JITTER
        if len(chosen) == len(inputs):
            order = np.argsort(chosen)
            coef, intercept, alpha, own = _exact(kernel, targets[chosen], weights[chosen], ridge_alpha, penalties)
            left_out = own[order]
        else:
            root = scipy.linalg.cholesky(kernel, lower=True)
            turned = scipy.linalg.solve_triangular(root, likeness(landmarks, inputs, rate), lower=True).T
            head, left_out = fit_head(
                turned, targets, weights, ridge_alpha or 0.0, penalties=penalties if ridge_alpha is None else ()
            )
            coef = scipy.linalg.solve_triangular(root, head.coef, lower=True, trans="T")
            intercept, alpha = head.intercept, head.ridge_alpha
    return KernelHead(np.ascontiguousarray(landmarks), rate, np.ascontiguousarray(coef), intercept, alpha), left_out


def _exact(
    kernel: Floats, targets: Floats, weights: Floats, ridge_alpha: float | None, penalties: list[float]
) -> tuple[Floats, Floats, float, Floats]:
    """Return coefficients, intercept, relative penalty and decisions left out, with every sample as a landmark.

    With ``A = kernel + penalty / weights``, coefficients are ``A^-1 (targets - intercept)`` and sum to 0, which makes
    the intercept free; their ratio to the diagonal of the inverse is the error of a sample left out. Where the penalty
    is chosen, decisions are stretched as :func:`fit_head` does.
    """
    share = weights / weights.sum()
    middle, mean, roots = kernel @ share, share @ targets, np.sqrt(weights)[:, None]
    centred = roots * (targets - mean)
    unit = float(weights @ (np.diag(kernel) - 2 * middle + share @ middle)) / len(kernel) or 1.0
    best: tuple[float, Floats, Floats, float, Floats] | None = None
    for penalty in penalties if ridge_alpha is None else [ridge_alpha * unit]:
        inverse = _inverse(kernel + np.diag(penalty / weights))
        sums = inverse.sum(axis=0)
        intercept = sums @ targets / sums.sum()
        coef = inverse @ targets - np.outer(sums, intercept)
        errors = coef / np.maximum(np.diag(inverse) - sums**2 / sums.sum(), 1e-300)[:, None]
        error = misfit(roots * errors, centred)
        if best is None or error < best[0]:
            factor = stretch(roots * errors, centred) if ridge_alpha is None else 1.0
            decided = mean + factor * (targets - errors - mean)
            best = error, factor * coef, mean + factor * (intercept - mean), penalty / unit, decided
    assert best is not None
    return best[1:]


def _inverse(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix."""
    root, info = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    if info:
        return np.asarray(scipy.linalg.pinvh(matrix))
    half, _ = scipy.linalg.lapack.dpotri(root, lower=1)
    half = np.tril(half)
    return np.asarray(half + np.tril(half, -1).T)
