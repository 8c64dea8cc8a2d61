"""Labels of samples: where some are missing, the error says how many, which is the first, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import Array
from .tensors import with_numpy


def refuse_missing_labels(y: Any, name: str, remedy: Callable[[str], str]) -> None:
    """Raise if some labels are None, NaN or the NA of pandas; labels that are not a vector are checked elsewhere.

    Parameters
    ----------
    y : sequence of labels
    name : str
        What to call it in the error.
    remedy : callable
        Takes a value, as it is written in Python, that could mark these samples and is not a label, and returns the
        end of the error.
    """
    y = with_numpy(y, name)
    # In an array of its own type, NaN among strings would be the string "nan".
    labels = np.asarray(y, dtype=None if hasattr(y, "dtype") else object)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        return
    missing = _are_missing(labels)
    if missing.any():
        first, count = int(np.argmax(missing)), int(missing.sum())
        what = "NaN" if isinstance(labels[first], float | np.floating) else str(labels[first])
        raise ValueError(
            f"Expected a label for each sample in {name}, got {what} for {count} of {labels.size} samples, first for"
            f" sample {first}. {remedy(_new_mark(labels[~missing]))}"
        )


def _are_missing(labels: Array) -> npt.NDArray[np.bool_]:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.zeros(labels.size, bool)
    return np.array([_is_missing(label) for label in labels.tolist()], bool)


def _is_missing(label: object) -> bool:
    return label is None or type(label).__name__ == "NAType" or (isinstance(label, float) and label != label)


def _new_mark(known: Array) -> str:
    """Return a value, as it is written in Python, that has the type of the labels and is none of them."""
    values = known.tolist()
    if any(isinstance(label, str) for label in values):
        return "''" if "" not in values else "'unlabeled'"
    numbers = [label for label in values if isinstance(label, int | float)]
    return str(int(min([0, *numbers])) - 1)
