"""Private names that tests of several rooms use; where they stand in the package is said here alone."""

from __future__ import annotations

from coupledict.coding.coder import Scratch
from coupledict.coding.making import make_coder
from coupledict.coding.passes import encode, sum_codes
from coupledict.coding.prepared import PreparedCoder
from coupledict.coding.preparing import WholeSamples
from coupledict.coding.recipe import Recipe
from coupledict.coding.results import Sums
from coupledict.coding.rule import CodingRule
from coupledict.coding.samples import Piece, Samples, check_finite
from coupledict.data.block_work import Wanted
from coupledict.data.memory import InMemory
from coupledict.data.moments import MomentSums
from coupledict.data.order import Order
from coupledict.data.pieces import halve
from coupledict.data.tree import FAN_IN, TreeSum
from coupledict.estimators.ensemble import fit_many
from coupledict.estimators.keeping import keep_fitted
from coupledict.estimators.verbose import watched
from coupledict.files.state import ModelState
from coupledict.foundation.block_sizes import SIZES
from coupledict.foundation.quiet import without_warnings
from coupledict.kernels import _native
from coupledict.loading import PLACES
from coupledict.parallel.blas import one_blas_thread
from coupledict.parallel.cancel import Cancelled, CancelToken
from coupledict.parallel.jobs import Threads
from coupledict.parallel.ordered import RUN_AHEAD, in_order

__all__ = [
    "CancelToken",
    "Cancelled",
    "CodingRule",
    "FAN_IN",
    "InMemory",
    "ModelState",
    "MomentSums",
    "Order",
    "PLACES",
    "Piece",
    "PreparedCoder",
    "RUN_AHEAD",
    "Recipe",
    "SIZES",
    "Samples",
    "Scratch",
    "Sums",
    "Threads",
    "TreeSum",
    "Wanted",
    "WholeSamples",
    "_native",
    "check_finite",
    "encode",
    "fit_many",
    "halve",
    "in_order",
    "keep_fitted",
    "make_coder",
    "one_blas_thread",
    "sum_codes",
    "watched",
    "without_warnings",
]
