"""Multi-focus fusion as an estimator: images focused in different places become one image in focus everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib import resources
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from ..estimators.coupled import CoupledDictionaryLearning
from ..estimators.ensemble import fit_many
from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin
from ..files.state import ModelState, make_estimator, plain_parameters
from ..foundation.arrays import Array
from ..foundation.checks import check_counts, check_non_negative, make_generator
from ..foundation.progress import Callback, Meter
from ..parallel.jobs import count_jobs
from ._fusion_decision import Labels, compose, remove_small
from ._fusion_evidence import DetailPredictor, Grey, count_patches, luma, pixel_evidence
from ._fusion_pictures import check_pairs, check_sources, draw_views
from ._fusion_register import register
from ._fusion_result import FusedSource, Fusion

MODEL = "fusion.safetensors"  # tools/train_fusion.py makes it
LEARNER = CoupledDictionaryLearning.__name__


class MultiFocusFusion(RunMixin, SavedMixin, BaseEstimator):  # type: ignore[misc]
    """Fuse images of one scene that are in focus in different places.

    A coupled dictionary has two views: the mean of a focused and a blurred patch, and half of their difference, which
    is the detail that focus adds. From the mean of two sources it predicts this detail; the source whose own detail
    agrees with the prediction is in focus. This evidence is combined over patches, scales and a window, and regions
    that are too small to be plausible are removed. The method builds on the coupled dictionaries of [1]_, which are
    compared there by the errors of both orders.

    A dictionary that was learned from photographs ships with the package, so `fuse` works without `fit`.

    Parameters
    ----------
    n_components : int, default=256
        Atoms of the dictionary. The shipped dictionary has the default values of this parameter and of the next two;
        other values need `fit`.
    n_nonzero_coefs : int, default=5
        Atoms in the code of a patch.
    patch_size : int, default=8
        Side of the square patches.
    max_samples : int, default=100_000
        Most pairs of patches that `fit` learns from.
    max_iter : int, default=30
        Iterations of dictionary learning in `fit`.
    n_scales : int, default=4
        Scales that the evidence is summed over, each half as large as the one before; small images have fewer. More
        scales resist more noise, fewer scales follow finer structures.
    window : int, default=9
        Side of the window that the evidence is averaged over, in pixels.
    min_region : float, default=0.01
        Regions smaller than this share of the image are removed from the decision; 0 keeps all.
    seam : float, default=1
        Standard deviation of the transition between sources, in pixels; 0 takes every pixel from one source.
    register : bool, default=False
        Align all other sources with the first before they are fused, by a small shift, rotation and change of scale.
        Needs scikit-image.
    max_bytes : int, default=16 MiB
        Memory for the patches that are processed at a time. Changes speed and memory only.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Source of the patches that `fit` draws and of the learner's start.
    verbose : int, default=0
        1 shows progress.
    callback : callable, optional
        Called with a :class:`coupledict.Progress` as iterations of `fit` and patches of `fuse` are finished. A true
        return value stops the work by :class:`coupledict.StoppedByCallback`.

    Attributes
    ----------
    learner_ : CoupledDictionaryLearning
        After `fit`: the dictionary, of the mean (view 0) and of the detail (view 1).

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
    >>> image, decision = MultiFocusFusion().fuse([left, right])
    >>> decision[10, 10], decision[10, 50]
    (np.uint8(0), np.uint8(1))
    >>> bool(np.abs(image - sharp).mean() < 0.1 * np.abs(left - sharp).mean())
    True
    """

    def __init__(
        self,
        n_components: int = 256,
        *,
        n_nonzero_coefs: int = 5,
        patch_size: int = 8,
        register: bool | str = "auto",
        motion: str = "affine",
        keep_size: bool = False,
        slab: int | None = None,
        max_samples: int = 100_000,
        max_iter: int = 30,
        max_bytes: int = 1 << 24,
        n_scales: int = 4,
        window: int = 9,
        min_region: float = 0.01,
        seam: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self._set_run(n_jobs, random_state, verbose, callback)
        self.n_components, self.n_nonzero_coefs = n_components, n_nonzero_coefs
        self.patch_size, self.max_samples, self.max_iter = patch_size, max_samples, max_iter
        self.n_scales, self.window, self.min_region, self.seam = n_scales, window, min_region, seam
        self.register, self.max_bytes = register, max_bytes
        self.motion, self.keep_size, self.slab = motion, keep_size, slab

    def _check_parameters(self) -> None:
        counts = ("n_components", "n_nonzero_coefs", "patch_size", "max_samples", "max_iter", "n_scales", "window")
        check_counts(self, *counts, "max_bytes")
        if self.patch_size < 2:
            raise ValueError(f"Expected patch_size to be at least 2, got {self.patch_size}.")
        for name in ("min_region", "seam"):
            check_non_negative(getattr(self, name), name)
        if self.min_region >= 1:
            raise ValueError(f"Expected min_region to be a share of the image, below 1, got {self.min_region}.")
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
        pairs = check_pairs(X, self.patch_size)
        views = draw_views(pairs, self.patch_size, self.max_samples, rng)
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

    def fuse(self, images: Sequence[npt.ArrayLike]) -> Fusion:
        """Fuse two or more images.

        Of more than two images, each is compared with the mean of the others.

        Parameters
        ----------
        images : list of arrays of shape (height, width) or (height, width, n_channels)
            Sources of one shape and one number type: integers or floating-point numbers on any scale. The decision is
            made from the brightness of red, green and blue, or from the mean of other channels.

        Returns
        -------
        Fusion
            With the fields `image` and `decision`.
        """
        self._check_parameters()
        from pathlib import Path

        from ._files import read_image

        images = [read_image(image).pixels if isinstance(image, str | Path) else image for image in images]
        sources, scale = check_sources(images, self.patch_size)
        learner = self._dictionary()
        with self._watched() as told:
            if self.register is True:
                sources = register(sources, scale, Meter(told, "aligning", len(sources) - 1))
            labels = self._decide(learner, sources, scale, told)
        if self.min_region > 0:
            labels = remove_small(labels, len(sources), self.min_region * labels.size)
        shares = np.bincount(labels.ravel(), minlength=len(sources)) / labels.size
        found = [FusedSource(float(share), False, 0.0, np.eye(3), 1.0, (1.0, 1.0)) for share in shares]
        box = (0, 0, labels.shape[0], labels.shape[1])
        depth = labels.astype(np.float32)
        return Fusion(compose(sources, labels, self.seam), labels, depth, len(sources) // 2, box, found)

    def _decide(
        self, learner: CoupledDictionaryLearning, sources: list[Array], scale: float, told: Callback | None
    ) -> Labels:
        """Return for every pixel the number of the source with the strongest evidence; ties go to the first."""
        n_pairs = 1 if len(sources) == 2 else len(sources)
        n_patches = n_pairs * count_patches(sources[0].shape, side=self.patch_size, n_scales=self.n_scales)
        find_evidence = partial(
            pixel_evidence,
            DetailPredictor(learner, n_patches, count_jobs(self.n_jobs)),
            side=self.patch_size,
            n_scales=self.n_scales,
            window=self.window,
            max_bytes=self.max_bytes,
            meter=Meter(told, "fusing", n_patches),
        )
        return self._compare(sources, scale, find_evidence)

    @staticmethod
    def _compare(sources: list[Array], scale: float, find_evidence: Callable[[Grey, Grey], Grey]) -> Labels:
        """Compare two sources with each other, or each of several with the mean of the others; see :meth:`_decide`."""
        if len(sources) == 2:
            one, other = (luma(source, scale) for source in sources)
            return (find_evidence(one, other) < 0).astype(np.uint8)
        total = luma(sources[0], scale)
        for source in sources[1:]:
            total += luma(source, scale)
        best: Grey = np.full(total.shape, -np.inf, np.float32)
        labels: Labels = np.zeros(total.shape, np.uint8 if len(sources) <= 256 else np.uint16)
        for number, source in enumerate(sources):
            own = luma(source, scale)
            others = (total - own) * np.float32(1 / (len(sources) - 1))
            evidence = find_evidence(own, others)
            labels[evidence > best] = number
            np.maximum(best, evidence, out=best)
        return labels

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
    # of the fusion. Older files hold the learner alone.

    _also_loads = (LEARNER,)

    def _to_state(self) -> ModelState:
        learner = self._dictionary()._to_state()
        # `fit` gave the learner a generator as random_state, which a file cannot hold.
        parameters = {name: value for name, value in learner.parameters.items() if name != "random_state"}
        facts = learner.facts | {"learner": parameters}
        return ModelState(type(self).__name__, plain_parameters(self), learner.tensors, facts)

    @classmethod
    def _from_state(cls, state: ModelState) -> Self:
        alone = state.estimator == LEARNER
        parameters = state.parameters if alone else state.facts["learner"]
        learner = CoupledDictionaryLearning._from_state(ModelState(LEARNER, parameters, state.tensors, state.facts))
        if alone:
            n_components, n_features = learner.components_[0].shape
            described = {"n_components": n_components, "patch_size": round(n_features**0.5)}
            fusion = make_estimator(cls, described | {"n_nonzero_coefs": learner.n_nonzero_coefs})
        else:
            fusion = make_estimator(cls, state.parameters)
        _check_learner(learner, fusion.patch_size)
        fusion.learner_ = learner
        return fusion

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _check_learner(learner: CoupledDictionaryLearning, side: int) -> None:
    """Raise unless a learner has views of means and details of square patches of this size, and a limit of atoms."""
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
