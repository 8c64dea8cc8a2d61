"""Coding with missing entries once more, slowly: each sample cut down to its known entries, and coded as complete.

NaN is a missing entry. This is the oracle of the masked kernels, and the comparison that goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from support import twins
from support.compare import Problem, assert_codes_match, fault_of_code

if TYPE_CHECKING:  # tests/kernels_alone.py runs without the package
    from coupledict.foundation.choices import Pursuit

LEAST_KNOWN = 1e-10  # of the squared norms of unit atoms, cut down: at most this share of the largest is no atom


def cut_problems(
    Xs: Sequence[npt.ArrayLike],
    dictionaries: Sequence[npt.ArrayLike],
    *,
    n_nonzero_coefs: int | None = None,
    tol: float | None = None,
    pursuit: Pursuit = "omp",
    view_weights: npt.ArrayLike | None = None,
) -> list[Problem]:
    """Return one problem for each sample: its known entries, and the atoms cut down to these."""
    whole = Problem.of(
        Xs, dictionaries, n_nonzero_coefs=n_nonzero_coefs, tol=tol, pursuit=pursuit, view_weights=view_weights
    )
    unit, norms = twins.unit_atoms(whole.atoms)
    problems = []
    for x in whole.signals:
        known = ~np.isnan(x)
        shares = np.sum(unit[:, known] ** 2, axis=1)
        atoms = np.where((shares > LEAST_KNOWN * shares.max())[:, None], (unit * norms[:, None])[:, known], 0)
        limit = min(whole.limit, int(known.sum()))
        problems.append(Problem(x[None, known], atoms, limit, tol, pursuit, whole.dtype))
    return problems


def encode_cut(problem: Problem) -> npt.NDArray[np.float64]:
    """Code the only sample of a problem, slowly."""
    unit, norms = twins.unit_atoms(problem.atoms)
    code = np.zeros(len(unit))
    if problem.signals.size:
        arguments = problem.limit, problem.tol, problem.pursuit, problem.dtype
        chosen, coefficients = twins.encode_signal(problem.signals[0], unit, *arguments)
        code[chosen] = coefficients / norms[chosen]
    return code


def assert_masked_codes_match(problems: Sequence[Problem], codes, expected, *, max_ties: float = 0.05) -> None:
    """Fail unless each code equals the expected one of its problem, but for near-ties of a few samples."""
    dense = codes.toarray() if hasattr(codes, "toarray") else np.asarray(codes)
    assert dense.shape == (len(problems), len(problems[0].atoms)), f"Got codes of shape {dense.shape}."
    ties = 0
    for i, (problem, code, wanted) in enumerate(zip(problems, dense.astype(float), expected, strict=True)):
        if np.any((code != 0) != (wanted != 0)):
            fault = _fault(problem, code, wanted)
            assert fault is None, f"Code {i} has other atoms than expected, and not because of a tie: {fault}."
            ties += not _all_tie(problem)
        else:
            assert_codes_match(problem, code[None], wanted[None])
    allowed = max_ties * len(problems) + 1
    assert ties <= allowed, f"{ties} of {len(problems)} codes chose other atoms; at most {allowed} may."


def _all_tie(problem: Problem) -> bool:
    """Tell whether every atom is as good as any other in the last step: a single direction is left by then."""
    n_known = problem.signals.size
    return n_known == 1 or (problem.pursuit == "ols" and problem.limit >= n_known)


def _fault(problem: Problem, code: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]) -> str | None:
    """Say why `code` is no greedy code, or None; where all atoms tie, the chosen one may have hardly anything left."""
    x = problem.signals[0]
    if not _all_tie(problem):
        return fault_of_code(problem, code, x)
    own, other = (float(np.linalg.norm(x - c @ problem.atoms)) for c in (code, wanted))
    if np.count_nonzero(code) > problem.limit or not own <= other + np.sqrt(problem.eps) * np.linalg.norm(x):
        return f"{np.count_nonzero(code)} atoms leave {own}, not {other}"
    return None


def knock_out(rng, views, share, *, absent=0.0):
    """Return copies of views with NaN for a share of the entries, and for some whole rows of each view."""
    damaged = []
    for view in views:
        view = view.astype(np.result_type(view, np.float32))
        view[rng.random(view.shape) < share] = np.nan
        view[rng.random(len(view)) < absent] = np.nan
        damaged.append(view)
    return damaged
