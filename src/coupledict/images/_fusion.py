"""Multi-focus fusion as an estimator: pictures focused in different places become one that is in focus everywhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.ensemble import fit_many
from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin
from ..files.state import ModelState, check_range, make_estimator, plain_parameters
from ..foundation.checks import check_choice, check_counts, check_non_negative, check_truth, make_generator
from ..foundation.progress import Callback, Meter
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import count_jobs
from ._fusion_focus import FocusMeasure
from ._fusion_motion import MOTIONS, Motion
from ._fusion_passes import BLEND, DECIDE, LOOK, fuse_stack, look, place, with_steps
from ._fusion_pictures import check_pairs, draw_views
from ._fusion_result import Fusion
from ._fusion_slabs import fuse_slabs, slab_size, split
from ._fusion_stack import Stack
from ._opencv import one_opencv_thread

MODEL = "fusion.safetensors"  # tools/train_fusion.py makes it
LEARNER = CoupledDictionaryLearning.__name__
MOST = 1e3  # in a dictionary from a file: atoms have norm 1, and energies of far larger ones could overflow


class MultiFocusFusion(RunMixin, SavedMixin, BaseEstimator):  # type: ignore[misc]
    """Fuse pictures of one scene that are in focus in different places, such as a focus stack.

    Pictures are aligned with the one in the middle, neighbour by neighbour, and their exposure is matched. A coupled
    dictionary of patches in focus and the same patches blurred then tells how much of the detail of each picture blur
    would have taken away: the picture with most of it is in focus. The decision is made for all places together: places
    without detail follow their neighbours. The result is blended level by level of a Laplacian pyramid; where several
    pictures show the same, they are averaged, which removes noise. The method builds on the coupled dictionaries of
    [1]_.

    Pictures are read one at a time, each of them twice. Order matters: neighbours in the list should be neighbours in
    focus, as the camera took them.

    A dictionary that was learned from photographs ships with the package, so `fuse` works without `fit`. `fuse` needs
    OpenCV, which comes with the extra ``images``.

    Parameters
    ----------
    n_components : int, default=128
        Atoms of the dictionary. The shipped dictionary has the default values of this parameter and of the next two;
        other values need `fit`.
    n_nonzero_coefs : int, default=3
        Atoms in the code of a patch.
    patch_size : int, default=8
        Side of the square patches.
    register : {"auto", True, False}, default="auto"
        Whether pictures are aligned, and their brightness matched. Each step from a picture to its neighbour is
        verified; one that does not make the two more alike is not taken, and :class:`FusedSource` says so. With
        ``"auto"``, pictures whose corners would move by less than 0.15 pixels are not resampled.
    motion : {"affine", "shift", "similarity", "projective"}, default="affine"
        Kind of motion between pictures. ``"shift"`` is for a camera on a rail that does not breathe, ``"similarity"``
        has shift, turn and scale, ``"projective"`` is for a camera that was tilted.
    keep_size : bool, default=False
        Return the whole frame of the middle picture. By default only what all pictures cover is returned. Places that
        some pictures do not cover are taken from those that do.
    n_scales : int, default=3
        Scales on which focus is measured, each half as large as the one before. More scales resist more noise, fewer
        follow finer structures.
    smoothness : float, default=1
        How much neighbouring places are drawn to one source; 0 decides about each cell of 4 x 4 pixels by itself.
    slab : int, optional
        Fuse this many neighbouring pictures at a time, and then the results. If left out, stacks of more than 100
        pictures are fused in slabs of about 50.
    max_samples : int, default=100_000
        Most pairs of patches that `fit` learns from.
    max_iter : int, default=30
        Iterations of dictionary learning in `fit`.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Source of the patches that `fit` draws and of the learner's start.
    verbose : int, default=0
        1 shows progress.
    callback : callable, optional
        Called with a :class:`coupledict.Progress` as iterations of `fit` and pictures of `fuse` are finished. A true
        return value stops the work by :class:`coupledict.StoppedByCallback`.

    Attributes
    ----------
    learner_ : CoupledDictionaryLearning
        After `fit`: the dictionary, of detail in focus (view 0) and the same detail out of focus (view 1).

    References
    ----------
    .. [1] Veshki and Vorobyov (2019), as in :class:`coupledict.CoupledDictionaryLearning`.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.ndimage import gaussian_filter
    >>> from coupledict.images import MultiFocusFusion
    >>> sharp = np.random.default_rng(0).uniform(0, 255, (64, 64))
    >>> soft = gaussian_filter(sharp, 2)
    >>> near = np.arange(64) < 32
    >>> left, right = np.where(near, sharp, soft), np.where(near, soft, sharp)
    >>> fused = MultiFocusFusion().fuse([left, right])
    >>> fused.decision[10, 10], fused.decision[10, 50]
    (np.uint8(0), np.uint8(1))
    >>> bool(np.abs(fused.image - sharp).mean() < 0.1 * np.abs(left - sharp).mean())
    True
    """

    def __init__(
        self,
        n_components: int = 128,
        *,
        n_nonzero_coefs: int = 3,
        patch_size: int = 8,
        register: bool | Literal["auto"] = "auto",
        motion: Motion = "affine",
        keep_size: bool = False,
        n_scales: int = 3,
        smoothness: float = 1.0,
        slab: int | None = None,
        max_samples: int = 100_000,
        max_iter: int = 30,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self._set_run(n_jobs, random_state, verbose, callback)
        self.n_components, self.n_nonzero_coefs, self.patch_size = n_components, n_nonzero_coefs, patch_size
        self.register, self.motion, self.keep_size = register, motion, keep_size
        self.n_scales, self.smoothness, self.slab = n_scales, smoothness, slab
        self.max_samples, self.max_iter = max_samples, max_iter

    def _check_parameters(self) -> None:
        counts = ("n_components", "n_nonzero_coefs", "patch_size", "max_samples", "max_iter", "n_scales")
        check_counts(self, *counts, optional=("slab",))
        if self.patch_size < 4:
            raise ValueError(f"Expected patch_size to be at least 4, got {self.patch_size}.")
        if self.slab is not None and self.slab < 2:
            raise ValueError(f"Expected slab to be at least 2 pictures, got {self.slab}.")
        if not isinstance(self.register, bool | np.bool_) and self.register != "auto":
            raise ValueError(f"Expected register to be 'auto', True or False, got {self.register!r}.")
        check_choice(self.motion, "motion", MOTIONS)
        check_truth(self.keep_size, "keep_size")
        check_non_negative(self.smoothness, "smoothness")
        self._check_run()

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the dictionary from images in focus and the same images out of focus.

        Parameters
        ----------
        X : [focused, blurred], or dict with these names
            Two lists of equally many images, arrays of shape (height, width) or (height, width, n_channels); a single
            image need not be in a list. The blurred images show the same scenes in the same shapes out of focus, with
            the kind of blur that the sources will have.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        rng = make_generator(self.random_state)
        self._check_parameters()
        with one_opencv_thread():
            views = draw_views(check_pairs(X, self.patch_size), self.patch_size, self.max_samples, rng)
        learner = CoupledDictionaryLearning(
            self.n_components,
            n_nonzero_coefs=self.n_nonzero_coefs,
            max_iter=self.max_iter,
            normalize="joint",
            n_jobs=self.n_jobs,
            random_state=rng,
        )
        with self._watched() as told:
            self.learner_ = fit_many([learner], list(views), self.n_jobs, told)[0]
        return self

    def fuse(self, images: Sequence[npt.ArrayLike | str | os.PathLike[str]]) -> Fusion:
        """Fuse two or more pictures.

        Parameters
        ----------
        images : list of arrays of shape (height, width) or (height, width, n_channels), or of paths
            Sources of one shape and one number type, in the order of their focus: integers or floating-point numbers on
            any scale. Files are read when they are needed, so a list of paths takes much less memory than a list of
            arrays. The decision is made from the brightness of red, green and blue, or from the mean of other channels.
            Arrays of PyTorch, JAX and others are read in place.

        Returns
        -------
        Fusion
            With the fields `image`, `decision`, `depth`, `reference`, `box` and `sources`.
        """
        self._check_parameters()
        with one_opencv_thread(), one_blas_thread(), self._watched() as told:
            measure = self._focus_measure()
            n_sources = len(Stack(images, self.patch_size))  # raises for a wrong list
            size = slab_size(n_sources, self.slab)
            n_pictures = n_sources if size is None else n_sources + len(split(n_sources, size))
            meter = Meter(told, "fusing", n_pictures * (LOOK + DECIDE + BLEND))
            meter.advance(0)
            if size is None:
                return self._fuse(images, measure, meter, keep_size=self.keep_size)
            return fuse_slabs(
                images,
                size,
                lambda slab, _: self._fuse(slab, measure, meter, keep_size=True),
                lambda slabs: self._fuse(slabs, measure, meter, keep_size=self.keep_size),
            )

    def _fuse(self, images: Sequence[Any], measure: FocusMeasure, meter: Meter, *, keep_size: bool) -> Fusion:
        """Fuse a stack at once."""
        stack, n_jobs = Stack(images, self.patch_size), count_jobs(self.n_jobs)
        overview = look(stack, measure, self.motion if self.register else None, n_jobs=n_jobs, meter=meter)
        reference = len(stack) // 2
        reference += reference in overview.strangers  # the next is none
        always = self.register != "auto" and bool(self.register)
        placement = place(stack, overview, reference, always=always, keep_size=keep_size)
        fused = fuse_stack(
            stack, overview, placement, reference, smoothness=self.smoothness, n_jobs=n_jobs, meter=meter
        )
        return with_steps(fused, overview)

    def _focus_measure(self) -> FocusMeasure:
        return FocusMeasure(self._dictionary(), self.n_scales)

    def _dictionary(self) -> CoupledDictionaryLearning:
        """Return the learner of `fit`, or the shipped one; raise if the parameters do not describe the shipped one."""
        if hasattr(self, "learner_"):
            _check_learner(self.learner_, self.patch_size)
            return self.learner_
        learner = _shipped()
        n_components, n_features = learner.components_[0].shape
        ships = (n_components, learner.n_nonzero_coefs, round(n_features**0.5))
        wanted = (self.n_components, self.n_nonzero_coefs, self.patch_size)
        if wanted != ships:
            raise ValueError(
                f"The dictionary that ships has n_components={ships[0]}, n_nonzero_coefs={ships[1]} and"
                f" patch_size={ships[2]}, got {wanted[0]}, {wanted[1]} and {wanted[2]}. Call fit first to learn one"
                " with these."
            )
        return learner

    # A file holds the state of the learner; the learner's parameters are stored among the facts, beside the parameters
    # of the fusion.

    def _to_state(self) -> ModelState:
        learner = self._dictionary()._to_state()
        # `fit` gave the learner a generator as random_state, which a file cannot hold.
        parameters = {name: value for name, value in learner.parameters.items() if name != "random_state"}
        facts = learner.facts | {"learner": parameters}
        return ModelState(type(self).__name__, plain_parameters(self), learner.tensors, facts)

    @classmethod
    def _from_state(cls, state: ModelState) -> Self:
        learner = CoupledDictionaryLearning._from_state(
            ModelState(LEARNER, state.facts["learner"], state.tensors, state.facts)
        )
        fusion = make_estimator(cls, state.parameters)
        _check_learner(learner, fusion.patch_size)
        check_range(state.tensors, MOST, "components.")
        fusion.learner_ = learner
        return fusion

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _check_learner(learner: CoupledDictionaryLearning, side: int) -> None:
    """Raise unless a learner has two views of square patches of this size, and a limit of atoms."""
    if (
        learner.n_features_in_ != [side * side] * 2
        or learner.n_nonzero_coefs is None
        or learner.coupling != "code"
        or not learner.view_weights_[0] > 0
    ):
        raise ValueError(
            f"Expected the dictionaries of two views of square patches, {side} x {side} pixels as patch_size says, got"
            f" views of {learner.n_features_in_} features. Call fit first to learn others."
        )


@lru_cache(maxsize=1)
def _shipped() -> CoupledDictionaryLearning:
    with resources.as_file(resources.files(__package__) / "models" / MODEL) as path:
        return MultiFocusFusion.load(path).learner_
