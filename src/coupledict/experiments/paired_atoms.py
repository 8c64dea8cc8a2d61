"""The paper's first experiment: atoms learned together are partners, atoms learned apart are not.

A linear map from focused to blurred patches, fitted by ridge regression, blurs a focused atom; the correlation of the
result with a blurred atom measures how well the two match.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from ..estimators.coupled import PAPER, CoupledDictionaryLearning
from ..foundation.arrays import Array
from .sources import distinct_patches
from .steps import BeginStep

RIDGE = 1e-3  # relative to the mean energy of a feature; the overdetermined map hardly depends on it
TOGETHER, APART = "together", "separate"
PAPER_METHOD, DEFAULT_METHOD = "the paper's method", "the default"
#: How dictionaries are learned; the paper's method comes first, because its figure is reproduced. Its atoms have norm 1
#: in each view; those that the default learns together have norm 1 over both views.
SETTINGS: dict[str, dict[str, Any]] = {PAPER_METHOD: PAPER, DEFAULT_METHOD: {"predictor": "dictionary"}}
TWIN = 0.99
PER_ATOM = ("correlation", "best", "gain")
PER_TRIAL = ("median_same", "same_index_share", "median_rank", "chance")


@dataclass(frozen=True)
class PairSizes:
    """The number of training samples and of runs, each on other patches."""

    n_patches: int = 20_000
    n_held_out: int = 5_000
    n_components: int = 256
    n_nonzero_coefs: int = 5
    max_iter: int = 30
    side: int = 8
    repeats: int = 5


def count_steps(sizes: PairSizes) -> int:
    """Return the number of steps of the experiment."""
    return 2 * len(SETTINGS) + sizes.repeats - 1


def blur_map(focused: Array, blurred: Array) -> npt.NDArray[np.float64]:
    """Return the matrix M with the least ridge-penalised error ``||blurred - focused @ M||``."""
    X, Y = focused.astype(np.float64), blurred.astype(np.float64)
    gram = X.T @ X
    penalty = RIDGE * np.trace(gram) / len(gram)
    solution: npt.NDArray[np.float64] = np.linalg.solve(gram + penalty * np.eye(len(gram)), X.T @ Y)
    return solution


def correlations(left: Array, right: Array) -> npt.NDArray[np.float64]:
    """Return the correlation coefficient of every row of one array with every row of another; 0 for constant rows."""
    units = []
    for rows in (left, right):
        centred = rows.astype(np.float64) - rows.mean(axis=1, keepdims=True, dtype=np.float64)
        norms = np.linalg.norm(centred, axis=1, keepdims=True)
        units.append(np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0))
    product: npt.NDArray[np.float64] = units[0] @ units[1].T
    return product


def count_twins(atoms: Array) -> int:
    """Count the atoms that correlate with another one beyond 0.99, whatever the sign."""
    strength = np.abs(correlations(atoms, atoms))
    np.fill_diagonal(strength, 0)
    return int(np.count_nonzero(strength.max(axis=1) > TWIN))


def judge_pairs(dictionaries: list[Array], blur: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Measure how well atoms of equal number match.

    Parameters
    ----------
    dictionaries : list of 2 arrays of shape (n_components, n_features)
        Focused atoms and blurred atoms.
    blur : array of shape (n_features, n_features)
        The map from focused to blurred patches.

    Returns
    -------
    dict
        - ``same_index_share``: share of focused atoms whose blurred version correlates best with the blurred atom of
          the same number; ``chance`` is its value for unrelated dictionaries
        - ``median_same``: median absolute correlation with the atom of the same number
        - ``median_matched``: the same after the best one-to-one matching of all atoms
        - ``median_rank``: median number of blurred atoms that correlate better than the one of the same number
        - ``positive_share``: share of pairs of equal number with a correlation above 0
        - ``twins``: atoms of each dictionary that nearly equal another, up to the sign
        - for each atom its ``correlation``, its ``best`` partner and its ``gain``, its norm after the blur
    """
    focused, blurred = dictionaries
    predicted = focused.astype(np.float64) @ blur
    signed = correlations(predicted, blurred)
    strength = np.abs(signed)
    rows, columns = linear_sum_assignment(strength, maximize=True)
    best = strength.argmax(axis=1)
    numbers = np.arange(len(focused))
    return {
        "same_index_share": float(np.mean(best == numbers)),
        "median_same": float(np.median(strength.diagonal())),
        "median_matched": float(np.median(strength[rows, columns])),
        "median_rank": float(np.median(np.sum(strength > strength.diagonal()[:, None], axis=1))),
        "positive_share": float(np.mean(signed.diagonal() > 0)),
        "twins": [count_twins(atoms) for atoms in dictionaries],
        "chance": 1 / len(focused),
        "correlation": strength.diagonal().tolist(),
        "best": best.tolist(),
        "gain": (np.linalg.norm(predicted, axis=1) / np.linalg.norm(focused, axis=1)).tolist(),
    }


