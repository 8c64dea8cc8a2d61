"""What all learners share: parameters, the start, the fit, batches, coding."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator

from . import _init, _passes
from ._atoms import AtomGroup
from ._checkpoint import Checkpoint, Saved
from ._code_files import CodeFile
from ._data import Chunked, Data, InMemory
from ._display import PicturedMixin
from ._loop import LARGEST, Loop, Record, Settings, State, Stream, components_of, make_record
from ._passes import Samples, count_jobs
from ._progress import Progress
from ._pursuit import Coder, Recipe, as_csr, check_pursuit, count_unreached, warn_if_unreached
from ._schedule import Chosen, Growth, Schedule, sample_sizes, sparsity_limits
from ._unused import check_unused
from ._updates import Update, check_update
from ._views import Array, check_count, check_tol, check_view, check_weights, common_dtype

STREAM_RECORDS = 1000  # batches that the history remembers: a stream need not end

Normalize: TypeAlias = Literal["views", "joint"]


def default_n_components(widths: Sequence[int]) -> int:
    """Return four times the features of the largest view, but not more than 256 unless that has more itself."""
    largest = max(widths)
    return max(largest, min(4 * largest, 256))


def generator(random_state: object) -> np.random.Generator:
    """Turn any `random_state` that scikit-learn takes into a NumPy generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, dtype=np.uint32))
    if random_state is None or isinstance(random_state, int | np.integer):
        return np.random.default_rng(random_state)
    raise TypeError(f"Expected random_state to be None, an integer or a NumPy generator, got {random_state!r}.")


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"Expected {name} to be one of {choices}, got {value!r}.")


