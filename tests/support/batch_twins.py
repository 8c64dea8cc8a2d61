"""Greedy pursuits once more, in float64 and for many samples at a time: the oracle of proofs that try many problems.

Atoms are orthogonalised in the space of the features, twice, so that results do not suffer from coherent atoms. Nothing
is shared with the kernels, and nothing begins from their answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from support import twins

Array = npt.NDArray[np.float64]
LEAST_KNOWN = 1e-10  # of the squared norms of unit atoms, cut down: at most this share of the largest is no atom


@dataclass(frozen=True)
class Found:
    """What a pursuit of some samples came to.

    `atoms` has shape (n_samples, n_steps), with -1 where a sample took no more; `errors`, norms of residuals, has one
    column more, for no atom at all; `margins` is by how much of its own the choice of each step was better than the
    second best.
    """

    atoms: npt.NDArray[np.int64]
    errors: Array
    margins: Array

    @property
    def last(self) -> Array:
        """Errors at the end."""
        return self.errors[:, -1]

    def uses(self, n_atoms: int) -> npt.NDArray[np.bool_]:
        """Return which atoms each sample uses, (n_samples, n_atoms)."""
        used = np.zeros((len(self.atoms), n_atoms + 1), bool)
        np.put_along_axis(used, self.atoms, True, axis=1)  # -1, for none, is the last column
        return used[:, :-1]


@dataclass
class Group:
    """Samples of views that share coefficients, side by side, and unit atoms cut down to what each sample knows.

    Atoms of which next to nothing is known are zero in `unit`, but not in `atoms`.
    """

    x: Array
    unit: Array
    norms: Array
    atoms: Array
    known: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, x: Array, atoms: Array) -> Group:
        """Cut atoms (n_atoms, n_features) down to the known entries of samples; NaN is a missing entry."""
        known = ~np.isnan(x)
        unit, norms = twins.unit_atoms(atoms)
        if known.all():
            spread = (np.broadcast_to(array, (len(x), *array.shape)) for array in (unit, norms))
            return cls(x, *spread, atoms, known)
        shares = np.square(unit) @ known.T.astype(float)
        kept = (shares > LEAST_KNOWN * shares.max(axis=0)).T
        cut = unit * known[:, None] * kept[:, :, None]
        own = np.where(kept, np.sqrt(shares.T), 0)
        cut /= np.where(kept, own, 1)[:, :, None]
        return cls(np.where(known, x, 0), cut, own * norms, atoms, known)

    def errors(self, codes: Array) -> Array:
        """Return the norms of what codes leave of the known entries."""
        return np.linalg.norm(self.x - self.known * (codes @ self.atoms), axis=1)

    @property
    def lost(self) -> npt.NDArray[np.bool_]:
        """Whether there are atoms of which a sample knows next to nothing."""
        return np.any((self.norms == 0) & self.atoms.any(axis=1), axis=1)


def stack(views: Sequence[Array], weights: Sequence[float]) -> Array:
    """Put views side by side, each times the root of its weight."""
    return np.hstack([np.asarray(view, float) * np.sqrt(w) for view, w in zip(views, weights, strict=True)])


def pursue(groups: Sequence[Group], limits: npt.ArrayLike, tol: float | None = None, pursuit: str = "omp") -> Found:
    """Code samples by OMP or OLS; with several groups, by simultaneous OMP. `limits` may differ between samples."""
    n, n_atoms = groups[0].unit.shape[:2]
    rows, limits = np.arange(n), np.broadcast_to(np.asarray(limits), (n,))
    rest = [group.x.copy() for group in groups]
    left = [group.unit.copy() for group in groups]  # of the atoms, outside the span of the chosen ones
    bases: list[list[Array]] = [[] for _ in groups]
    energy = sum(np.einsum("np,np->n", r, r) for r in rest)
    enough = np.maximum(1e-24 * energy, -1.0 if tol is None else tol)
    noise = twins.noise_share(sum(r.shape[1] for r in rest)) ** 2 * energy
    open_, errors = np.ones((n, n_atoms), bool), [np.sqrt(energy)]
    chosen: list[npt.NDArray[np.int64]] = []
    margins: list[Array] = []
    for step in range(int(limits.max(initial=0))):
        now = sum(np.einsum("np,np->n", r, r) for r in rest)
        working = (now > enough) & (step < limits)
        if not working.any():
            break
        norms = [np.einsum("nkp,nkp->nk", part, part) for part in left]
        heard = sum(np.einsum("nkp,np->nk", g.unit, r) ** 2 for g, r in zip(groups, rest, strict=True))
        best, margin, usable = _choose(heard, norms, open_, noise, pursuit)
        working &= usable
        if not working.any():
            break
        chosen.append(np.where(working, best, -1))
        margins.append(np.where(working, margin, np.inf))
        open_[rows[working], best[working]] = False
        for v, (part, r) in enumerate(zip(left, rest, strict=True)):
            q = part[rows, best]
            for _ in range(2):
                for other in bases[v]:
                    q -= np.einsum("np,np->n", q, other)[:, None] * other
            size = np.sqrt(np.einsum("np,np->n", q, q))
            take = working & (size**2 > twins.PIVOT_GUARD)
            q = np.where(take[:, None], q / np.where(size > 0, size, 1)[:, None], 0)
            bases[v].append(q)
            for _ in range(2):
                r -= np.einsum("np,np->n", r, q)[:, None] * q
                part -= np.einsum("nkp,np->nk", part, q)[:, :, None] * q[:, None]
        errors.append(np.sqrt(sum(np.einsum("np,np->n", r, r) for r in rest)))
    steps = (n, len(chosen))
    return Found(
        np.stack(chosen, axis=1) if chosen else np.empty(steps, np.int64),
        np.stack(errors, axis=1),
        np.stack(margins, axis=1) if margins else np.empty(steps),
    )


def _choose(heard, norms, open_, noise, pursuit):
    """Return the best atom of each sample, by how much of it it is better than the next, and whether there is one."""
    best, margin = np.zeros(len(heard), np.int64), np.zeros(len(heard))
    found = np.zeros(len(heard), bool)
    for guard in twins.guards(pursuit):
        usable = open_ & (np.max(norms, axis=0) > guard)
        worth = np.where(usable & (heard > 0), heard, 0)
        if pursuit == "ols":
            worth = worth / np.where(usable, norms[0], 1)
        top = np.argmax(worth, axis=1)
        first = worth[np.arange(len(worth)), top]
        second = np.partition(worth, -2, axis=1)[:, -2] if worth.shape[1] > 1 else np.zeros(len(worth))
        better = ~found & (first > 0) & (heard[np.arange(len(worth)), top] > noise)
        best = np.where(better, top, best)
        margin = np.where(better, 1 - np.sqrt(second / np.where(first > 0, first, 1)), margin)
        found |= better
    return best, margin, found
