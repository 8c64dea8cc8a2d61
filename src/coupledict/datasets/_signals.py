"""Signals with several views and one sparse code, whose dictionaries and codes are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..foundation.checks import (
    check_choice,
    check_count,
    check_non_negative,
    check_share,
    check_truth,
    make_generator,
)
from ._results import CoupledSignals, check_float_dtype, vector_shapes

Normalize = Literal["joint", "views"]
Value = TypeVar("Value")


def make_coupled_signals(
    n_samples: int = 1000,
    *,
    n_components: int = 40,
    n_features: Sequence[int] | Mapping[str, int] = (20, 30),
    n_nonzero_coefs: int = 3,
    noise: float | Sequence[float] = 0.0,
    missing: float | Sequence[float] = 0.0,
    positive_code: bool = False,
    positive_dict: bool | Sequence[bool] = False,
    normalize: Normalize = "joint",
    dtype: npt.DTypeLike = np.float64,
    random_state: Any = None,
) -> CoupledSignals:
    """Draw signals with several views that share a sparse code, with the true dictionaries and codes.

    View v of a sample is ``c @ D_v`` plus noise, with one code c for all views. Atoms and nonzero coefficients are
    normally distributed, and every set of atoms is equally likely.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of samples.
    n_components : int, default=40
        Number of atoms.
    n_features : list of int, or dict of str to int, default=(20, 30)
        Number of features of each view; a dict also names the views, which are otherwise ``view0``, ``view1``, ...
    n_nonzero_coefs : int, default=3
        Number of atoms in each sample.
    noise : float or list of float, default=0.0
        Root mean square of the noise relative to that of the signals: for all views, or for each.
    missing : float or list of float, default=0.0
        Share of missing entries (NaN) in all views, or in each. Learners then need ``missing="nan"``.
    positive_code : bool, default=False
        Whether coefficients are non-negative.
    positive_dict : bool or list of bool, default=False
        Whether atoms are non-negative: in all views, or in each.
    normalize : {"joint", "views"}, default="joint"
        Which norm of an atom is 1, as in :class:`coupledict.CoupledDictionaryLearning`: with ``"joint"`` that over all
        views, where the energy is divided among the views at random; with ``"views"`` that in each view.
    dtype : {float64, float32}, default=float64
        Number type of views, dictionaries and codes.
    random_state : int, RandomState, Generator or None
        Determines all random numbers.

    Returns
    -------
    CoupledSignals
        With `views`, the true dictionaries `components` and the true `codes`.

    See Also
    --------
    recovery_score : How many of the true atoms were found.

    Examples
    --------
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.datasets import make_coupled_signals, recovery_score
    >>> signals = make_coupled_signals(2000, n_features={"left": 20, "right": 30}, noise=0.05, random_state=0)
    >>> signals
    CoupledSignals: left (2000, 20), right (2000, 30)
    >>> learner = CoupledDictionaryLearning(40, n_nonzero_coefs=3, max_iter=100, random_state=0).fit(signals.views)
    >>> recovery_score(learner.components_, signals.components) > 0.8
    True
    """
    names, widths = _widths(n_features)
    n_samples, n_atoms = check_count(n_samples, "n_samples"), check_count(n_components, "n_components")
    n_nonzero = check_count(n_nonzero_coefs, "n_nonzero_coefs")
    if n_nonzero > n_atoms:
        raise ValueError(f"Expected n_nonzero_coefs to be at most n_components, {n_atoms}, got {n_nonzero}.")
    levels = _per_view(noise, len(widths), "noise", check_non_negative)
    gaps = _per_view(missing, len(widths), "missing", check_share)
    signs = _per_view(positive_dict, len(widths), "positive_dict", check_truth)
    check_truth(positive_code, "positive_code")
    joint = check_choice(normalize, "normalize", get_args(Normalize)) == "joint"
    number_type, rng = check_float_dtype(dtype), make_generator(random_state)

    atoms = _draw_atoms(n_atoms, widths, signs, rng, joint=joint)
    codes = _draw_codes(n_samples, n_atoms, n_nonzero, rng, positive=positive_code)
    views = [
        _observe(codes @ dictionary, level, gap, rng)
        for dictionary, level, gap in zip(atoms, levels, gaps, strict=True)
    ]
    named = {name: view.astype(number_type) for name, view in zip(names, views, strict=True)}
    components = {name: dictionary.astype(number_type) for name, dictionary in zip(names, atoms, strict=True)}
    text = f"{n_samples} simulated signals of {n_nonzero} of {n_atoms} atoms, in {len(widths)} views that share a code."
    return CoupledSignals(
        named, text, vector_shapes(named), components=components, codes=codes.astype(number_type, copy=False)
    )


def _widths(n_features: Sequence[int] | Mapping[str, int]) -> tuple[list[str], list[int]]:
    """Return the names of the views and their numbers of features."""
    if isinstance(n_features, str) or not isinstance(n_features, Sequence | Mapping | np.ndarray):
        raise TypeError(f"Expected n_features to be a list of integers, one per view, or a dict, got {n_features!r}.")
    if isinstance(n_features, Mapping):
        names, given = [str(name) for name in n_features], list(n_features.values())
    else:
        given = list(n_features)
        names = [f"view{v}" for v in range(len(given))]
    if not given:
        raise ValueError("Expected n_features to hold a number for each of at least one view, got none.")
    return names, [check_count(width, f"n_features of {name}") for name, width in zip(names, given, strict=True)]


def _per_view(value: Any, n_views: int, name: str, check: Callable[[object, str], Value]) -> list[Value]:
    """Return a checked value for each view; a single value applies to all."""
    if not isinstance(value, list | tuple | np.ndarray):
        return [check(value, name)] * n_views
    if len(value) != n_views:
        raise ValueError(f"Expected {name} to be one value or {n_views}, one per view, got {len(value)}.")
    return [check(entry, f"{name}[{v}]") for v, entry in enumerate(value)]


def _draw_atoms(
    n_atoms: int, widths: list[int], positive: list[bool], rng: np.random.Generator, *, joint: bool
) -> list[Array]:
    """Draw dictionaries whose atoms have norm 1 over all views together, or in each."""
    atoms = []
    for width, sign in zip(widths, positive, strict=True):
        drawn = rng.standard_normal((n_atoms, width))
        drawn = np.abs(drawn) if sign else drawn
        atoms.append(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    if joint:
        shares = rng.dirichlet(np.full(len(widths), 4.0), size=n_atoms)  # with 4, an atom is seldom small in a view
        atoms = [np.sqrt(share)[:, None] * view for share, view in zip(shares.T, atoms, strict=True)]
    return atoms


def _draw_codes(
    n_samples: int, n_atoms: int, n_nonzero: int, rng: np.random.Generator, *, positive: bool
) -> scipy.sparse.csr_array:
    """Draw codes with the same number of nonzeros in each row, at uniformly random positions."""
    indices = np.empty((n_samples, n_nonzero), dtype=np.int32)
    step = max(SIZES.drawn_numbers // n_atoms, 1)
    for start in range(0, n_samples, step):
        chances = rng.random((min(step, n_samples - start), n_atoms))
        indices[start : start + step] = np.argpartition(chances, n_nonzero - 1, axis=1)[:, :n_nonzero]
    indices.sort(axis=1)
    values = rng.standard_normal(indices.size)
    ends = np.arange(0, indices.size + 1, n_nonzero)
    return scipy.sparse.csr_array(
        (np.abs(values) if positive else values, indices.ravel(), ends), shape=(n_samples, n_atoms)
    )


def _observe(clean: Array, noise: float, missing: float, rng: np.random.Generator) -> Array:
    """Return signals with noise of this relative strength, and NaN in this share of the entries."""
    scale = noise * np.sqrt(np.mean(clean**2))
    seen = clean + scale * rng.standard_normal(clean.shape) if noise else clean
    if missing:
        seen[rng.random(seen.shape) < missing] = np.nan
    return seen
