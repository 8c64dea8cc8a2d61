"""Multi-focus fusion as an estimator: pictures focused at different depths become one that is sharp everywhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, ClassVar, Literal, Self

import numpy.typing as npt
from sklearn.base import BaseEstimator

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.ensemble import fit_many, plain_learner
from ..estimators.running import TASK_CONSTRAINTS, RunMixin
from ..estimators.saving import SavedMixin
from ..files.state import ModelState, check_range, make_estimator, plain_parameters
from ..foundation.checks import make_generator
from ..foundation.parameters import BOOLEAN, COUNT, NON_NEGATIVE, NONE, Choice, Constraints, Integer
from ..foundation.progress import Callback, Meter
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import count_jobs
from ._fusion_focus import FocusMeasure
from ._fusion_motion import Motion
from ._fusion_passes import BLEND_UNITS, DECIDE_UNITS, MEASURE_UNITS, fuse_stack, measure_stack, place, with_steps
from ._fusion_pictures import check_pairs, draw_views
from ._fusion_result import Fusion
from ._fusion_slabs import fuse_slabs, slab_size, split
from ._fusion_stack import Stack
from ._opencv import one_opencv_thread

MODEL = "fusion.safetensors"  # tools/train_fusion.py makes it
LEARNER = CoupledDictionaryLearning.__name__
LARGEST_VALUE = 1e3  # accepted in a dictionary from a file: atoms have norm 1; energies of larger ones may overflow


class MultiFocusFusion(RunMixin, SavedMixin, BaseEstimator):  # type: ignore[misc]
    """Fuse pictures of one scene that are in focus in different places, such as a focus stack.

    Pictures are aligned with the middle one, neighbour by neighbour, and their exposure is matched. A coupled
    dictionary of patches in focus and the same patches blurred then estimates how much detail of each picture blur
    would remove: the picture with the most such detail is in focus. The decision is made for all pixels together;
    regions without detail follow their neighbours. The pictures are blended in a Laplacian pyramid; where several of
    them agree, they are averaged, which removes noise. The method builds on the coupled dictionaries of [1]_.

    Each picture is read twice, one picture at a time. Order matters: neighbours in the list should be neighbours in
    focus, as the camera took them.

    The package contains a dictionary learned from photographs, so `fuse` works without `fit`. `fuse` needs OpenCV,
    which the extra ``images`` installs.

    Parameters
    ----------
    n_components : int, default=128
        Number of atoms. The dictionary of the package has the default values of this parameter and the next two; other
        values need `fit`.
    n_nonzero_coefs : int, default=3
        Atoms in the code of a patch.
    patch_size : int, default=8
        Side of the square patches, in pixels.
    register : {"auto", True, False}, default="auto"
        Whether to align pictures and match their brightness. The motion from each picture to its neighbour is verified;
        if it does not increase their correlation, it is not used, and :class:`FusedSource` says so. With ``"auto"``,
        pictures whose corners would move by less than 0.15 pixels are not resampled.
    motion : {"affine", "shift", "similarity", "projective"}, default="affine"
        Kind of motion between pictures. ``"shift"`` suits a camera on a rail whose lens does not breathe;
        ``"similarity"`` consists of shift, rotation and scale; ``"projective"`` suits a camera that was tilted.
    keep_size : bool, default=False
        Return the whole frame of the middle picture instead of the part that all pictures cover. Regions that some
        pictures do not cover are taken from the others.
    n_scales : int, default=3
        Number of scales on which focus is measured, each half as large as the one before. More scales are more robust
        to noise; fewer follow finer structures.
    smoothness : float, default=1
        How strongly neighbouring regions prefer the same source; with 0, each cell of 4 x 4 pixels is decided alone.
    slab : int, optional
        Fuse this many neighbouring pictures at a time, then the results. By default, stacks of more than 100 pictures
        are fused in slabs of about 50.
    max_samples : int, default=100_000
        Largest number of pairs of patches that `fit` learns from.
    max_iter : int, default=30
        Iterations of dictionary learning in `fit`.
    n_jobs : int, optional
        Number of threads; None means 1 unless a joblib context says otherwise, -1 means all cores. Affects speed only.
    random_state : int, RandomState, Generator or None
        Randomness of `fit`: the patches it draws and the start of the learner.
    verbose : int, default=0
        1 shows progress.
    callback : callable, optional
        Called with a :class:`coupledict.Progress` as iterations of `fit` and pictures of `fuse` are finished. If it
        returns a true value, the work ends with :class:`coupledict.StoppedByCallback`.

    Attributes
    ----------
    learner_ : CoupledDictionaryLearning
        After `fit`: the dictionary of detail in focus (view 0) and of the same detail out of focus (view 1).

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

    _parameter_constraints: ClassVar[Constraints] = {
        **TASK_CONSTRAINTS,
        "patch_size": (Integer(4),),
        "register": (Choice("auto"), BOOLEAN),
        "motion": (Choice(Motion),),
        "keep_size": (BOOLEAN,),
        "n_scales": (COUNT,),
        "smoothness": (NON_NEGATIVE,),
        "slab": (NONE, Integer(2)),
        **RunMixin._parameter_constraints,
    }

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
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.patch_size = patch_size
        self.register = register
        self.motion = motion
        self.keep_size = keep_size
        self.n_scales = n_scales
        self.smoothness = smoothness
        self.slab = slab
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the dictionary from images in focus and the same images out of focus.

        Parameters
        ----------
        X : [focused, blurred], or dict with these names
            Two lists of equally many images, arrays of shape (height, width) or (height, width, n_channels); a single
            image need not be in a list. The blurred images have the shapes of the focused ones and show the same scenes
            out of focus, with the kind of blur that the sources will have.
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
        learner = plain_learner(
            self.n_components,
            n_nonzero_coefs=self.n_nonzero_coefs,
            max_iter=self.max_iter,
            normalize="joint",
            n_jobs=self.n_jobs,
            random_state=rng,
        )
        with self._watched() as callback:
            self.learner_ = fit_many([learner], list(views), self.n_jobs, callback)[0]
        return self

    def fuse(self, images: Sequence[npt.ArrayLike | str | os.PathLike[str]]) -> Fusion:
        """Fuse two or more pictures.

        Parameters
        ----------
        images : list of arrays of shape (height, width) or (height, width, n_channels), or of paths
            Sources of one shape and dtype, in the order of their focus: integers or floating-point numbers on any
            scale. Files are read when they are needed, so a list of paths takes much less memory than a list of arrays.
            The decision uses the luma of RGB pictures, and the mean over all channels of others. Arrays of PyTorch, JAX
            and others are read in place.

        Returns
        -------
        Fusion
            With the fields `image`, `decision`, `depth`, `reference`, `box` and `sources`.
        """
        self._check_parameters()
        with one_opencv_thread(), one_blas_thread(), self._watched() as callback:
            focus = self._focus_measure()
            n_sources = len(Stack(images, self.patch_size))  # raises for a wrong list
            size = slab_size(n_sources, self.slab)
            n_pictures = n_sources if size is None else n_sources + len(split(n_sources, size))
            meter = Meter(callback, "fusing", n_pictures * (MEASURE_UNITS + DECIDE_UNITS + BLEND_UNITS))
            meter.advance(0)
            if size is None:
                return self._fuse(images, focus, meter, keep_size=self.keep_size)
            return fuse_slabs(
                images,
                size,
                lambda slab, _: self._fuse(slab, focus, meter, keep_size=True),
                lambda slabs: self._fuse(slabs, focus, meter, keep_size=self.keep_size),
            )

    def _fuse(self, images: Sequence[Any], focus: FocusMeasure, meter: Meter, *, keep_size: bool) -> Fusion:
        """Fuse a stack at once."""
        stack, n_jobs = Stack(images, self.patch_size), count_jobs(self.n_jobs)
        measures = measure_stack(stack, focus, self.motion if self.register else None, n_jobs=n_jobs, meter=meter)
        reference = len(stack) // 2
        reference += reference in measures.outliers  # its successor never is one
        always = self.register != "auto" and bool(self.register)
        placement = place(stack, measures, reference, always=always, keep_size=keep_size)
        fused = fuse_stack(stack, measures, placement, smoothness=self.smoothness, n_jobs=n_jobs, meter=meter)
        return with_steps(fused, measures)

    def _focus_measure(self) -> FocusMeasure:
        return FocusMeasure(self._dictionary(), self.n_scales)

    def _dictionary(self) -> CoupledDictionaryLearning:
        """Return the learner of `fit`, or that of the package; raise if the parameters do not describe the latter."""
        if hasattr(self, "learner_"):
            _check_learner(self.learner_, self.patch_size)
            return self.learner_
        learner = _shipped()
        n_components, n_features = learner.components_[0].shape
        ships = (n_components, learner.n_nonzero_coefs, round(n_features**0.5))
        wanted = (self.n_components, self.n_nonzero_coefs, self.patch_size)
        if wanted != ships:
            raise ValueError(
                f"Expected n_components={ships[0]}, n_nonzero_coefs={ships[1]} and patch_size={ships[2]}, as in the"
                f" dictionary of the package, got {wanted[0]}, {wanted[1]} and {wanted[2]}. Call fit to learn another."
            )
        return learner

    # A file holds the state of the learner, and the learner's parameters among its facts, beside those of the fusion.

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
        check_range(state.tensors, LARGEST_VALUE, "components.")
        fusion.learner_ = learner
        return fusion

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _check_learner(learner: CoupledDictionaryLearning, side: int) -> None:
    """Raise unless a learner has two views of square patches of this size, and a limit on the atoms of a code."""
    if (
        learner.n_features_in_ != [side * side] * 2
        or learner.n_nonzero_coefs is None
        or learner.coupling != "code"
        or not learner.view_weights_[0] > 0
    ):
        raise ValueError(
            f"Expected dictionaries of two views of square patches of {side} x {side} pixels, as patch_size says, got"
            f" views of {learner.n_features_in_} features. Call fit to learn others."
        )


@lru_cache(maxsize=1)
def _shipped() -> CoupledDictionaryLearning:
    with resources.as_file(resources.files(__package__) / "models" / MODEL) as path:
        return MultiFocusFusion.load(path).learner_
