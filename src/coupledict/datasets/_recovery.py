"""Agreement of learned dictionaries with true ones, up to the order and the signs of their atoms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..foundation.arrays import Array, Floats
from ..foundation.checks import check_share
from ..foundation.tensors import with_numpy


class AtomMatches(NamedTuple):
    """The match of learned and true atoms; made by :func:`match_atoms`.

    Parameters
    ----------
    true : array of shape (n_matches,)
        Numbers of true atoms, ascending.
    learned : array of shape (n_matches,)
        For each of them, the number of the learned atom.
    cosines : array of shape (n_matches,)
        Cosine of the angle between the two; negative where the learned atom has the opposite sign.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.datasets import match_atoms
    >>> match_atoms(-np.eye(3)[[1, 2, 0]], np.eye(3)).learned.tolist()
    [2, 0, 1]
    """

    true: Array
    learned: Array
    cosines: Floats


def match_atoms(components: Any, true_components: Any) -> AtomMatches:
    """Match each true atom with a learned one, so that no atom is used twice and the angles are smallest.

    The atoms of several views are compared together: an atom is the concatenation of its parts in all views, and has
    one sign. If there are fewer learned atoms than true ones, some true atoms have no match, and vice versa.

    Parameters
    ----------
    components : array of shape (n_components, n_features), or list or dict of arrays of several views
        The learned dictionary or dictionaries, such as ``components_`` of a learner.
    true_components : array of shape (n_true, n_features), or list or dict of arrays of several views
        The true ones, such as ``components`` of :func:`make_coupled_signals`.

    Returns
    -------
    AtomMatches
        Numbers of true and learned atoms, and the cosines of the angles between them.

    See Also
    --------
    recovery_score : The share of true atoms that were found.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.datasets import match_atoms
    >>> truth = np.array([[1.0, 0.0], [0.6, 0.8]])
    >>> matches = match_atoms([[0.6, 0.8], [-1.0, 0.0]], truth)
    >>> matches.learned.tolist(), np.sign(matches.cosines).tolist()
    ([1, 0], [-1.0, 1.0])
    """
    cosines = _unit_atoms(true_components, "true_components")
    found = _unit_atoms(components, "components", like=true_components)
    if found.shape[1] != cosines.shape[1]:
        raise ValueError(
            f"Expected components with {cosines.shape[1]} features over all views, as true_components has, got"
            f" {found.shape[1]}."
        )
    cosines = cosines @ found.T
    true, learned = linear_sum_assignment(-np.abs(cosines))
    return AtomMatches(true, learned, cosines[true, learned])


def recovery_score(components: Any, true_components: Any, *, threshold: float = 0.99) -> float:
    """Return the share of the true atoms that were found, regardless of order and sign.

    A true atom is found if its cosine with the learned atom that :func:`match_atoms` assigns to it is at least
    `threshold` in absolute value. The default of 0.99 is that of the K-SVD paper [1]_.

    Parameters
    ----------
    components, true_components
        As in :func:`match_atoms`.
    threshold : float, default=0.99
        Smallest absolute cosine of an atom that counts as found, from 0 to 1.

    Returns
    -------
    float
        From 0 to 1.

    See Also
    --------
    match_atoms : Which learned atom is which true one.

    References
    ----------
    .. [1] M. Aharon, M. Elad and A. Bruckstein, "K-SVD: An Algorithm for Designing Overcomplete Dictionaries for Sparse
       Representation", IEEE Transactions on Signal Processing 54(11), 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.datasets import recovery_score
    >>> recovery_score(-np.eye(4)[::-1], np.eye(4))
    1.0
    >>> recovery_score(np.eye(4)[:3], np.eye(4))
    0.75
    """
    least = check_share(threshold, "threshold")
    n_true = len(_unit_atoms(true_components, "true_components"))
    cosines = match_atoms(components, true_components).cosines
    return float(np.sum(np.abs(cosines) >= least) / n_true)


def _unit_atoms(components: Any, name: str, like: Any = None) -> Floats:
    """Return atoms as rows of norm 1, concatenated over all views; atoms of zeros stay zero."""
    atoms = np.hstack(_views(components, name, list(like) if isinstance(like, Mapping) else None))
    if not np.isfinite(atoms).all():
        raise ValueError(f"Expected {name} to be finite, got NaN or infinity.")
    largest = np.abs(atoms).max(axis=1, keepdims=True, initial=0.0)
    atoms = atoms / np.where(largest > 0, largest, 1)  # so that no square overflows
    norms = np.linalg.norm(atoms, axis=1, keepdims=True)
    return np.asarray(atoms / np.where(norms > 0, norms, 1))


def _views(components: Any, name: str, order: list[str] | None) -> list[Floats]:
    """Return the dictionary of each view; `order` has the names of the views, if there are any."""
    names = list(components) if isinstance(components, Mapping) else getattr(components, "names", None)
    if names is not None and order is not None:
        if sorted(names) != sorted(order):
            raise ValueError(f"Expected {name} of the views {order}, got those of {list(names)}.")
        components = [components[view] for view in order]
    elif isinstance(components, Mapping):
        components = list(components.values())
    components = with_numpy(components, name)
    several = isinstance(components, Sequence) and len(components) > 0 and np.ndim(components[0]) == 2
    views = [np.asarray(view, np.float64) for view in (components if several else [components])]
    if any(view.ndim != 2 for view in views) or len({len(view) for view in views}) != 1 or not len(views[0]):
        raise ValueError(
            f"Expected {name} to be an array of atoms, or one for each view with the same number of atoms, got shapes"
            f" {[view.shape for view in views]}."
        )
    return views
