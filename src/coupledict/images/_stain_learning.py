"""The colours of stains: exact non-negative lasso codes over a few stains, and the dictionary that fits them best.

The optical density of a pixel, x = -log(light / white), is a sum of stain colours d_k of norm 1, each times its density
c_k at the pixel (Beer and Lambert). Densities and colours that minimise

    sum over pixels of 1/2 ||x - sum_k c_k d_k||^2 + alpha sum_k c_k,    c >= 0, d >= 0, ||d_k|| = 1

are found by alternation: codes are exact, because a code over one to three stains has at most eight supports; colours
follow from the sums C^T C and C^T X. Every other step extrapolates (SQUAREM, Varadhan and Roland 2008) and is undone if
the objective grows; this converges in tens of steps where alternation alone needs hundreds.
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
EXTREME_SHARE = 0.01  # of the pixels, left out at both ends of the range of colours that gives the start
TOLERANCE = 1e-5  # degrees by which a step may still rotate a colour
MOST_STEPS = 500
COLOUR_STEPS = 100  # largest number of passes over the colours in one step; a few are enough
COLOUR_TOLERANCE = 1e-12
LEAST_DETERMINANT = 1e-4  # of the Gram matrix of a support; stains closer to dependence are not used together


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
    For every support, the equations G_SS c_S = b_S are solved. A positive solution is feasible, with the value
    b_S^T c_S / 2; the feasible solution with the largest value is the minimum. If the support of one contains that of
    another, it is the better of the two, and their values are not compared, which would need more digits than there
    are. Each pixel is computed by itself in a fixed order, so the result does not depend on which pixels are computed
    together. Stains that are almost dependent, such as two that differ by half a degree, are not used together, because
    rounding would decide about their shares.
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
            value = solution[0] * correlations[support[0]]
            for part, stain in zip(solution[1:], support[1:], strict=True):
                value += part * correlations[stain]
            better &= (value > best) | ((chosen | bits) == bits)
            np.copyto(best, value, where=better)
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
    """Learned stain colours, the objective per pixel at every step, and whether learning converged."""

    colours: Floats
    objectives: list[float]
    converged: bool


def learn_colours(
    od: Floats, weights: Floats, start: Floats, alpha: float, meter: Meter, most_steps: int = MOST_STEPS
) -> Learned:
    """Learn stain colours from the optical densities of weighted pixels.

    `od` is of shape (n_pixels, 3), `start` of shape (n_stains, 3).
    """
    problem = _Problem(od, weights, alpha, meter)
    here = start
    first = problem.step(here)
    while len(problem.objectives) < most_steps:
        second = problem.step(first.colours)
        if largest_angle(first.colours, second.colours) < TOLERANCE:
            return Learned(second.colours, problem.objectives, converged=True)
        change = first.colours - here
        curvature = second.colours - first.colours - change
        length = max(1.0, float(np.linalg.norm(change) / max(float(np.linalg.norm(curvature)), 1e-300)))
        extrapolated = unit_rows(np.maximum(here + 2 * length * change + length**2 * curvature, 0))
        trial = problem.step(extrapolated)
        here, first = (
            (extrapolated, trial)
            if trial.objective <= second.objective
            else (second.colours, problem.step(second.colours))
        )
        if largest_angle(here, first.colours) < TOLERANCE:
            return Learned(first.colours, problem.objectives, converged=True)
    return Learned(first.colours, problem.objectives, converged=False)


@dataclass(frozen=True)
class _Step:
    """The objective at the colours before a step, and the colours after it."""

    objective: float
    colours: Floats


class _Problem:
    """Pixels to learn from; a step codes all of them, then finds the best colours for these codes."""

    def __init__(self, od: Floats, weights: Floats, alpha: float, meter: Meter) -> None:
        self._channels = [np.ascontiguousarray(channel) for channel in od.T]
        self._shares = weights / weights.sum()
        self._alpha = alpha
        self._meter = meter
        self._energy = float(self._shares @ (od**2).sum(axis=1))
        self.objectives: list[float] = []

    def step(self, colours: Floats) -> _Step:
        correlations = [_combine(colour, self._channels) - self._alpha for colour in colours]
        codes = exact_codes(correlations, colours @ colours.T)
        weighted = [code * self._shares for code in codes]
        gram = np.array([[own @ other for other in codes] for own in weighted])
        cross = np.array([[own @ channel for channel in self._channels] for own in weighted])
        fit = self._energy - 2 * float((cross * colours).sum()) + float((gram * (colours @ colours.T)).sum())
        objective = fit / 2 + self._alpha * float(sum(own.sum() for own in weighted))
        self.objectives.append(objective)
        self._meter.advance()
        return _Step(objective, _best_colours(gram, cross, colours))


def _best_colours(gram: Floats, cross: Floats, colours: Floats) -> Floats:
    """Return the colours that fit the codes best, by cyclic updates; a colour that no pixel uses is kept."""
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


def find_start(od: Floats, weights: Floats, n_stains: int) -> Floats:
    """Return colours to start from: the extreme directions in the principal plane (Macenko et al. 2009).

    One stain starts with the main direction, three start with the standard colours.
    """
    _, axes = np.linalg.eigh((od * weights[:, None]).T @ od)
    main, second = axes[:, 2] * (1 if axes[:, 2].sum() > 0 else -1), axes[:, 1]
    if n_stains == 1:
        return unit_rows(np.maximum(main, 0)[None])
    if n_stains == 3:
        return unit_rows(STANDARD)
    angles = np.arctan2(od @ second, od @ main)
    ends = [weighted_quantile(angles, weights, share) for share in (EXTREME_SHARE, 1 - EXTREME_SHARE)]
    return sort_by_hue(unit_rows(np.array([np.maximum(math.cos(a) * main + math.sin(a) * second, 0) for a in ends])))


def sort_by_hue(colours: Floats) -> Floats:
    """Return colours ordered by the ratio of absorbed blue to red light: hematoxylin, then eosin, then brown."""
    return colours[np.argsort(np.arctan2(colours[:, 2], colours[:, 0]), kind="stable")]


def unit_rows(colours: Floats) -> Floats:
    """Return colours of norm 1."""
    rows: Floats = colours / np.linalg.norm(colours, axis=1, keepdims=True)
    return rows


def largest_angle(one: Floats, other: Floats) -> float:
    """Return the largest angle between corresponding colours, in degrees."""
    chord = float(np.linalg.norm(one - other, axis=1).max())
    return math.degrees(2 * math.asin(min(1.0, chord / 2)))


def smallest_angle(colours: Floats) -> float:
    """Return the smallest angle between two of the colours, in degrees; 180 for one colour alone."""
    pairs = itertools.combinations(colours, 2)
    return min((largest_angle(one[None], other[None]) for one, other in pairs), default=180.0)
