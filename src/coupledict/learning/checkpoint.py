"""Checkpoints: the state of a fit after an iteration, in one file, from which the fit can be resumed.

A resumed fit gives the same result, to the last bit. A checkpoint is a model file with additional contents:
:func:`coupledict.load` opens it as the model of its last iteration.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.interface import Data
from ..data.order import Order
from ..files.models import JSON, MOST, ModelFileError, contradiction
from ..files.state import CONTRADICTIONS, ModelState, check_file_count, check_file_weights, check_history
from ..files.whole import check_replaceable
from ..foundation.arrays import Floats
from ..foundation.checks import check_count
from ..foundation.progress import Record
from ..foundation.text import quoted
from .atoms import in_view_order
from .fitted import FittedDictionaries
from .loop import Loop, Position
from .model_file import to_tensors

GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
MT19937_WORDS, PHILOX_WORDS = 624, 4  # words of their states
#: Parameters that may differ on resume: learning does not depend on them.
FREE_PARAMETERS = ("n_jobs", "verbose", "callback", "random_state", "predictor", "ridge_alpha", "sparse_output")


def _plain_state(state: Any) -> Any:
    """Return the state of a bit generator as JSON values."""
    if isinstance(state, dict):
        return {key: _plain_state(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state


def _restore_generator(state: dict[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in GENERATORS:
        raise ValueError(f"it names an unknown random generator {name!r}")
    # NumPy does not check these two positions, and would read beyond the end of the state.
    if name == "MT19937" and not 0 <= state["state"]["pos"] <= MT19937_WORDS:
        raise ValueError("its random generator is at an impossible place")
    if name == "Philox" and not 0 <= state["buffer_pos"] <= PHILOX_WORDS:
        raise ValueError("its random generator is at an impossible place")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)


@dataclass
class SavedFit:
    """The state of a fit, as read from a checkpoint."""

    atoms: list[Floats]
    weights: Floats
    history: list[Record]
    position: Position
    rng: np.random.Generator
    n_samples: int
    dtype: str
    view_names: list[str] | None
    name: str

    def check(self, data: Data) -> None:
        """Raise unless the samples have the sizes and the dtype of those that the fit began with."""
        widths = [array.shape[1] for array in self.atoms]
        if (data.n_samples, data.widths, str(data.dtype)) != (self.n_samples, widths, self.dtype):
            raise ValueError(
                f"Expected the samples that {self.name} was made with, {self.n_samples} of {widths} {self.dtype}"
                f" features, got {data.n_samples} of {data.widths} {data.dtype} features."
            )
        names = None if data.view_names is None else list(data.view_names)
        if self.view_names is not None and names is not None and names != self.view_names:
            raise ValueError(
                f"Expected views named {self.view_names}, in this order, as {self.name} was made with, got {names}."
            )
        order = self.position.order
        if order is not None and order.n_samples != (places := data.order(np.random.default_rng(0)).n_samples):
            raise ValueError(
                f"Expected the samples in the same chunks as when {self.name} was made, {order.n_samples} of them, got"
                f" {places}."
            )


class Checkpoint:
    """Writes the state of a fit every few iterations, and after the last one.

    Parameters
    ----------
    path : path-like
    every : int
        Iterations between two checkpoints.
    estimator : str
        Name of the learner's class.
    parameters : dict
        Those of its parameters that are data.
    names : dict
        Names of views and features, as facts of a model.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: int,
        estimator: str,
        parameters: dict[str, Any],
        names: dict[str, JSON],
    ) -> None:
        self._path = path
        self._every = check_count(every, "checkpoint_every")
        self._estimator = estimator
        self._parameters = parameters
        self._names = names
        self._written = -1  # the iteration of the last checkpoint
        target = Path(os.path.realpath(path))
        self._replace = target.exists()  # a file that another program makes in the meantime is not replaced
        if not target.parent.is_dir():  # raised now, not after the first iteration
            raise FileNotFoundError(
                f"Expected the folder {quoted(target.parent)} for the checkpoint to exist. Make it."
            )
        check_replaceable(path)

    def write(self, loop: Loop, rng: np.random.Generator, *, last: bool = False) -> None:
        """Write the state, if a checkpoint is due after this iteration or it is the last one."""
        position, data = loop.position, loop.data
        due = last or position.iteration % self._every == 0 or position.iteration == loop.n_iter
        if not due or position.iteration in (0, self._written):
            return
        components, order = in_view_order(loop.groups, data.dtype), position.order
        standard = None if data.standard is None else data.standard.scaled(1 / data.scale)
        fitted = FittedDictionaries(components, loop.plan.weights, loop.history, len(loop.history), standard=standard)
        tensors, facts = to_tensors(fitted)
        for group in loop.groups:
            for v, part in zip(group.views, group.parts(), strict=True):
                tensors[f"checkpoint.atoms.{v}"] = np.ascontiguousarray(part / group.unit)
        for v, atoms in enumerate(position.filled_by):
            tensors[f"checkpoint.filled_by.{v}"] = np.ascontiguousarray(atoms)
        facts["checkpoint"] = {
            "iteration": position.iteration,
            "order": None if order is None else [order.n_samples, order.step, order.first, order.size],
            "place": position.place,
            "all_in": position.all_in,
            "generator": _plain_state(rng.bit_generator.state),
            "n_samples": data.n_samples,
            "dtype": str(data.dtype),
        }
        try:
            ModelState(self._estimator, self._parameters, tensors, facts | self._names).write(
                self._path, replace=self._replace
            )
        except OSError as error:
            sentence = f"Could not write the checkpoint of iteration {position.iteration}; an older one is as it was."
            if error.errno is None:
                raise type(error)(f"{sentence} {error}") from error
            raise OSError(error.errno, f"{sentence} {error.strerror}", os.fspath(self._path)) from error
        self._written = position.iteration
        self._replace = True