def paired_atoms(
    focused: list[Array],
    blurred: list[Array],
    *,
    sizes: PairSizes,
    seed: int,
    threads: int,
    begin: BeginStep,
) -> tuple[dict[str, Any], dict[str, list[Array]]]:
    """Learn dictionaries together and separately, by the paper's method and by the default, and compare.

    Parameters
    ----------
    focused, blurred : lists of images
        Image i of both lists shows the same scene.

    Returns
    -------
    results : dict
        Plain numbers. ``together`` and ``separate`` are by the paper's method, ``variants`` has all four, and
        ``trials`` has figures of the paper's method for each run.
    dictionaries : dict
        For ``"together"`` and ``"separate"``, the focused and the blurred atoms, by the paper's method: of norm 1 in
        each view.
    """
    train, held_out = _draw(focused, blurred, sizes, seed)
    blur = blur_map(*train)
    missed = np.sum((held_out[1] - held_out[0] @ blur) ** 2, dtype=np.float64)
    energy = np.sum(held_out[1] ** 2, dtype=np.float64)

    learned = {}
    for method, settings in SETTINGS.items():
        for how in (TOGETHER, APART):
            begin(f"paired atoms: learned {'together' if how == TOGETHER else 'separately'}, {method}")
            learned[method, how] = _Learned.fit(train, how, sizes, seed, threads, settings)
    rows = [
        {"method": method, "how": how, **one.figures(held_out), **judge_pairs(one.atoms, blur)}
        for (method, how), one in learned.items()
    ]
    results: dict[str, Any] = {
        "n_patches": sizes.n_patches,
        "n_held_out": sizes.n_held_out,
        "n_components": sizes.n_components,
        "n_nonzero_coefs": sizes.n_nonzero_coefs,
        "max_iter": sizes.max_iter,
        "patch_size": [sizes.side, sizes.side],
        "blur": "The blur is a linear map of patches, fitted by ridge regression to the patches learned from.",
        "map_explained": float(1 - missed / energy),
        "energies": [float(np.mean(np.sum(view.astype(np.float64) ** 2, axis=1))) for view in train],
        "variants": [{key: value for key, value in row.items() if key not in PER_ATOM} for row in rows],
    }
    results["trials"] = [{row["how"]: {key: row[key] for key in PER_TRIAL} for row in rows[:2]}]
    for number in range(1, sizes.repeats):
        begin(f"paired atoms: both ways on other patches, run {number + 1} of {sizes.repeats}")
        results["trials"].append(_trial(focused, blurred, sizes, seed + number, threads))
    for row in rows[:2]:
        atoms = {key: row[key] for key in PER_ATOM} | learned[PAPER_METHOD, row["how"]].use(train)
        results[row["how"]] = {key: value for key, value in row.items() if key not in PER_ATOM} | {"atoms": atoms}
    return results, {how: learned[PAPER_METHOD, how].atoms for how in (TOGETHER, APART)}


def _draw(focused: list[Array], blurred: list[Array], sizes: PairSizes, seed: int) -> tuple[list[Array], list[Array]]:
    """Return focused and blurred patches for training, and held-out ones."""
    views = distinct_patches(
        [focused, blurred], sizes.n_patches + sizes.n_held_out, side=sizes.side, seed=seed, dtype=np.float32
    )
    train = [np.ascontiguousarray(view[: sizes.n_patches]) for view in views]
    return train, [view[sizes.n_patches :] for view in views]


def _trial(focused: list[Array], blurred: list[Array], sizes: PairSizes, seed: int, threads: int) -> dict[str, Any]:
    """Return how well atoms match that the paper's method learned, together and separately, on a new draw."""
    train, _ = _draw(focused, blurred, sizes, seed)
    blur = blur_map(*train)
    found = {}
    for how in (TOGETHER, APART):
        judged = judge_pairs(_Learned.fit(train, how, sizes, seed, threads, PAPER).atoms, blur)
        found[how] = {key: judged[key] for key in PER_TRIAL}
    return found


@dataclass(frozen=True)
class _Learned:
    """One learner of both views, or one learner for each view."""

    learners: list[CoupledDictionaryLearning]
    groups: list[list[int]]
    seconds: float

    @classmethod
    def fit(
        cls,
        views: list[Array],
        how: str,
        sizes: PairSizes,
        seed: int,
        threads: int,
        settings: dict[str, Any],
    ) -> _Learned:
        groups = [[0, 1]] if how == TOGETHER else [[0], [1]]
        began = time.perf_counter()
        # Separate learners share nothing, not even the order of the samples; each has its own seed.
        learners = [
            CoupledDictionaryLearning(
                sizes.n_components,
                n_nonzero_coefs=sizes.n_nonzero_coefs,
                max_iter=sizes.max_iter,
                n_jobs=threads,
                random_state=seed + number,
                **{"scale": None, "predictor": "ridge"} | settings,
            ).fit([views[v] for v in group])
            for number, group in enumerate(groups)
        ]
        return cls(learners, groups, time.perf_counter() - began)

    @property
    def atoms(self) -> list[Array]:
        """Focused and blurred atoms."""
        return [atoms for learner in self.learners for atoms in learner.components_]

    def figures(self, views: list[Array]) -> dict[str, Any]:
        """Return the learning time, and the share of the energy of held-out patches that the codes explain."""
        shares = [
            learner.score([views[v] for v in group]) for learner, group in zip(self.learners, self.groups, strict=True)
        ]
        energies = [sum(float(np.sum(views[v] ** 2, dtype=np.float64)) for v in group) for group in self.groups]
        return {"seconds": self.seconds, "explained": float(np.average(shares, weights=energies))}

    def use(self, views: list[Array]) -> dict[str, Any]:
        """Return, for each atom, the number of patches that use it, and its norm in both views."""
        uses = []
        for learner, group in zip(self.learners, self.groups, strict=True):
            codes = learner.transform([views[v] for v in group])
            assert isinstance(codes, csr_array)
            uses += [np.bincount(codes.indices, minlength=codes.shape[1]).tolist()] * len(group)
        return {
            "use": uses[0],
            "use_blurred": uses[1],
            "norms": [np.linalg.norm(atoms, axis=1).tolist() for atoms in self.atoms],
        }
