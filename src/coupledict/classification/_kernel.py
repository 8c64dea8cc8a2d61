"""From features to classes: ridge regression with a Gaussian kernel around training samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..foundation.arrays import Array, Floats
from ..parallel.blas import one_blas_thread
from ._blending import MOST_INVERSE_TEMPERATURE
from ._heads import best_rescaling, fit_head, scale_free_error
from ._label_views import Numbers

MOST_EXACT = 2000  # samples that are all landmarks
MOST_LANDMARKS = 1500  # of more samples; 1,000 of 5,000 simulated ones lose a point of accuracy against 2,000
MOST_CHOOSING = 600  # samples for choosing the width and the penalty of the kernel
ROWS = 4096
JITTER = 1e-8  # added to the kernel matrix of landmarks, which may coincide
FACTORS, FURTHER = (0.5, 1.5), (0.15, 5.0)  # rates to choose from, relative to 1 / median squared distance
PENALTIES = 10.0 ** np.arange(-5.0, 2.1, 0.5)
SMALLER = (1.0, 10**-0.5)  # the full data need smaller penalties than the samples that chose


@dataclass(frozen=True)
class KernelHead:
    """A decision by Gaussian kernels around landmarks: ``exp(-rate * ||x - landmark||^2) @ coef + intercept``.

    Attributes
    ----------
    landmarks : array of shape (n_landmarks, n_features)
        Training samples, as the head sees them.
    rate : float
    coef : array of shape (n_landmarks, n_classes)
    intercept : array of shape (n_classes,)
    ridge_alpha : float
        The penalty, relative to the mean squared column of the kernel's feature map.
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
                kernel_values = rbf_kernel(inputs[start : start + ROWS], self.landmarks, self.rate)
                out[start : start + ROWS] = kernel_values @ self.coef + self.intercept
        return out

    def tensors(self, start: str) -> dict[str, Array]:
        """Return all parts but the landmarks as arrays, for a file."""
        numbers = np.array([self.rate, self.ridge_alpha])
        return {f"{start}.coef": self.coef, f"{start}.intercept": self.intercept, f"{start}.numbers": numbers}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], start: str, landmarks: Floats, n_classes: int) -> KernelHead:
        """Return the head whose arrays :meth:`tensors` returned."""
        coef, intercept, numbers = (tensors[f"{start}.{name}"] for name in ("coef", "intercept", "numbers"))
        n = landmarks.shape[0]
        if (coef.shape, intercept.shape, numbers.shape) != ((n, n_classes), (n_classes,), (2,)):
            raise ValueError("its head with a kernel does not fit its features")
        rate, ridge_alpha = (float(number) for number in numbers)
        if not rate > 0 or not ridge_alpha >= 0:
            raise ValueError(f"its head with a kernel has a rate of {rate} and a penalty of {ridge_alpha}")
        return cls(landmarks, rate, coef, intercept, ridge_alpha)


@dataclass(frozen=True)
class CalibratedKernelHead:
    """The kernel head for samples with any views, and the inverse temperature of its probabilities."""

    head: KernelHead
    inverse_temperature: float

    def tensors(self) -> dict[str, Array]:
        """Return all parts as arrays, for a file."""
        found = self.head.tensors("kernel") | {"kernel.landmarks": self.head.landmarks}
        found["kernel.numbers"] = np.append(found["kernel.numbers"], self.inverse_temperature)
        return found

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], n_features: int, n_classes: int) -> CalibratedKernelHead:
        """Return the head whose arrays :meth:`tensors` returned."""
        landmarks, numbers = check_landmarks(tensors["kernel.landmarks"], n_features), tensors["kernel.numbers"]
        if numbers.shape != (3,) or not 0 < numbers[2] <= MOST_INVERSE_TEMPERATURE:
            raise ValueError(f"its head with a kernel has an inverse temperature of {numbers[2:]}")
        own = {**tensors, "kernel.numbers": numbers[:2]}
        return cls(KernelHead.from_tensors(own, "kernel", landmarks, n_classes), float(numbers[2]))


def check_landmarks(landmarks: Array, n_features: int) -> Floats:
    """Return the landmarks of a file."""
    if landmarks.ndim != 2 or landmarks.shape[0] == 0 or landmarks.shape[1] != n_features:
        raise ValueError("its head with a kernel does not fit its features")
    return landmarks


def rbf_kernel(left: Floats, right: Floats, rate: float) -> Floats:
    """Return the Gaussian kernel between the rows of the two arrays."""
    return np.asarray(np.exp(-rate * squared_distances(left, right)))


def squared_distances(left: Floats, right: Floats) -> Floats:
    """Return the squared distances between the rows of the two arrays."""
    lengths = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    return np.asarray(np.maximum(lengths - 2 * left @ right.T, 0))


def choose_landmarks(y: Numbers, most_exact: int = MOST_EXACT, most: int = MOST_LANDMARKS) -> Numbers:
    """Return the indices of the landmarks: all samples, or `most` if there are more than `most_exact`."""
    return stratified_subset(y, y.size if y.size <= most_exact else most)


def stratified_subset(y: Numbers, most: int) -> Numbers:
    """Return the indices of up to `most` samples, in order, in the proportions of the classes."""
    order = np.argsort(y, kind="stable")
    n = min(y.size, most)
    return np.sort(order[np.arange(n) * y.size // n])


def _median(distances: Floats) -> float:
    n = distances.shape[0]
    return float(np.median(distances[~np.eye(n, dtype=bool)])) or 1.0 if n > 1 else 1.0


def choose_kernel(inputs: list[Floats], targets: Floats, weights: Floats, y: Numbers) -> tuple[int, float, float]:
    """Return which of several ways to scale the features is best, the factor of the rate, and the penalty.

    All are chosen by the leave-one-out errors of up to `MOST_CHOOSING` samples: first the scaling, at typical rates,
    then the rate.
    """
    chosen = stratified_subset(y, MOST_CHOOSING)
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
        errors.append(scale_free_error(axes @ (inverse[:, None] * products) / (squares @ inverse)[:, None], Y))
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
    """Return the head, and its leave-one-out decision for each sample.

    Landmarks are the `chosen` samples; with fewer than all, this is the Nyström method. The rate is `factor` over the
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
            turned = scipy.linalg.solve_triangular(root, rbf_kernel(landmarks, inputs, rate), lower=True).T
            head, left_out = fit_head(
                turned, targets, weights, ridge_alpha or 0.0, penalties=penalties if ridge_alpha is None else ()
            )
            coef = scipy.linalg.solve_triangular(root, head.coef, lower=True, trans="T")
            intercept, alpha = head.intercept, head.ridge_alpha
    return KernelHead(np.ascontiguousarray(landmarks), rate, np.ascontiguousarray(coef), intercept, alpha), left_out


def _exact(
    kernel: Floats, targets: Floats, weights: Floats, ridge_alpha: float | None, penalties: list[float]
) -> tuple[Floats, Floats, float, Floats]:
    """Return coefficients, intercept, relative penalty and leave-one-out decisions, with every sample as a landmark.

    With ``A = kernel + penalty / weights``, coefficients are ``A^-1 (targets - intercept)`` and sum to 0, which makes
    the intercept free; their ratio to the diagonal of the inverse is the leave-one-out error. Where the penalty is
    chosen, decisions are rescaled as in :func:`fit_head`.
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
        error = scale_free_error(roots * errors, centred)
        if best is None or error < best[0]:
            factor = best_rescaling(roots * errors, centred) if ridge_alpha is None else 1.0
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
