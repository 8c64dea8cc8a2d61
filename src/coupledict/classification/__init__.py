"""Recognition by dictionaries: labels as a view of the samples, and the class whose atoms explain a sample best."""

from __future__ import annotations

from ._coupled import CoupledClassifier
from ._residuals import SparseRepresentationClassifier

__all__ = ["CoupledClassifier", "SparseRepresentationClassifier"]
