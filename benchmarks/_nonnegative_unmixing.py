"""Unmixing of the hyperspectral cubes Samson and Jasper Ridge: learned spectra and abundances beside rivals.

A method gets the pixels and the number of materials. Spectra are judged by the angle to the true ones, in degrees, best
permutation; abundances by the root mean squared error. Only ratios of abundances can be told from real scenes, where
light and shade scale every pixel, so spectra are scaled to norm 1 and abundances to the sum 1, those of the rivals too.
FCLS, which makes sums 1 by itself, stands beside that. Settings are chosen on one cube, by the mean angle, and reported
on the other.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _data import Array
from _main import Options, duration, join, table
from _nonnegative_problems import N_JOBS
from scipy.io import loadmat
from scipy.optimize import linear_sum_assignment, nnls
from sklearn.decomposition import NMF

from coupledict import CoupledDictionaryLearning, DictionaryLearning, sparse_encode

CUBES = ("Jasper", "Samson")
Found = tuple[Array, Array]


def load(folder: Path, name: str) -> tuple[Array, Array, Array]:
    """Return pixels as rows, true spectra as rows, and true abundances."""
    cube = loadmat(folder / f"{name}.mat")
    pixels = cube["Y"].T.astype(np.float64)
    abundances = cube["S_GT"].reshape(-1, cube["S_GT"].shape[-1], order="F")  # pixels run down the columns
    return pixels / pixels.max(), cube["GT"].astype(np.float64), abundances.astype(np.float64)


# Starts


def successive_projections(pixels: Array, n_spectra: int) -> Array:
    """Take pixels of norm 1: the one least like the mean, then always the one explained least by those before."""
    axes = np.linalg.svd(pixels, full_matrices=False)[2][:n_spectra]
    units = np.maximum(pixels @ axes.T @ axes, 0)  # with less noise
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), 1e-12)
    chosen, left = [int(np.argmin(units @ units.mean(axis=0)))], units.copy()
    while len(chosen) < n_spectra:
        direction = left[chosen[-1]] / np.linalg.norm(left[chosen[-1]])
        left -= np.outer(left @ direction, direction)
        chosen.append(int(np.argmax(np.sum(left**2, axis=1))))
    return np.asarray(units[chosen])


def vertex_components(pixels: Array, n_spectra: int, seed: int) -> Array:
    """Find the vertices of the cloud of pixels by vertex component analysis (Nascimento and Dias, 2005)."""
    rng = np.random.default_rng(seed)
    center = pixels.mean(axis=0)
    axes = np.linalg.svd((pixels - center).T @ (pixels - center))[0][:, :n_spectra]
    total = np.mean(np.sum(pixels**2, axis=1))
    kept = np.mean(np.sum(((pixels - center) @ axes) ** 2, axis=1)) + center @ center
    snr = 10 * np.log10((kept - n_spectra / pixels.shape[1] * total) / (total - kept))
    if snr < 15 + 10 * np.log10(n_spectra):
        axes = axes[:, :-1]
        low = (pixels - center) @ axes
        rebuilt = low @ axes.T + center
        points = np.column_stack([low, np.full(len(low), np.linalg.norm(low, axis=1).max())])
    else:
        axes = np.linalg.svd(pixels.T @ pixels)[0][:, :n_spectra]
        low = pixels @ axes
        rebuilt = low @ axes.T
        points = low / (low @ low.mean(axis=0))[:, None]
    vertices, chosen = np.zeros((n_spectra, n_spectra)), []
    vertices[-1, 0] = 1
    for k in range(n_spectra):
        direction = rng.random(n_spectra)
        direction -= vertices @ np.linalg.pinv(vertices) @ direction
        chosen.append(int(np.argmax(np.abs(points @ direction))))
        vertices[:, k] = points[chosen[-1]]
    return np.asarray(np.maximum(rebuilt[chosen], 0))


# Methods: pixels, number of materials, seed, setting -> spectra, abundances


def ours(pixels: Array, n_spectra: int, seed: int, alpha: float, start: str = "VCA") -> Found:
    """Learn spectra with the lasso, the penalty relative to the pixels; then non-negative least squares."""
    vertices = vertex_components(pixels, n_spectra, seed)
    init = vertices if start == "VCA" else successive_projections(pixels, n_spectra)
    scale = float(np.sqrt(np.mean(np.sum(pixels**2, axis=1))))
    learner = DictionaryLearning(
        n_spectra,
        pursuit="lasso",
        alpha=alpha * scale,
        positive_code=True,
        positive_dict=True,
        init=init,
        n_jobs=N_JOBS,
        random_state=seed,
    ).fit(pixels)
    spectra = np.asarray(learner.components_)
    codes = sparse_encode(pixels, spectra, n_nonzero_coefs=n_spectra, positive_code=True, n_jobs=N_JOBS)
    return spectra, _shares(codes.toarray())


def ours_sum_to_one(pixels: Array, n_spectra: int, seed: int, alpha: float) -> Found:
    """Learn with a second view of ones: what atoms have there turns codes into abundances that sum to about one."""
    scale = float(np.sqrt(np.mean(np.sum(pixels**2, axis=1))))
    vertices = vertex_components(pixels, n_spectra, seed)
    ones = np.full((len(pixels), 1), 1.0)
    weight = scale**2
    learner = CoupledDictionaryLearning(
        n_spectra,
        pursuit="lasso",
        alpha=alpha * scale,
        positive_code=True,
        positive_dict=True,
        view_weights=[1.0, weight],
        init=[vertices, np.ones((n_spectra, 1))],
        n_jobs=N_JOBS,
        random_state=seed,
    ).fit([pixels, ones])
    atoms, heights = (np.asarray(D) for D in learner.components_)
    codes = sparse_encode(
        [pixels, ones],
        [atoms, heights],
        n_nonzero_coefs=n_spectra,
        positive_code=True,
        view_weights=[1.0, weight],
        n_jobs=N_JOBS,
    )
    return atoms / np.maximum(heights, 1e-12), _shares(codes.toarray() * heights[:, 0])


def nmf(pixels: Array, n_spectra: int, seed: int, alpha: float, start: str = "random") -> Found:
    """Factorise with scikit-learn, from random numbers or from VCA; `alpha` is its l1 penalty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that 500 iterations are few
        model = NMF(
            n_spectra,
            init="custom" if start == "VCA" else start,
            alpha_W=alpha,
            l1_ratio=1.0,
            max_iter=500,
            random_state=seed,
        )
        if start == "VCA":
            vertices = vertex_components(pixels, n_spectra, seed) + 1e-6
            model.fit_transform(pixels, W=_fully_constrained(pixels, vertices) + 1e-6, H=vertices)
        else:
            model.fit_transform(pixels)
    spectra = model.components_ / np.maximum(np.linalg.norm(model.components_, axis=1, keepdims=True), 1e-12)
    return spectra, _shares(_non_negative(pixels, spectra))


