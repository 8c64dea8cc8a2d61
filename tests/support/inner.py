"""Private names that tests of several rooms use; where they stand in the package is said here alone."""

from __future__ import annotations

from coupledict.coding.coder import Scratch
from coupledict.coding.making import make_coder
from coupledict.coding.passes import encode, sum_codes
from coupledict.coding.prepared import PreparedCoder
from coupledict.coding.preparing import WholeSamples
from coupledict.coding.recipe import Recipe
from coupledict.coding.results import Sums
from coupledict.coding.rule import CodingRule, Pursuit
from coupledict.coding.samples import Piece, Samples, check_finite
from coupledict.data.block_work import Wanted
from coupledict.data.memory import InMemory
from coupledict.data.moments import MomentSums
from coupledict.data.order import Order
from coupledict.data.pieces import halve
from coupledict.data.tree import FAN_IN, TreeSum
from coupledict.estimators.ensemble import fit_many, seeds
from coupledict.estimators.keeping import keep_fitted
from coupledict.estimators.verbose import Bar, watched
from coupledict.files.state import CONTRADICTIONS, ModelState
from coupledict.foundation.progress import Meter
from coupledict.foundation.quiet import without_warnings
from coupledict.foundation.text import takes_escapes
from coupledict.kernels import _native
from coupledict.learning.schedule import ScheduleName
from coupledict.learning.settings import Normalize
from coupledict.learning.start import InitName
from coupledict.learning.unused import UnusedAtoms
from coupledict.learning.updates import UpdateName
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
    "InitName",
    "Meter",
    "ModelState",
    "MomentSums",
    "Normalize",
    "Order",
    "PLACES",
    "Piece",
    "PreparedCoder",
    "Pursuit",
    "RUN_AHEAD",
    "Recipe",
    "Samples",
    "ScheduleName",
    "Scratch",
    "Sums",
    "Threads",
    "TreeSum",
    "UnusedAtoms",
    "UpdateName",
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
    "seeds",
    "sum_codes",
    "takes_escapes",
    "watched",
    "without_warnings",
]
