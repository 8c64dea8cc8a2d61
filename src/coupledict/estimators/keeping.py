"""Setting all fitted attributes in one step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def keep_fitted(estimator: Any, attributes: Mapping[str, Any]) -> None:
    """Set attributes of an estimator in one step, so that an interrupt leaves either all new ones or all old ones.

    None removes an attribute that an earlier fit may have set.
    """
    kept = {name: value for name, value in vars(estimator).items() if name not in attributes}
    estimator.__dict__ = kept | {name: value for name, value in attributes.items() if value is not None}
