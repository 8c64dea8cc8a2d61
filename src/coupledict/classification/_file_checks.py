"""Checks of the contents of classifier files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..files.state import check_range
from ..foundation.arrays import Array
from ._label_views import Numbers

MOST, MOST_SCALING = 1e50, 1e200  # scalings undo the units of features; everything else is of order 1


def check_sizes(tensors: Mapping[str, Array]) -> None:
    """Raise if values are so large that computing with them would overflow."""
    in_units = ("scaling.", "landmarks.")
    check_range({name: array for name, array in tensors.items() if not name.startswith(in_units)}, MOST)
    for start in in_units:
        check_range(tensors, MOST_SCALING, start)


def check_dictionary(array: Array, width: int | None = None) -> Array:
    """Return a dictionary, checked to have `width` features if that is given."""
    if array.ndim != 2 or array.size == 0 or array.dtype.kind != "f" or (width is not None and array.shape[1] != width):
        raise ValueError("its dictionaries do not fit its features")
    return array


def check_atom_classes(numbers: Array, n_atoms: int, n_classes: int) -> Numbers:
    """Return the number of the class of each atom."""
    if numbers.shape != (n_atoms,) or np.any(numbers < 0) or np.any(numbers >= n_classes):
        raise ValueError("the classes of its atoms do not fit its dictionaries")
    return numbers.astype(np.intp)
