"""Classification by dictionaries: with labels as one more view, or by the class whose atoms explain a sample best."""

from __future__ import annotations

from ._coupled import CoupledClassifier
from ._residuals import SparseRepresentationClassifier

__all__ = ["CoupledClassifier", "SparseRepresentationClassifier"]
