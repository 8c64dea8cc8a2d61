"""Views of the same samples for scikit-learn's tools, and a transformer of each view."""

from .estimators.each_view import EachView
from .foundation.views import ViewArrays, Views

__all__ = ["Views", "EachView", "ViewArrays"]
