"""The decision which source is in focus in each cell, made for all cells together.

Where there is detail, its energy shows which source is in focus. Where no source has any, or only the faint halo of a
blurred edge nearby, this evidence is weak, and the neighbours decide. Semi-global matching (Hirschmueller, IEEE TPAMI
30(2), 2008) combines both: costs are aggregated along rows and columns, in both directions; a small change of the label
from one cell to the next costs little, a large one more, unless the brightness changes too. The sources of a focus
stack are in the order of their focus, so neighbouring labels are neighbouring depths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._grey import Grey
from ._opencv import opencv

Volume = npt.NDArray[np.float16]

NOISE_FLOOR = 0.5  # of focus energy, in variances of the noise: lower energies are not reliable
ENERGY_FLOOR = 0.05  # the same without noise
HALO_REACH = 7  # cells: how far the halo of a blurred edge reaches
HALO_SHARE = 0.2  # share of the strongest energy nearby below which energy may be a halo
SMALL_CHANGE, LARGE_CHANGE = 0.03, 0.15  # costs of changing the label by one, and by more
EDGE = 20.0  # difference of brightness between cells that makes a change cheap
CHEAPEST = 0.1
MOST_SMOOTHNESS = 1e3  # more makes no difference
UNCOVERED = 4.0  # cost of a source that does not reach a cell
INDIFFERENT = 0.03  # difference of costs that hardly matters
NOISY_INDIFFERENT = 0.15  # the same under noise, where the mean of more sources is better
NOISY = 5.0  # variance of the noise, in squared grey values, half-way between the two
REACH = 9  # cells along a side of the window in which a source is a candidate for pixels
PAIR_REACH = 3  # the same with only two sources, neither of which has the depths in between in focus
LEAST_WEIGHT = 0.03  # smaller weights become 0: most sources contribute nothing to most cells
AGREEMENT = 3.0  # difference of the brightness of two sources, in grey values, up to which they agree


@dataclass(frozen=True)
class Decision:
    """The decision about all cells.

    Attributes
    ----------
    costs : array of float16 of shape (n_sources, rows, columns)
        Cost of taking a cell from each source.
    labels : array of int of shape (rows, columns)
        The source with the lowest cost.
    confidence : array of float32 of shape (rows, columns)
        Strength of the evidence, from 0 to 1.
    indifferent : float
        Difference of costs that hardly matters.
    """

    costs: Volume
    labels: npt.NDArray[np.intp]
    confidence: Grey
    indifferent: float = INDIFFERENT

    def preference(self, number: int) -> Grey:
        """Return how close the cost of a source is to the lowest one, from 0 to 1, for each cell."""
        lowest = np.take_along_axis(self.costs, self.labels[None], 0)[0].astype(np.float32)
        found: Grey = np.exp((lowest - self.costs[number]) / np.float32(self.indifferent))
        return found

    def depth(self) -> Grey:
        """Return the mean label of each cell, weighted by :meth:`preference`."""
        total, weights = np.zeros(self.labels.shape, np.float32), np.zeros(self.labels.shape, np.float32)
        for number in range(len(self.costs)):
            near = self.preference(number)
            total += near * number
            weights += near
        return total / weights


def decide(energy: Volume, brightness: Volume, covered: list[Grey | None], noise: float, smoothness: float) -> Decision:
    """Choose a source for every cell, given the focus energy and brightness of all sources; `energy` is overwritten."""
    cv2 = opencv()
    strongest = energy.max(axis=0).astype(np.float32)
    nearby = cv2.dilate(strongest, np.ones((HALO_REACH, HALO_REACH), np.uint8))
    nearby = cv2.GaussianBlur(nearby, (0, 0), HALO_REACH / 3)
    floor = np.float32(NOISE_FLOOR * noise + ENERGY_FLOOR)
    confidence = strongest / (strongest + floor + np.float32(HALO_SHARE) * nearby)
    best = energy.argmax(axis=0)
    guide = np.take_along_axis(brightness, best[None], 0)[0].astype(np.float32)
    for number, reached in enumerate(covered):
        share = energy[number].astype(np.float32) / np.maximum(strongest, 1e-9)
        cost = confidence * (1 - share)
        if reached is not None:
            cost += np.float32(UNCOVERED) * (1 - reached)
        energy[number] = cost
    costs = _aggregate_costs(energy, guide, min(smoothness, MOST_SMOOTHNESS))
    indifferent = INDIFFERENT + (NOISY_INDIFFERENT - INDIFFERENT) * noise / (noise + NOISY)
    return Decision(costs, costs.argmin(axis=0), confidence, indifferent)


def _aggregate_costs(costs: Volume, guide: Grey, smoothness: float) -> Volume:
    """Return the costs aggregated along rows and columns, in both directions."""
    total = np.zeros_like(costs)
    for axis in (0, 1):
        near = np.moveaxis(costs, axis + 1, 1)
        sums = np.moveaxis(total, axis + 1, 1)
        steps = np.abs(np.diff(guide, axis=axis))
        ease = np.maximum(np.exp(-np.moveaxis(steps, axis, 0) / np.float32(EDGE)), np.float32(CHEAPEST))
        large = np.float32(LARGE_CHANGE * smoothness) * ease
        # Two sources are not neighbouring depths: a change from one to the other is a large one.
        small = large if len(costs) == 2 else np.minimum(np.float32(SMALL_CHANGE * smoothness), large)
        _aggregate_path(near, sums, small, large)
        _aggregate_path(near[:, ::-1], sums[:, ::-1], small[::-1], large[::-1])
    for number in range(len(costs)):
        total[number] -= 3 * costs[number]  # each of the four paths has counted it
    return total


def _aggregate_path(costs: Volume, total: Volume, small: Grey, large: Grey) -> None:
    """Add to `total` the costs of the best path from the first line to each line."""
    path = costs[:, 0].astype(np.float32)
    total[:, 0] += path
    for line in range(1, costs.shape[1]):
        lowest = path.min(axis=0)
        best = np.minimum(path, lowest + large[line - 1])
        np.minimum(best[1:], path[:-1] + small[line - 1], out=best[1:])
        np.minimum(best[:-1], path[1:] + small[line - 1], out=best[:-1])
        path = best
        path -= lowest
        path += costs[:, line]
        total[:, line] += path


def prior(decision: Decision, brightness: Volume, number: int, noise: float) -> Grey:
    """Return the weight of a source in each cell, from 0 to 1, before detail is compared pixel by pixel.

    It is large where the source is nearly as good as the best one, in the cell or near it, and has about the same
    brightness, which excludes the halos of defocused objects. Detail then decides among these candidates pixel by
    pixel; near the edge of an object in front, it often chooses another source than the cell does.
    """
    cv2 = opencv()
    reach = PAIR_REACH if len(decision.costs) == 2 else REACH
    window = np.ones((reach, reach), np.uint8)
    near = cv2.dilate(decision.preference(number), window)
    taken = np.take_along_axis(brightness, decision.labels[None], 0)[0].astype(np.float32)
    difference = brightness[number].astype(np.float32) - taken
    tolerance = np.float32(AGREEMENT**2 + noise / 2)
    found: Grey = near * np.exp(-difference * difference / (2 * tolerance))
    np.maximum(found, cv2.dilate((decision.labels == number).astype(np.float32), window), out=found)
    found[found < LEAST_WEIGHT] = 0
    return found