def read_checkpoint(path: str | os.PathLike[str], estimator: str, parameters: dict[str, Any]) -> SavedFit:
    """Return the saved fit; raise unless it is of this estimator with these parameters."""
    name = quoted(path)
    state = ModelState.read(path)
    if "checkpoint" not in state.facts:
        raise ModelFileError(f"Expected {name} to be a checkpoint of a fit, got a model without one.")
    try:
        saved = _rebuild(state, name)
    except CONTRADICTIONS as error:
        raise contradiction(path, "a complete checkpoint", error) from error
    if state.estimator != estimator:
        raise ValueError(f"Expected {name} to be a checkpoint of a {estimator}, got one of a {state.estimator}.")
    other = "something else"  # stands for what is not data, such as a callable, and is in neither dict
    then = state.parameters
    differing = [
        f"{key} ({then.get(key, other)!r} then, {parameters.get(key, other)!r} now)"
        for key in [*parameters, *(key for key in then if key not in parameters)]
        if key not in FREE_PARAMETERS and then.get(key, other) != parameters.get(key, other)
    ]
    if differing:
        raise ValueError(f"Expected the parameters that {name} was made with; {', '.join(differing)} differ.")
    return saved


def _rebuild(state: ModelState, name: str) -> SavedFit:
    facts, n_views = state.facts["checkpoint"], state.facts["n_views"]
    history = check_history(state.facts["history"])
    weights = check_file_weights(state.tensors["view_weights"], n_views)
    atoms = [state.tensors[f"checkpoint.atoms.{v}"] for v in range(n_views)]
    filled_by = [array for v in range(n_views) if (array := state.tensors.get(f"checkpoint.filled_by.{v}")) is not None]
    if any(array.ndim != 2 or array.shape[0] != atoms[0].shape[0] for array in atoms):
        raise ValueError("its arrays do not fit each other")
    if filled_by and [array.shape for array in filled_by] != [array.shape for array in atoms]:
        raise ValueError("its arrays do not fit each other")
    if any(array.dtype != np.float64 or array.size == 0 for array in [*atoms, *filled_by]):
        raise ValueError("its arrays are empty or not of float64")
    order = None if facts["order"] is None else _restore_order(facts["order"])
    iteration, place = (check_file_count(facts[key], key) for key in ("iteration", "place"))
    if iteration != len(history):
        raise ValueError("its history does not have one record for each iteration")
    if any(key not in record for record in history for key in ("limit", "objective", "n_samples")):
        raise ValueError("its history is not complete")
    position = Position(iteration, order, place, bool(facts["all_in"]), list(filled_by))
    n_samples = check_file_count(facts["n_samples"], "number of samples")
    rng = _restore_generator(facts["generator"])
    names = state.facts.get("view_names_in")
    return SavedFit(atoms, weights, history, position, rng, n_samples, str(facts["dtype"]), names, name)


def _restore_order(numbers: Any) -> Order:
    """Return an order of samples; raise unless each sample comes once."""
    n_samples, step, first, size = numbers
    if not all(type(number) is int for number in (n_samples, step, first, size)):
        raise ValueError("its order of the samples is not one of numbers")
    once = 0 < step < 2 * n_samples < MOST and math.gcd(step, n_samples) == 1
    if not once or not 0 <= first < n_samples or size != n_samples:
        raise ValueError("its order of the samples leaves some out")
    return Order(n_samples, step, first, size)
