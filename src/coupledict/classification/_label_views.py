"""Labels as views of the samples: indicators (D-KSVD), target codes (LC-KSVD), and initial atoms drawn by class."""

from __future__ import annotations

import itertools
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array, Floats

Numbers: TypeAlias = npt.NDArray[np.intp]

MOST_VIEWS_FOR_ALL_SETS = 4
START_NOISE = 0.01  # relative to the entries, so that a sample drawn twice gives two different atoms


def view_sets(n_views: int) -> list[tuple[int, ...]]:
    """Return the sets of views that get a head of their own.

    All of them for up to four views; for more, each view alone, all but one, and all.
    """
    everything = range(n_views)
    sizes = list(range(1, n_views + 1)) if n_views <= MOST_VIEWS_FOR_ALL_SETS else [1, n_views - 1, n_views]
    return [chosen for size in sizes for chosen in itertools.combinations(everything, size)]


def indicators(y: Numbers, n_classes: int) -> Floats:
    """Return one row per sample: 1 for its class, 0 elsewhere."""
    return np.eye(n_classes)[y]


def share_atoms(n_components: int, counts: Numbers) -> Numbers:
    """Return the class of each atom, in order: equal shares, but no class gets more atoms than it has samples.

    Atoms beyond the number of samples are distributed evenly.
    """
    shares = np.zeros(counts.size, np.intp)
    room = counts.copy()
    left = n_components
    while left and room.any():
        open_ = np.flatnonzero(room)
        deal = np.full(open_.size, left // open_.size, np.intp)
        deal[: left % open_.size] += 1
        deal = np.minimum(deal, room[open_])
        shares[open_] += deal
        room[open_] -= deal
        left -= int(deal.sum())
    filled = np.flatnonzero(counts)  # a class may occur only in samples that lack a view
    shares[filled] += left // filled.size
    shares[filled[: left % filled.size]] += 1
    return np.repeat(np.arange(counts.size), shares)


def target_codes(y: Numbers, atom_classes: Numbers) -> Floats:
    """Return LC-KSVD's target codes: for each sample, 1 at the atoms of its class; rows are scaled to norm 1."""
    agree = (y[:, None] == atom_classes[None, :]).astype(np.float64)
    norms = np.sqrt(agree.sum(axis=1, keepdims=True))
    return np.asarray(agree / np.where(norms > 0, norms, 1))


def draw_by_class(y: Numbers, atom_classes: Numbers, rng: np.random.Generator) -> Numbers:
    """Return a sample of its class for each atom; none is repeated before all others are drawn."""
    drawn = np.empty(atom_classes.size, np.intp)
    for label in np.unique(atom_classes):
        places, members = np.flatnonzero(atom_classes == label), np.flatnonzero(y == label)
        rounds = -(-places.size // members.size)
        drawn[places] = np.concatenate([rng.permutation(members) for _ in range(rounds)])[: places.size]
    return drawn


def fill_with_means(views: list[Array], y: Numbers | None) -> list[Array]:
    """Return views with NaN replaced by the mean of the feature in the class of the sample, or in all samples."""
    filled = []
    for view in views:
        missing = np.isnan(view)
        groups = np.zeros(len(view), np.intp) if y is None else y
        filled.append(np.where(missing, _means(view, missing, groups)[groups], view) if missing.any() else view)
    return filled


def _means(view: Array, missing: npt.NDArray[np.bool_], groups: Numbers) -> Array:
    """Return the mean of the known entries of each feature in each group, or in all samples if a group has none."""
    plain = np.where(missing, 0, view)
    everywhere = plain.sum(axis=0) / np.maximum((~missing).sum(axis=0), 1)
    members = np.eye(int(groups.max()) + 1)[groups].T
    counts = members @ ~missing
    return np.where(counts > 0, members @ plain / np.maximum(counts, 1), everywhere)


def start(views: list[Array], drawn: Numbers, rng: np.random.Generator) -> list[Floats]:
    """Return the drawn samples of each view as atoms, with a little noise."""
    atoms = [np.asarray(view[drawn], np.float64) for view in views]
    return [part + START_NOISE * part.std() * rng.standard_normal(part.shape) for part in atoms]
