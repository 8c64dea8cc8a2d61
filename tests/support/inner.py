"""Private names that tests of several rooms use; where they stand in the package is said here alone."""

from __future__ import annotations

from coupledict.coding.coder import Scratch
from coupledict.coding.coders import PreparedCoder, make_coder
from coupledict.coding.passes import encode, sum_codes
from coupledict.coding.recipe import Recipe
from coupledict.coding.results import Sums
from coupledict.coding.rule import CodingRule
from coupledict.coding.samples import Piece, Samples, check_finite
from coupledict.data.jobs import FAN_IN, Job, SumCodes, TreeSum
from coupledict.data.memory import InMemory
from coupledict.data.moments import Moments
from coupledict.data.order import Order
from coupledict.estimators.ensemble import fit_many, seeds
from coupledict.estimators.keeping import keep_fitted
from coupledict.estimators.verbose import Bar, watched
from coupledict.files.models import read_model
from coupledict.files.state import CONTRADICTIONS, ModelState
from coupledict.foundation.progress import Meter
from coupledict.foundation.quiet import without_warnings
from coupledict.foundation.standardization import Standardization
from coupledict.foundation.text import takes_escapes
from coupledict.kernels import _native
from coupledict.loading import PLACES
from coupledict.parallel.blas import one_blas_thread
from coupledict.parallel.cancel import Cancelled, CancelToken
from coupledict.parallel.jobs import Threads
from coupledict.parallel.ordered import RUN_AHEAD, in_order

__all__ = [
    "Bar",
    "CONTRADICTIONS",
    "CancelToken",
    "Cancelled",
    "CodingRule",
    "FAN_IN",
    "InMemory",
    "Job",
    "Meter",
    "ModelState",
    "Moments",
    "Order",
    "PLACES",
    "Piece",
    "PreparedCoder",
    "RUN_AHEAD",
    "Recipe",
    "Samples",
    "Scratch",
    "SumCodes",
    "Standardization",
    "Sums",
    "Threads",
    "TreeSum",
    "_native",
    "check_finite",
    "encode",
    "fit_many",
    "in_order",
    "keep_fitted",
    "read_model",
    "make_coder",
    "one_blas_thread",
    "seeds",
    "sum_codes",
    "takes_escapes",
    "watched",
    "without_warnings",
]