def vca(pixels: Array, n_spectra: int, seed: int, sums: str = "FCLS") -> Found:
    """Take vertices, and fully constrained least squares or shares of non-negative least squares."""
    spectra = vertex_components(pixels, n_spectra, seed)
    if sums == "FCLS":
        return spectra, _fully_constrained(pixels, spectra)
    spectra = spectra / np.linalg.norm(spectra, axis=1, keepdims=True)
    return spectra, _shares(_non_negative(pixels, spectra))


def _non_negative(pixels: Array, spectra: Array) -> Array:
    return np.array([nnls(spectra.T, pixel)[0] for pixel in pixels])


def _fully_constrained(pixels: Array, spectra: Array, weight: float = 10.0) -> Array:
    """Solve non-negative least squares with a heavy row of ones, so that abundances sum to one."""
    wide = np.column_stack([spectra, np.full(len(spectra), weight)])
    return _non_negative(np.column_stack([pixels, np.full(len(pixels), weight)]), wide)


def _shares(codes: Array) -> Array:
    return np.asarray(codes / np.maximum(codes.sum(axis=1, keepdims=True), 1e-12))


# Judging

PENALTIES = (0.003, 0.01, 0.03, 0.1)
#: Name of each method, what does it, its fixed settings, and those to choose among.
METHODS: dict[str, tuple[Callable[..., Found], dict[str, Any], list[dict[str, Any]]]] = {
    "ours, VCA start": (ours, {}, [{"alpha": alpha} for alpha in PENALTIES]),
    "ours, start by projections": (ours, {"start": "projections"}, [{"alpha": alpha} for alpha in PENALTIES]),
    "ours, view of ones, VCA start": (ours_sum_to_one, {}, [{"alpha": alpha} for alpha in PENALTIES]),
    "VCA + FCLS": (vca, {}, [{}]),
    "VCA + shares": (vca, {"sums": "shares"}, [{}]),
    "NMF, random start": (nmf, {}, [{"alpha": alpha} for alpha in (0.0, 1e-4)]),
    "NMF, VCA start": (nmf, {"start": "VCA"}, [{"alpha": alpha} for alpha in (0.0, 1e-4)]),
}