class ViewLearner(PicturedMixin, BaseEstimator):  # type: ignore[misc]
    """What all learners share; it knows views as a list and nothing of how users hand them over."""

    # Parameters, stored by the subclasses.
    n_components: int | None
    n_nonzero_coefs: int | None
    tol: float | None
    max_iter: int
    pursuit: Any
    init: Any
    normalize: Any
    coupling: Any
    view_weights: Any
    unused_atoms: str
    constant_atom: bool
    schedule: Schedule
    growth: Growth
    update: str
    stop_tol: float
    warm_start: bool
    n_jobs: int | None
    _stream: Stream | None
    random_state: Any
    verbose: int
    callback: Callable[[State], object] | None

    # What fit leaves.
    components_: Any
    view_weights_: npt.NDArray[np.float64]
    history_: list[Record]
    n_iter_: int

    @property
    def _view_components(self) -> list[Array]:
        """The dictionaries as a list, one a view."""
        return list(self.components_)

    def _pictured(self) -> list[tuple[str, Array]]:
        views = self._view_components if hasattr(self, "components_") else []
        return [("dictionary" if len(views) == 1 else f"view {v}", atoms) for v, atoms in enumerate(views)]

    def _check_parameters(self) -> None:
        """Raise for parameters that are wrong, or that cannot work together, before any work is done."""
        check_count(self.max_iter, "max_iter")
        if self.n_nonzero_coefs is not None:
            check_count(self.n_nonzero_coefs, "n_nonzero_coefs")
        if self.tol is not None:
            check_tol(self.tol)
        check_tol(self.stop_tol, "stop_tol")
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"Expected callback to be None or a callable, got {self.callback!r}.")
        self._check_common_parameters()
        check_pursuit(self.pursuit)
        update, unused = check_update(self.update), check_unused(self.unused_atoms)
        if unused.mean and not update.needs_codes:
            raise ValueError(
                f"unused_atoms='mean' needs the residuals of all samples, which update={self.update!r} does not keep."
                " Use update='sequential' or 'ksvd', or another rule for unused atoms."
            )
        if self.coupling == "support" and self.pursuit == "ols":
            raise ValueError("coupling='support' is simultaneous OMP; pursuit='ols' is not offered with it.")
        if self.coupling == "support" and self.normalize == "joint":
            raise ValueError(
                "normalize='joint' ties the gains of the views together, but with coupling='support' each view has"
                " coefficients of its own. Use normalize='views'."
            )

    def _check_common_parameters(self) -> None:
        if self.n_components is not None:
            check_count(self.n_components, "n_components")
        check_choice(self.normalize, "normalize", ("views", "joint"))
        check_choice(self.coupling, "coupling", ("code", "support"))

    def _weights(self, data: Data, scale: float) -> npt.NDArray[np.float64]:
        """Return the weights of the views; `scale` is what their samples were multiplied by."""
        if isinstance(self.view_weights, str):
            check_choice(self.view_weights, "view_weights", ("balanced",))
            sizes = data.mean_energies(count_jobs(self.n_jobs))
            squared = float(np.clip(scale, 1e-150, 1e150)) ** 2
            return np.array([squared / size if size > 0 else 1.0 for size in sizes])
        weights = check_weights(self.view_weights, len(data.widths))
        if not weights.any():
            raise ValueError("Expected a positive weight for at least one view, got only zeros.")
        return weights

    def _start(
        self, data: Data, weights: npt.NDArray[np.float64], rng: np.random.Generator, *, go_on: bool
    ) -> list[AtomGroup]:
        """Return the atoms that learning starts from; with `go_on`, those that are there already."""
        widths = data.widths
        n_components = self.n_components or default_n_components(widths)
        if go_on and hasattr(self, "components_"):
            arrays = [np.asarray(array, np.float64) for array in self._view_components]
            if [array.shape for array in arrays] != [(n_components, width) for width in widths]:
                raise ValueError(
                    f"Expected views of {[array.shape[1] for array in arrays]} features and {arrays[0].shape[0]} atoms"
                    f" to go on from the dictionaries that were learned, got {widths} and {n_components}."
                )
        else:
            init = [self.init] if len(widths) == 1 and isinstance(self.init, np.ndarray) else self.init
            # Samples are the better start where the number of atoms is limited, and cosines where a tolerance drives
            # the codes (benchmarks/default_settings.py); the paper's updates start from cosines, as the paper does.
            cosines = self.tol is not None or self.update != "statistics"
            kind = _init.check_init(init, widths, n_components, cosines=cosines)
            arrays = _init.start(kind, data, n_components, rng)
        if self.constant_atom and not all(array[0, 0] != 0 and np.ptp(array[0]) == 0 for array in arrays):
            arrays = [np.vstack([np.ones((1, array.shape[1])), array[: n_components - 1]]) for array in arrays]
        return self._group(arrays, weights)

    def _group(self, arrays: list[Array], weights: npt.NDArray[np.float64]) -> list[AtomGroup]:
        """Return the atoms of all views in groups that share their coefficients."""
        numbers = list(range(len(arrays)))
        return [
            AtomGroup.of(
                members,
                [arrays[v] for v in members],
                weights[members],
                joint=self.normalize == "joint",
                n_fixed=int(self.constant_atom),
            )
            for members in ([numbers] if self.coupling == "code" else [[v] for v in numbers])
        ]

    def _limit(self, widths: Sequence[int], n_components: int) -> int:
        """Return the final sparsity limit."""
        most = min(n_components, sum(widths) if self.coupling == "code" else min(widths))
        if self.n_nonzero_coefs is not None:
            return min(self.n_nonzero_coefs, most)
        return most if self.tol is not None else min(most, max(1, sum(widths) // 10))

    def _learn(self, data: Data, saved: Saved | None = None, checkpoint: Checkpoint | None = None) -> None:
        """Fit to checked views, from the start or from where a fit was saved."""
        self._check_parameters()
        if data.n_samples == 0:
            raise ValueError("Expected at least one sample in X, got 0.")
        update = check_update(self.update)
        if update.needs_codes and not isinstance(data, InMemory):
            raise ValueError(
                f"update={self.update!r} goes through the residuals of all samples, atom by atom, so they must be in"
                " memory all at once. Use update='statistics' (or 'mod'), which needs sums over the samples only."
            )
        n_jobs = count_jobs(self.n_jobs)
        scale = data.scale() if isinstance(data, InMemory) else 1.0
        data = data.scaled(scale) if isinstance(data, InMemory) else data
        if saved is None:
            rng = generator(self.random_state)
            weights = self._weights(data, scale)
            groups = self._start(data, weights, rng, go_on=self.warm_start)
        else:
            saved.check(data)
            rng, weights = saved.rng, saved.weights
            groups = self._group(saved.atoms, weights)
            for group in groups:  # as they were, to the last bit
                group.atoms[:] = np.hstack([saved.atoms[v] for v in group.views])
        settings = self._settings(data, update, weights, groups[0].atoms.shape[0], n_jobs, scale)
        loop = Loop(data, groups, settings) if saved is None else Loop(
            data, groups, settings, saved.history, saved.position
        )  # fmt: skip
        save = None if checkpoint is None else functools.partial(checkpoint.write, self, loop, rng)
        interrupted = False
        try:
            with Progress(self.verbose, type(self).__name__) as progress:
                loop.run(rng, self.callback, progress, save)
        except KeyboardInterrupt:
            if not loop.history:
                raise
            warnings.warn(
                f"The fit was interrupted; the model is that of iteration {len(loop.history)} of {self.max_iter}.",
                UserWarning,
                stacklevel=3,
            )
            interrupted = True
        self._keep(components_of(groups, data.dtype), weights, loop.history, **self._fresh(data))
        if interrupted:
            return
        try:
            self._after_fit(data, rng, n_jobs, scale)
        except KeyboardInterrupt:
            warnings.warn(
                "The fit was interrupted after its last iteration; predict will use the dictionaries as learned.",
                UserWarning,
                stacklevel=3,
            )

    def _settings(
        self, data: Data, update: Update, weights: npt.NDArray[np.float64], n_components: int, n_jobs: int, scale: float
    ) -> Settings:
        """Return what the loop needs to know."""
        # Growing samples are the companion of the statistics update; its rivals are what they are without.
        automatic = isinstance(self.growth, str) and self.growth == "auto"
        growth = None if automatic and self.update != "statistics" else self.growth
        limit, has_tol = self._limit(data.widths, n_components), self.tol is not None
        return Settings(
            update=update,
            limits=sparsity_limits(self.schedule, limit, self.max_iter, has_tol=has_tol, growing=growth is not None),
            sizes=sample_sizes(growth, data.n_samples, self.max_iter, n_components, has_tol=has_tol),
            tol=self._scaled_tol(scale),
            pursuit=self.pursuit,
            coupling=self.coupling,
            weights=weights,
            unused=check_unused(self.unused_atoms),
            stop_tol=self.stop_tol,
            n_jobs=n_jobs,
            scale=scale,
        )

    def _scaled_tol(self, scale: float) -> float | None:
        """Return the tolerance for samples that were multiplied by `scale`."""
        return None if self.tol is None else min(check_tol(self.tol) * scale * scale, LARGEST)

    def _learn_more(self, views: list[Array], forgetting: float, batch: Chosen | None = None) -> None:
        """Learn from one more batch of checked views: code it, add it to the running sums, sweep over the atoms.

        With `batch`, only these samples of the views are the batch.

        Sums of earlier batches were made with worse dictionaries; they fade as ``(1 - 1 / t) ** 2`` with the number t
        of the batch (the forgetting of Mairal et al., 2010, with exponent 2), and by `forgetting` on top of that.
        """
        if getattr(self, "_stream", None) is None:
            self._check_parameters()
            known = hasattr(self, "components_")
            self._begin(InMemory(views), generator(self.random_state))
            try:
                self._learn_more(views, forgetting, batch)
            except BaseException:
                self._stream = None
                if not known:
                    del self.components_
                raise
            return
        stream, dtype = self._stream, self._view_components[0].dtype
        assert stream is not None
        n_jobs = count_jobs(self.n_jobs)
        began = time.perf_counter()
        if stream.scale != 1:
            chosen = views if batch is None else [np.asarray(view[batch.samples]) for view in views]
            views, batch = InMemory(chosen).scaled(stream.scale).views, None
        recipe = self._recipe(list(range(len(views))), dtype, views[0].shape[0])
        coder = dataclasses.replace(recipe, tol=self._scaled_tol(stream.scale)).coder(n_jobs)
        found = self._batch_statistics(coder, Samples(views, dtype, batch), n_jobs)
        stream = stream.absorb(found, forgetting)
        seconds = (self.history_[-1]["seconds"] if self.history_ else 0.0) + time.perf_counter() - began
        energies = np.zeros(len(views))
        record = make_record(
            found.n_samples,
            found.energy,
            found.n_nonzeros,
            energies,
            found.uses,
            coder.n_nonzero,
            seconds,
            stream.scale,
        )
        del record["view_errors"]
        history = [*self.history_[1 - STREAM_RECORDS :], record]
        self._keep(
            components_of(stream.groups, dtype), self.view_weights_, history, n_iter_=self.n_iter_ + 1, _stream=stream
        )

    def _begin(self, data: InMemory, rng: np.random.Generator) -> None:
        """Start learning from batches, from the dictionaries that are there if there are any."""
        known = hasattr(self, "components_")
        scale = 1.0 if self.pursuit == "lasso" else data.scale()  # its penalty has a scale of its own
        data = data.scaled(scale)
        weights = self.view_weights_ if known else self._weights(data, scale)
        dtype = self._view_components[0].dtype if known else data.dtype
        groups = self._start(data, weights, rng, go_on=True)
        self._keep(
            components_of(groups, dtype),
            weights,
            self.history_ if known else [],
            **self._fresh(data) | {"n_iter_": self.n_iter_ if known else 0, "_stream": Stream(groups, scale)},
        )

    def _batch_statistics(self, coder: Coder, samples: Samples, n_jobs: int) -> _passes.Statistics:
        return _passes.statistics(coder, samples, n_jobs)

    def _keep(
        self, components: list[Array], weights: npt.NDArray[np.float64], history: list[Record], **more: Any
    ) -> None:
        """Set what was learned, in one step: an interrupt finds all of it or nothing."""
        known = {"components_": components, "view_weights_": weights, "history_": history, "n_iter_": len(history)}
        self.__dict__.update(known | more)

    def _fresh(self, data: Data) -> dict[str, Any]:
        """Return what else a new model sets."""
        return {"_stream": None}  # batches go on from these dictionaries

    def _after_fit(self, data: Data, rng: np.random.Generator, n_jobs: int, scale: float = 1.0) -> None:
        """Do what a learner adds once the dictionaries are there."""

    def _recipe(self, present: list[int], dtype: np.dtype[Any], n_samples: int) -> Recipe:
        components = self._view_components
        return Recipe(
            [components[v] for v in present],
            self.view_weights_[present],
            dtype,
            n_nonzero=None if self.n_nonzero_coefs is None else check_count(self.n_nonzero_coefs, "n_nonzero_coefs"),
            tol=None if self.tol is None else check_tol(self.tol),
            pursuit=self.pursuit,
            n_samples=n_samples,
            coupling=self.coupling,
        )

    def _coder(self, present: list[int], dtype: np.dtype[Any], n_samples: int, n_jobs: int) -> Coder:
        return self._recipe(present, dtype, n_samples).coder(n_jobs)

    def _kept(self, present: list[int]) -> list[int]:
        """Return the places of the views that are coded among those that are given: all but those of weight 0."""
        kept = [i for i, v in enumerate(present) if self.view_weights_[v] > 0]
        if not kept:
            raise ValueError("Expected a view of positive weight in X, got only views of weight 0.")
        # With a common support every view that is given gets its code, if only one of zeros.
        return kept if self.coupling == "code" else list(range(len(present)))

    def _chunked_recipe(self, data: Chunked, without: int | None = None) -> tuple[Recipe, list[int]]:
        """Return how to code samples that are not in memory, and which of their views; `without` is left out."""
        components = self._view_components
        if self.pursuit == "lasso":
            raise ValueError("pursuit='lasso' codes arrays in memory only; code the chunks one by one.")
        if data.n_views != len(components):
            raise ValueError(
                f"Expected {len(components)} views, one for each dictionary (None for an absent one), got"
                f" {data.n_views}."
            )
        widths = [components[v].shape[1] for v in data.present]
        if data.widths != widths:
            raise ValueError(f"Expected views of {widths} features, as their dictionaries have, got {data.widths}.")
        places = [i for i, v in enumerate(data.present) if v != without]
        if not places:
            raise ValueError(f"Expected at least one view other than the wanted one ({without}), got none.")
        sources = [places[i] for i in self._kept([data.present[i] for i in places])]
        dtype = np.result_type(data.dtype, *components)
        return self._recipe([data.present[i] for i in sources], dtype, data.n_samples), sources

    def _write_codes(self, data: Chunked, out: str | os.PathLike[str]) -> CodeFile:
        if self.coupling == "support":
            raise ValueError("Codes are written to files with coupling='code' only; here every view has its own.")
        recipe, sources = self._chunked_recipe(data)
        return data.write_codes(recipe, sources, out, count_jobs(self.n_jobs))

    def _encode(self, present: list[int], views: list[Array]) -> tuple[list[csr_array], _passes.Coded]:
        """Code checked views; one CSR array for each group of views that shares its coefficients."""
        kept = self._kept(present)
        views, present = [views[i] for i in kept], [present[i] for i in kept]
        n_jobs = count_jobs(self.n_jobs)
        dtype = common_dtype([*views, *self._view_components])
        coder = self._coder(present, dtype, views[0].shape[0], n_jobs)
        coded = _passes.encode(coder, Samples(views, dtype), n_jobs)
        warn_if_unreached(count_unreached(coded, coder), coded.status.size, coder.tol)
        return as_csr(coded, coder.n_atoms), coded

    def _explained_chunked(self, data: Chunked) -> float:
        recipe, sources = self._chunked_recipe(data)
        found = data.statistics(recipe, None, count_jobs(self.n_jobs), sources=sources)
        total = float(recipe.weights @ found.view_energy)
        return 1.0 - found.energy / total if total > 0 else 1.0

    def _explained(self, present: list[int], views: list[Array]) -> float:
        """Return the share of the weighted energy of the views that their codes explain."""
        codes, coded = self._encode(present, views)
        weights, data = self.view_weights_[present], InMemory(views)
        scale = data.scale()
        total = float(weights @ [np.einsum("ij,ij->", x, x, dtype=np.float64) for x in data.scaled(scale).views])
        if total == 0:
            return 1.0
        if scale == 1:
            return 1.0 - float(coded.energy.sum()) / total
        left = 0.0  # the energy that the coder found is beyond the range of numbers: once more, from the codes
        for i, (v, x) in enumerate(zip(present, data.scaled(scale).views, strict=True)):
            part = codes[0 if self.coupling == "code" else i].astype(np.float64) * scale
            left += float(weights[i]) * float(np.sum((x - part @ self._view_components[v]) ** 2, dtype=np.float64))
        return 1.0 - left / total


def rebuild(codes: Any, atoms: Array) -> Array:
    """Return codes @ atoms as an array."""
    table: Any = codes if issparse(codes) else check_view(codes, "codes")
    if table.ndim != 2 or table.shape[1] != atoms.shape[0]:
        raise ValueError(f"Expected codes of shape (n_samples, {atoms.shape[0]}), got {table.shape}.")
    return np.asarray(table @ atoms)
