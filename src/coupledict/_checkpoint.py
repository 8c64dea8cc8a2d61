"""Fits that can be taken up again: what an iteration leaves, in one file, from which the next goes on bit for bit.

A checkpoint is a model file with more in it: :func:`coupledict.load` opens it as the model of its last iteration.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._data import Data
from ._schedule import Order
from ._views import Array, check_count
from .model_io import MOST, ModelFileError, contradiction, read_model, write_model

if TYPE_CHECKING:
    from ._loop import Loop, Position, Record

GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
MT19937_WORDS, PHILOX_WORDS = 624, 4  # of their states
FREE_PARAMETERS = ("n_jobs", "verbose", "callback", "random_state", "refit", "refit_alpha")  # the loop is the same


def _plain_state(state: Any) -> Any:
    """Return the state of a bit generator as JSON can hold it."""
    if isinstance(state, dict):
        return {key: _plain_state(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state


def _restore_generator(state: dict[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in GENERATORS:
        raise ValueError(f"it names an unknown random generator {name!r}")
    # NumPy takes these two as they are, and would read beyond its state.
    if name == "MT19937" and not 0 <= state["state"]["pos"] <= MT19937_WORDS:
        raise ValueError("its random generator is at an impossible place")
    if name == "Philox" and not 0 <= state["buffer_pos"] <= PHILOX_WORDS:
        raise ValueError("its random generator is at an impossible place")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)


@dataclass
class Saved:
    """A fit as it was when it was saved."""

    atoms: list[npt.NDArray[np.float64]]
    weights: npt.NDArray[np.float64]
    history: list[Record]
    position: Position
    rng: np.random.Generator
    n_samples: int
    dtype: str
    name: str

    def check(self, data: Data) -> None:
        """Raise unless these are, by their sizes, the samples that the fit was begun with."""
        widths = [array.shape[1] for array in self.atoms]
        if (data.n_samples, data.widths, str(data.dtype)) != (self.n_samples, widths, self.dtype):
            raise ValueError(
                f"Expected the samples that {self.name!r} was made with, {self.n_samples} of {widths} {self.dtype}"
                f" features, got {data.n_samples} of {data.widths} {data.dtype} features."
            )
        order = self.position.order
        if order is not None and order.n_samples != (places := data.order(np.random.default_rng(0)).n_samples):
            raise ValueError(
                f"Expected the samples cut into chunks as when {self.name!r} was made, {order.n_samples} parts to take"
                f" them by, got {places}."
            )


class Checkpoint:
    """Writes the state of a fit every few iterations, and at the last."""

    def __init__(self, path: str | os.PathLike[str], every: int) -> None:
        self._path, self._every = path, check_count(every, "every")
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():  # better now than after the first iteration
            raise FileNotFoundError(f"Expected the folder {str(target.parent)!r} for the checkpoint to exist. Make it.")
        if target.is_dir():
            raise IsADirectoryError(f"Expected the name of a file for the checkpoint, got the folder {str(target)!r}.")

    @classmethod
    def at(cls, path: str | os.PathLike[str] | None, every: int) -> Checkpoint | None:
        """Return the checkpoint of that name, None where there is to be none."""
        if path is None and every != 1:
            raise ValueError(f"Expected a name for the checkpoint with every={every!r}, got checkpoint=None.")
        return None if path is None else cls(path, every)

    def write(self, learner: Any, loop: Loop, rng: np.random.Generator) -> None:
        """Write the state, if it is time to."""
        from ._loop import components_of
        from ._saving import describe

        position, n_iter = loop.position, len(loop.settings.limits)
        if position.iteration % self._every and position.iteration < n_iter:
            return
        components, order = components_of(loop.groups, loop.dtype), position.order
        tensors, metadata = describe(learner, components, loop.settings.weights, loop.history, {})
        for v, array in enumerate(components_of(loop.groups, np.dtype(np.float64))):
            tensors[f"checkpoint.atoms.{v}"] = array
        metadata["checkpoint"] = {
            "iteration": position.iteration,
            "order": None if order is None else [order.n_samples, order.step, order.first, order.size],
            "place": position.place,
            "all_in": position.all_in,
            "generator": _plain_state(rng.bit_generator.state),
            "n_samples": loop.data.n_samples,
            "dtype": str(loop.dtype),
        }
        try:
            write_model(self._path, tensors, metadata)
        except OSError as error:
            raise OSError(
                error.errno,
                f"Could not write the checkpoint of iteration {position.iteration}; an older one is as it was."
                f" {error.strerror}",
                os.fspath(self._path),
            ) from error


def read_checkpoint(path: str | os.PathLike[str], learner: Any) -> Saved:
    """Return the fit that was saved there, which must have been one of this learner."""
    from ._saving import CONTRADICTIONS, describe_parameters

    name = os.fspath(path)
    tensors, metadata = read_model(path)
    if "checkpoint" not in metadata:
        raise ModelFileError(f"Expected {name!r} to be a checkpoint of a fit, got a model without one.")
    try:
        saved, estimator, parameters = _rebuild(tensors, metadata, str(name))
    except CONTRADICTIONS as error:
        raise contradiction(path, "a complete checkpoint", error) from error
    if estimator != type(learner).__name__:
        raise ValueError(
            f"Expected {name!r} to be a checkpoint of a {type(learner).__name__}, got one of a {estimator}."
        )
    own, other = describe_parameters(learner), "something else"  # what is not data, like a callable, is in neither
    differing = [
        f"{key} ({parameters.get(key, other)!r} then, {own.get(key, other)!r} now)"
        for key in learner.get_params(deep=False)
        if key not in FREE_PARAMETERS and parameters.get(key, other) != own.get(key, other)
    ]
    if differing:
        raise ValueError(f"Expected the parameters that {name!r} was made with; {', '.join(differing)} differ.")
    return saved


def _rebuild(tensors: dict[str, Array], metadata: dict[str, Any], name: str) -> tuple[Saved, str, dict[str, Any]]:
    from ._loop import Position
    from ._saving import check_count_of, check_file_weights, check_history

    state, n_views = metadata["checkpoint"], metadata["n_views"]
    history, weights = check_history(metadata["history"]), check_file_weights(tensors["view_weights"], n_views)
    atoms = [tensors[f"checkpoint.atoms.{v}"] for v in range(n_views)]
    if any(array.ndim != 2 or array.shape[0] != atoms[0].shape[0] for array in atoms):
        raise ValueError("its arrays do not fit each other")
    if any(array.dtype != np.float64 or array.size == 0 for array in atoms):
        raise ValueError("its arrays are empty or not of float64")
    order = None if state["order"] is None else _restore_order(state["order"])
    iteration, place = (check_count_of(state[name], name) for name in ("iteration", "place"))
    if iteration != len(history):
        raise ValueError("its history does not have one record for each iteration")
    if any(key not in record for record in history for key in ("limit", "objective", "n_samples")):
        raise ValueError("its history is not complete")
    position = Position(iteration, order, place, bool(state["all_in"]))
    rng = _restore_generator(state["generator"])
    n_samples = check_count_of(state["n_samples"], "number of samples")
    saved = Saved(atoms, weights, history, position, rng, n_samples, str(state["dtype"]), name)
    return saved, str(metadata["estimator"]), dict(metadata["parameters"])


def _restore_order(numbers: Any) -> Order:
    """Return an order of samples, in which each must come once."""
    n_samples, step, first, size = numbers
    if not all(type(number) is int for number in (n_samples, step, first, size)):
        raise ValueError("its order of the samples is not one of numbers")
    once = 0 < step < 2 * n_samples < MOST and math.gcd(step, n_samples) == 1
    if not once or not 0 <= first < n_samples or size != n_samples:
        raise ValueError("its order of the samples leaves some out")
    return Order(n_samples, step, first, size)