def judge(found: Found, spectra: Array, abundances: Array) -> tuple[float, float]:
    """Return the mean angle of spectra in degrees and the RMSE of abundances, for the best permutation."""
    units = [rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (found[0], spectra)]
    angles = np.degrees(np.arccos(np.clip(units[0] @ units[1].T, -1, 1)))
    mine, true = linear_sum_assignment(angles)
    error = found[1][:, mine] - abundances[:, true]
    return float(angles[mine, true].mean()), float(np.sqrt(np.mean(error**2)))


def run(options: Options) -> list[dict[str, Any]]:
    """Choose settings on each cube and report them on the other."""
    data = options.data
    folder = None if data is None else next((path for path in (data / "unmixing", data) if path.is_dir()), None)
    if folder is None or not (folder / "Samson.mat").is_file():
        options.note("unmixing is left out: Jasper.mat and Samson.mat are not in the folder unmixing of the data.")
        return []
    cubes = {}
    for name in CUBES:
        pixels, spectra, abundances = load(folder, name)
        step = 50 if options.quick else 1
        cubes[name] = pixels[::step], spectra, abundances[::step]
    found: list[dict[str, Any]] = []
    for method, (do, fixed, choices) in METHODS.items():
        figures: dict[tuple[str, int], tuple[Array, Array]] = {}
        for name, (pixels, spectra, abundances) in cubes.items():
            for number, option in enumerate(choices):
                judged, times = [], []
                for seed in range(options.repeats):
                    began = time.perf_counter()
                    answer = do(pixels, len(spectra), seed, **fixed, **option)
                    times.append(time.perf_counter() - began)
                    judged.append(judge(answer, spectra, abundances))
                figures[name, number] = np.array(judged), np.array(times)
        for chosen_on, reported_on in (CUBES, CUBES[::-1]):
            means = [figures[chosen_on, number][0][:, 0].mean() for number in range(len(choices))]
            best = int(np.argmin(means))
            results, seconds = figures[reported_on, best]
            row = {"method": method, "cube": reported_on, "chosen_on": chosen_on, **choices[best]}
            row |= {"angle": results[:, 0].mean(), "angle_spread": results[:, 0].std()}
            row |= {"rmse": results[:, 1].mean(), "rmse_spread": results[:, 1].std()}
            found.append(row | {"seconds": float(np.median(seconds))})
    return found


def report(found: list[dict[str, Any]]) -> str:
    """Return a table for each cube."""
    blocks = []
    for cube in reversed(CUBES):
        rows = []
        for row in (row for row in found if row["cube"] == cube):
            setting = f"{row['alpha']:g}" if "alpha" in row else ""
            figures_ = [f"{row['angle']:.1f} +- {row['angle_spread']:.1f}"]
            figures_ += [f"{row['rmse']:.3f} +- {row['rmse_spread']:.3f}"]
            rows.append([row["method"], setting, *figures_, duration(row["seconds"])])
        other = next(name for name in CUBES if name != cube)
        blocks.append(table([f"{cube}, settings of {other}", "penalty", "angle", "RMSE", "time"], rows))
    return join(*blocks)
