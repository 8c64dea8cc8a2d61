"""The colours of stains: exact non-negative lasso codes over a few stains, and the dictionary that suits them best.

The optical density of a pixel, x = -log(light / white), is a sum of stain colours d_k of norm 1, each times its density
c_k at the pixel (Beer and Lambert). Densities and colours that minimise

    sum over pixels of 1/2 ||x - sum_k c_k d_k||^2 + alpha sum_k c_k,    c >= 0, d >= 0, ||d_k|| = 1

are found in turns: codes are exact, because a code over one to three stains has at most eight supports; colours come
from the sums C^T C and C^T X. Every other step extrapolates (SQUAREM, Varadhan and Roland 2008) and is taken back where
the objective grows, so that tens of steps converge where the turns alone need hundreds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..foundation.arrays import Array, Floats
from ..foundation.progress import Meter
from ._stain_pictures import weighted_quantile

#: Hematoxylin, eosin and diaminobenzidine, as Ruifrok and Johnston (2001) measured them.
STANDARD: Floats = np.array([[0.65, 0.70, 0.29], [0.07, 0.99, 0.11], [0.27, 0.57, 0.78]])
EXTREME_SHARE = 0.01  # of the pixels, left out at both ends of the fan of colours that gives the start
TOLERANCE = 1e-5  # degrees by which a step may still turn a colour
MOST_STEPS = 500
COLOUR_STEPS = 100  # most turns over the colours in one step; a few are enough
COLOUR_TOLERANCE = 1e-12
LEAST_DETERMINANT = 1e-4  # of products of stains; those that are closer to dependent are not used together


def exact_codes(correlations: Sequence[Array], gram: Floats) -> list[Array]:
    """Return non-negative codes c that minimise 1/2 c^T G c - b^T c for each pixel, exact up to rounding.

    Parameters
    ----------
    correlations : list of arrays of one shape
        For each stain, its products with the pixels, minus the penalty: b.
    gram : array of shape (n_stains, n_stains)
        Products of the stains with each other: G.

    Returns
    -------
    list of arrays
        For each stain, its densities.

    Notes
    -----
    For every support, the equations G_SS c_S = b_S are solved. Where the solution is positive it is allowed, and worth
    b_S^T c_S / 2; the best allowed one is the minimum. One whose support contains that of another is the better of the
    two, and what they are worth need not be compared, which would take more digits than there are. Each pixel is
    computed by itself in a fixed order, so the result does not depend on which pixels are computed together. Stains
    that are almost dependent, such as two that differ by half a degree, are not used together, because rounding would
    decide about their shares.
    """
    n_stains = len(correlations)
    codes = [np.maximum(correlations[0], 0), *(np.zeros_like(b) for b in correlations[1:])]
    best = codes[0] * codes[0]
    chosen = np.ones(best.shape, np.uint8)  # supports as bits
    supports = itertools.chain.from_iterable(itertools.combinations(range(n_stains), n + 1) for n in range(n_stains))
    for support in itertools.islice(supports, 1, None):
        products = gram[np.ix_(support, support)]
        if np.linalg.det(products) < LEAST_DETERMINANT:
            continue
        bits = np.uint8(sum(1 << stain for stain in support))
        inverse = np.linalg.inv(products).astype(best.dtype)
        solution = [_combine(row, [correlations[stain] for stain in support]) for row in inverse]
        better = solution[0] > 0
        for part in solution[1:]:
            better &= part > 0
        if len(support) < n_stains:
            worth = solution[0] * correlations[support[0]]
            for part, stain in zip(solution[1:], support[1:], strict=True):
                worth += part * correlations[stain]
            better &= (worth > best) | ((chosen | bits) == bits)
            np.copyto(best, worth, where=better)
            np.copyto(chosen, bits, where=better)
        for stain in range(n_stains):
            np.copyto(codes[stain], solution[support.index(stain)] if stain in support else 0, where=better)
    return codes


def _combine(weights: Array, arrays: Sequence[Array]) -> Array:
    """Return the weighted sum of arrays, added in their order."""
    total: Array = weights[0] * arrays[0]
    for weight, array in zip(weights[1:], arrays[1:], strict=True):
        total += weight * array
    return total


@dataclass(frozen=True)
class Learned:
    """Stain colours that were learned, and the objective per pixel at every step; `converged` or not."""

    colours: Floats
    course: list[float]
    converged: bool


def learn_colours(
    densities: Floats, weights: Floats, start: Floats, alpha: float, meter: Meter, most_steps: int = MOST_STEPS
) -> Learned:
    """Learn stain colours from the optical densities of pixels, each of which counts by its weight.

    `densities` are of shape (n_pixels, 3), `start` of shape (n_stains, 3).
    """
    problem = _Problem(densities, weights, alpha, meter)
    here = start
    first = problem.step(here)
    while len(problem.course) < most_steps:
        second = problem.step(first.colours)
        if turn(first.colours, second.colours) < TOLERANCE:
            return Learned(second.colours, problem.course, converged=True)
        change = first.colours - here
        bend = second.colours - first.colours - change
        length = max(1.0, float(np.linalg.norm(change) / max(float(np.linalg.norm(bend)), 1e-300)))
        far = unit_rows(np.maximum(here + 2 * length * change + length**2 * bend, 0))
        trial = problem.step(far)
        here, first = (
            (far, trial) if trial.objective <= second.objective else (second.colours, problem.step(second.colours))
        )
        if turn(here, first.colours) < TOLERANCE:
            return Learned(first.colours, problem.course, converged=True)
    return Learned(first.colours, problem.course, converged=False)


@dataclass(frozen=True)
class _Step:
    """The objective at the colours that a step began with, and the colours that it found."""

    objective: float
    colours: Floats


class _Problem:
    """Pixels to learn from; a step codes them all and then finds the best colours for these codes."""

    def __init__(self, densities: Floats, weights: Floats, alpha: float, meter: Meter) -> None:
        self._channels = [np.ascontiguousarray(channel) for channel in densities.T]
        self._shares, self._alpha, self._meter = weights / weights.sum(), alpha, meter
        self._energy = float(self._shares @ (densities**2).sum(axis=1))
        self.course: list[float] = []

    def step(self, colours: Floats) -> _Step:
        correlations = [_combine(colour, self._channels) - self._alpha for colour in colours]
        codes = exact_codes(correlations, colours @ colours.T)
        weighted = [code * self._shares for code in codes]
        gram = np.array([[own @ other for other in codes] for own in weighted])
        cross = np.array([[own @ channel for channel in self._channels] for own in weighted])
        fit = self._energy - 2 * float((cross * colours).sum()) + float((gram * (colours @ colours.T)).sum())
        objective = fit / 2 + self._alpha * float(sum(own.sum() for own in weighted))
        self.course.append(objective)
        self._meter.advance()
        return _Step(objective, _best_colours(gram, cross, colours))


def _best_colours(gram: Floats, cross: Floats, colours: Floats) -> Floats:
    """Return the colours that suit the codes best, by turns over the colours; one that no pixel uses stays."""
    colours = colours.copy()
    for _ in range(COLOUR_STEPS):
        before = colours.copy()
        for stain in range(len(colours)):
            wanted = np.maximum(cross[stain] - gram[stain] @ colours + gram[stain, stain] * colours[stain], 0)
            if (norm := float(np.linalg.norm(wanted))) > 0:
                colours[stain] = wanted / norm
        if np.abs(colours - before).max() < COLOUR_TOLERANCE:
            break
    return colours


def find_start(densities: Floats, weights: Floats, n_stains: int) -> Floats:
    """Return colours to start from: the ends of the fan of colours in its plane (Macenko et al. 2009).

    One stain begins with the main direction, three begin with the standard colours.
    """
    _, axes = np.linalg.eigh((densities * weights[:, None]).T @ densities)
    main, second = axes[:, 2] * (1 if axes[:, 2].sum() > 0 else -1), axes[:, 1]
    if n_stains == 1:
        return unit_rows(np.maximum(main, 0)[None])
    if n_stains == 3:
        return unit_rows(STANDARD)
    angles = np.arctan2(densities @ second, densities @ main)
    ends = [weighted_quantile(angles, weights, share) for share in (EXTREME_SHARE, 1 - EXTREME_SHARE)]
    return in_order_of_hue(
        unit_rows(np.array([np.maximum(math.cos(a) * main + math.sin(a) * second, 0) for a in ends]))
    )


def in_order_of_hue(colours: Floats) -> Floats:
    """Return colours ordered by the blue light that they absorb beside the red: hematoxylin, then eosin, then brown."""
    return colours[np.argsort(np.arctan2(colours[:, 2], colours[:, 0]), kind="stable")]


def unit_rows(colours: Floats) -> Floats:
    """Return colours of norm 1."""
    rows: Floats = colours / np.linalg.norm(colours, axis=1, keepdims=True)
    return rows


def turn(one: Floats, other: Floats) -> float:
    """Return the largest angle between colours of the same number, in degrees."""
    chord = float(np.linalg.norm(one - other, axis=1).max())
    return math.degrees(2 * math.asin(min(1.0, chord / 2)))


def smallest_angle(colours: Floats) -> float:
    """Return the smallest angle between two of the colours, in degrees; 180 for one colour alone."""
    pairs = itertools.combinations(colours, 2)
    return min((turn(one[None], other[None]) for one, other in pairs), default=180.0)
