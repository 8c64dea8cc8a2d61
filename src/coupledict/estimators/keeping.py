"""Setting all fitted attributes in one step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def keep_fitted(estimator: Any, attributes: Mapping[str, Any]) -> None:
    """Set attributes of an estimator in one step, so that an interrupt leaves either all new ones or all old ones.

    None removes an attribute that an earlier fit may have set.

    Where names appear or disappear, the step gives the estimator another dictionary; otherwise its own is updated. A
    Python without a GIL frees replaced dictionaries a hundred or more at a time, each with all that it holds: if one
    were replaced for every batch, a stream would keep the atoms of its last 250 batches.
    """
    attributes_before = vars(estimator)
    new = {name: value for name, value in attributes.items() if value is not None}
    if attributes_before.keys() & attributes.keys() == new.keys():
        old = list(attributes_before.values())  # freed after the step: nothing else may run within it
        attributes_before.update(new)
        del old
    else:
        kept = {name: value for name, value in attributes_before.items() if name not in attributes}
        estimator.__dict__ = kept | new
