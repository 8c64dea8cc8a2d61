"""Kernel ridge regression from some views to the others, which complements the dictionaries.

Codes consist of few atoms and change in steps from sample to sample; a regression on distances to training samples
changes smoothly. The errors of the two differ, and those of the regression are smaller where samples are few or lie on
curved surfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ..foundation.arrays import Array, Floats
from ..foundation.block_sizes import SIZES
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import count_jobs
from ..parallel.ordered import in_order
from ._mapped import LABELS, Sources, Target, evenly_spaced, sets_of_views, with_views
from ._whitening import has_view, mean_energy

MOST_LANDMARKS = 2048  # training samples that others are compared with
SAMPLES_PER_LANDMARK = 8
JITTER = 1e-9  # added to the diagonal where landmarks are fewer than samples, relative to its mean


def kernel(samples: Sequence[Array], landmarks: Sequence[Array], energies: Iterable[float], width: float) -> Floats:
    """Return exp(-width * distance^2), where the distance is the mean over views, relative to their mean energies."""
    exponent: Any = 0.0
    for own, other, energy in zip(samples, landmarks, energies, strict=True):
        a, b = np.asarray(own, np.float64), np.asarray(other, np.float64)
        squares = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b)
        exponent = exponent + np.maximum(squares - 2 * (a @ b.T), 0.0) / (energy or 1.0)
    return np.asarray(np.exp(exponent * (-width / len(samples))))


@dataclass(frozen=True)
class KernelMaps:
    """Regressions from the distances between samples and landmarks, which are training samples.

    Attributes
    ----------
    width : float
        Factor of the squared distance: the larger, the narrower the kernel.
    energies : array of shape (n_views,)
        Mean squared norms of samples of each whitened view.
    landmarks : dict
        For each set of source views, the landmarks in these views.
    maps : dict
        For each set of source views, the map from its kernel to each target.
    """

    width: float
    energies: Floats
    landmarks: dict[Sources, list[Array]]
    maps: dict[Sources, dict[Target, Array]]

    def predict(self, views: dict[int, Array], target: Target, n_jobs: int | None) -> Array:
        """Predict a view, or scores of labels, from whitened views."""
        sources = tuple(sorted(views))
        if sources not in self.maps:  # with many views, not every set has a map: average those of single views
            alone = [self.predict({v: view}, target, n_jobs) for v, view in views.items()]
            return np.asarray(sum(alone[1:], alone[0]) / len(alone))
        given, table = [views[v] for v in sources], self.maps[sources][target]
        n, energies = len(given[0]), self.energies[list(sources)]
        step = SIZES.kernel_rows

        def work(start: int) -> Array:
            rows = [view[start : start + step] for view in given]
            return np.asarray(kernel(rows, self.landmarks[sources], energies, self.width) @ table)

        with one_blas_thread():
            parts = list(in_order(work, range(0, max(n, 1), step), count_jobs(n_jobs)))
        return np.concatenate(parts).astype(table.dtype, copy=False)

    # To files and back

    def tensors(self) -> dict[str, Array]:
        """Return everything as arrays of a file."""
        tensors: dict[str, Array] = {"kernel.width": np.array([self.width]), "kernel.energies": self.energies}
        for sources, views in self.landmarks.items():
            name = "-".join(map(str, sources))
            tensors |= {f"landmarks.{name}.{v}": view for v, view in zip(sources, views, strict=True)}
            tensors |= {f"kernelmap.{name}.{target}": table for target, table in self.maps[sources].items()}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], widths: Sequence[int], n_classes: int | None) -> KernelMaps:
        """Return the maps of a file: at least from each view to all others, of these widths, and to labels, if any."""
        n_views, (width,), energies = len(widths), tensors["kernel.width"], tensors["kernel.energies"]
        if energies.shape != (n_views,) or np.any(energies < 0) or not width > 0:
            raise ValueError("its kernel does not fit its views")
        names = {key.split(".")[1] for key in tensors if key.startswith("kernelmap.")}
        sets = sorted({tuple(int(v) for v in name.split("-")) for name in names})
        landmarks, maps = {}, {}
        for sources in {*sets, *((v,) for v in range(n_views))}:
            if not all(0 <= v < n_views for v in sources):
                raise ValueError(f"its kernel knows views {list(sources)}")
            name = "-".join(map(str, sources))
            own = [tensors[f"landmarks.{name}.{v}"] for v in sources]
            targets: dict[Target, int] = {v: widths[v] for v in range(n_views) if v not in sources}
            if n_classes is not None:
                targets[LABELS] = n_classes
            tables = {target: tensors[f"kernelmap.{name}.{target}"] for target in targets}
            n = len(own[0])
            if any(view.shape != (n, widths[v]) for v, view in zip(sources, own, strict=True)) or any(
                tables[target].shape != (n, size) for target, size in targets.items()
            ):
                raise ValueError(f"its kernel of views {list(sources)} contradicts itself")
            landmarks[sources], maps[sources] = own, tables
        return cls(float(width), energies, landmarks, maps)


def fit_kernel(
    views: list[Array],
    one_hot: list[Array] | None,
    paired: bool,
    width: float,
    alpha: float,
    most_landmarks: int = MOST_LANDMARKS,
) -> KernelMaps:
    """Fit regressions from each set of whitened views to the others, and to labels.

    The penalty `alpha` is relative to the kernel of a sample with itself, which is 1. If samples are not paired, the
    target of a sample is the mean of its class in the other view.
    """
    energies = np.array([mean_energy(view) for view in views])
    most_rows = SAMPLES_PER_LANDMARK * most_landmarks
    sets = sets_of_views(len(views)) if paired else [(v,) for v in range(len(views))]
    landmarks: dict[Sources, list[Array]] = {}
    maps: dict[Sources, dict[Target, Array]] = {}
    with one_blas_thread():
        for sources in sets:
            there = np.logical_and.reduce([has_view(views[v]) for v in sources])
            chosen = np.flatnonzero(there)
            chosen = chosen[evenly_spaced(chosen.size, most_landmarks)]
            own = landmarks[sources] = [np.ascontiguousarray(views[v][chosen]) for v in sources]
            targets = _targets(views, one_hot, paired, sources)
            maps[sources] = _solve_all(
                lambda rows, own=own, sources=sources: kernel(  # type: ignore[misc]
                    [views[v][rows] for v in sources], own, energies[list(sources)], width
                ),
                chosen,
                {
                    target: (table, _rows_of(views, sources, target, paired, most_rows))
                    for target, table in targets.items()
                },
                alpha,
            )
    return KernelMaps(width, energies, landmarks, maps)


def _targets(views: list[Array], one_hot: list[Array] | None, paired: bool, sources: Sources) -> dict[Target, Array]:
    targets: dict[Target, Array] = {}
    for v, view in enumerate(views):
        if v in sources:
            continue
        if paired:
            targets[v] = view
        else:
            assert one_hot is not None  # without pairs, views share nothing but the classes
            targets[v] = one_hot[sources[0]] @ (one_hot[v] / one_hot[v].sum(axis=0)).T @ view
    if one_hot is not None:
        targets[LABELS] = one_hot[sources[0]] - one_hot[sources[0]].mean(axis=0)
    return {target: table.astype(views[0].dtype, copy=False) for target, table in targets.items()}


def _rows_of(views: list[Array], sources: Sources, target: Target, paired: bool, most: int) -> npt.NDArray[np.int64]:
    """Return the indices of the samples that a regression learns from."""
    rows = np.flatnonzero(with_views(views, (*sources, target))) if paired else np.arange(len(views[sources[0]]))
    return np.asarray(rows[evenly_spaced(rows.size, most)])


def _solve_all(
    kernel_of: Callable[[npt.NDArray[np.int64]], Floats],
    landmarks: npt.NDArray[np.int64],
    targets: dict[Target, tuple[Array, npt.NDArray[np.int64]]],
    alpha: float,
) -> dict[Target, Array]:
    """Return the map from the kernel with the landmarks to each target, fitted to the rows of the target."""
    at_landmarks = kernel_of(landmarks)
    maps: dict[Target, Array] = {}
    groups: dict[bytes, list[Target]] = {}  # targets that are learned from the same samples
    for target, (_, rows) in targets.items():
        groups.setdefault(rows.tobytes(), []).append(target)
    for same in groups.values():
        rows = targets[same[0]][1]
        right = np.hstack([targets[target][0][rows] for target in same]).astype(np.float64)
        if np.array_equal(rows, landmarks):
            solved = solve_kernel(at_landmarks, right, alpha)
        else:
            solved = _solve_with_fewer(kernel_of, at_landmarks, rows, right, alpha)
        sizes = [targets[target][0].shape[1] for target in same]
        parts = np.split(solved.astype(targets[same[0]][0].dtype), np.cumsum(sizes)[:-1], axis=1)
        maps |= {target: np.ascontiguousarray(part) for target, part in zip(same, parts, strict=True)}
    return {target: maps[target] for target in targets}


def solve_kernel(table: Floats, right: Floats, alpha: float) -> Floats:
    """Return the coefficients where all samples are landmarks."""
    return np.asarray(scipy.linalg.solve(table + alpha * np.eye(len(table)), right, assume_a="pos"))


def _solve_with_fewer(
    kernel_of: Callable[[npt.NDArray[np.int64]], Floats],
    at_landmarks: Floats,
    rows: npt.NDArray[np.int64],
    right: Floats,
    alpha: float,
) -> Floats:
    """Return the coefficients of landmarks that predict other samples best (the subset of regressors method)."""
    left, sums = alpha * at_landmarks, np.zeros((len(at_landmarks), right.shape[1]))
    step = SIZES.kernel_rows
    for start in range(0, rows.size, step):
        block = kernel_of(rows[start : start + step])
        left += block.T @ block
        sums += block.T @ right[start : start + step]
    left += JITTER * np.trace(left) / len(left) * np.eye(len(left))
    return np.asarray(scipy.linalg.solve(left, sums, assume_a="pos"))
