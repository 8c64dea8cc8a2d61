"""Multi-focus fusion as an estimator: sources that are in focus here and there in, one picture in focus out."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import resources
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from .._base import generator
from .._ensemble import fit_many
from .._learner import CoupledDictionaryLearning
from .._passes import count_jobs
from .._saving import load
from .._views import Array, check_count, check_tol
from ..model_io import ModelFileError
from ._fusion_decision import Labels, compose, remove_small
from ._fusion_evidence import Grey, count_patches, luma, pixel_evidence
from ._fusion_register import register
from ._patches import extract_patches

MODEL = "fusion.safetensors"  # tools/train_fusion.py makes it
MOST_SOURCES = 65535


class Fusion(NamedTuple):
    """What :meth:`MultiFocusFusion.fuse` returns.

    Attributes
    ----------
    image : array of the shape and number type of the sources
        The fused picture.
    decision : array of int of shape (height, width)
        The number of the source that each pixel was taken from, counted from 0.
    """

    image: Array
    decision: Labels


class MultiFocusFusion(BaseEstimator):  # type: ignore[misc]
    """Fuse images of one scene that are in focus in different places.

    A coupled dictionary of the mean of a focused and a blurred patch, and of the detail that tells them apart, predicts
    from the mean of two sources the detail that focus would add. The source whose own detail agrees is in focus there.
    The evidence of all patches is averaged, over scales and over a window; regions that are too small to believe in are
    removed. It builds on the coupled dictionaries of [1]_, which are compared there by the errors of both orders.

    A dictionary that was learned from photographs ships with the package, so `fuse` works without `fit`.

    Parameters
    ----------
    n_components : int, default=256
        Atoms of the dictionary. This parameter and the next two describe the dictionary that ships; others need `fit`.
    n_nonzero_coefs : int, default=5
        Atoms a patch.
    patch_size : int, default=8
        Side of the square patches.
    n_patches : int, default=100_000
        Most pairs of patches that `fit` learns from.
    n_scales : int, default=4
        Scales that the evidence is summed over, each half as large as the one before; fewer for images too small. More
        of them withstand more noise, fewer follow finer structures.
    window : int, default=9
        Side of the window that the evidence is averaged over, in pixels.
    min_region : float, default=0.01
        Regions smaller than this share of the image are removed from the decision; 0 keeps all.
    seam : float, default=1
        Standard deviation of the transition between sources, in pixels; 0 takes every pixel from one source.
    register : bool, default=False
        Move all sources but the first to lie on the first before they are fused, by a small shift, turn and change of
        scale. Needs scikit-image.
    max_bytes : int, default=16 MiB
        Memory for the patches that are worked on at a time. Changes speed and memory only.
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Source of the patches that `fit` draws and of the learner's start.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    learner_ : CoupledDictionaryLearning
        After `fit`: the dictionary, of the mean (view 0) and of the detail (view 1).

    References
    ----------
    .. [1] F. G. Veshki and S. A. Vorobyov, "A Fast Dictionary Learning Method for Coupled Feature Space Learning",
       IEEE Signal Processing Letters 26(10), 2019. doi:10.1109/LSP.2019.2934045

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.ndimage import gaussian_filter
    >>> from coupledict.images import MultiFocusFusion
    >>> sharp = np.random.default_rng(0).uniform(0, 255, (64, 64))
    >>> soft = gaussian_filter(sharp, 2)
    >>> left, right = sharp.copy(), sharp.copy()
    >>> left[:, 32:], right[:, :32] = soft[:, 32:], soft[:, :32]
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
        n_patches: int = 100_000,
        n_scales: int = 4,
        window: int = 9,
        min_region: float = 0.01,
        seam: float = 1.0,
        register: bool = False,
        max_bytes: int = 1 << 24,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.patch_size = patch_size
        self.n_patches = n_patches
        self.n_scales = n_scales
        self.window = window
        self.min_region = min_region
        self.seam = seam
        self.register = register
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        for name in ("n_components", "n_nonzero_coefs", "patch_size", "n_patches", "n_scales", "window", "max_bytes"):
            check_count(getattr(self, name), name)
        if self.patch_size < 2:
            raise ValueError(f"Expected patch_size to be at least 2, got {self.patch_size}.")
        for name in ("min_region", "seam"):
            check_tol(getattr(self, name), name)
        if self.min_region >= 1:
            raise ValueError(f"Expected min_region to be a share of the image, below 1, got {self.min_region}.")
        if not isinstance(self.register, bool | np.bool_):
            raise TypeError(f"Expected register to be True or False, got {self.register!r}.")
        count_jobs(self.n_jobs)

    def fit(self, focused: Any, blurred: Any) -> Self:
        """Learn the dictionary from images in focus and the same images out of focus.

        Parameters
        ----------
        focused : array of shape (height, width) or (height, width, n_channels), or list of such
            Images in focus.
        blurred : the same
            Images of the same scenes and shapes out of focus, blurred as the sources will be.

        Returns
        -------
        self
        """
        self._check_parameters()
        pairs = _check_pairs(focused, blurred, self.patch_size)
        rng = generator(self.random_state)
        means, details = draw_views(pairs, self.patch_size, self.n_patches, rng)
        learner = CoupledDictionaryLearning(
            self.n_components,
            n_nonzero_coefs=self.n_nonzero_coefs,
            normalize="joint",
            n_jobs=self.n_jobs,
            random_state=rng,
            verbose=self.verbose,
        )
        self.learner_ = fit_many([learner], [means, details], self.n_jobs)[0]
        return self

    def fuse(self, images: Sequence[npt.ArrayLike]) -> Fusion:
        """Fuse two or more images.

        With more than two, each is compared with the mean of the others.

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
        sources, scale = _check_sources(images, self.patch_size)
        learner = self._dictionary()
        if self.register:
            sources = register(sources, scale)
        labels = self._decide(learner, sources, scale)
        if self.min_region > 0:
            labels = remove_small(labels, len(sources), self.min_region * labels.size)
        return Fusion(compose(sources, labels, self.seam), labels)

    def _decide(self, learner: CoupledDictionaryLearning, sources: list[Array], scale: float) -> Labels:
        """Return the source with the strongest evidence for every pixel, the first of those that tie."""
        parameters: Any = {
            "side": self.patch_size,
            "n_scales": self.n_scales,
            "window": self.window,
            "max_bytes": self.max_bytes,
        }
        n_pairs = 1 if len(sources) == 2 else len(sources)
        n_patches = n_pairs * count_patches(sources[0].shape, side=self.patch_size, n_scales=self.n_scales)
        with self._watch(n_patches) as done:
            return self._compare(sources, scale, partial(pixel_evidence, learner, done=done, **parameters))

    @staticmethod
    def _compare(sources: list[Array], scale: float, find_evidence: Callable[[Grey, Grey], Grey]) -> Labels:
        """Return the source with the strongest evidence for every pixel: of two, or of each against all others."""
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

    @contextmanager
    def _watch(self, total: int) -> Iterator[Callable[[int], None] | None]:
        """Give a function that is to be told of patches as they are finished, and shows how far the work has come."""
        if not self.verbose:
            yield None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("Fusing", total=total)
            yield lambda n_patches: bar.advance(task, n_patches)

    def _dictionary(self) -> CoupledDictionaryLearning:
        """Return the learner of `fit`, or the one that ships, set to the threads of this estimator."""
        if hasattr(self, "learner_"):
            learner = copy.copy(self.learner_)
        else:
            learner = copy.copy(_shipped())
            shape = learner.components_[0].shape
            described = (self.n_components, self.n_nonzero_coefs, self.patch_size)
            if described != (shape[0], learner.n_nonzero_coefs, round(shape[1] ** 0.5)):
                raise ValueError(
                    f"The dictionary that ships has n_components={shape[0]},"
                    f" n_nonzero_coefs={learner.n_nonzero_coefs} and patch_size={round(shape[1] ** 0.5)}, got"
                    f" {described[0]}, {described[1]} and {described[2]}. Call fit first to learn one with these."
                )
        learner.n_jobs = self.n_jobs
        return learner

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the dictionary to a file that :meth:`load` reads: data, never code.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced, as a whole.
        """
        self._dictionary().save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **parameters: Any) -> Self:
        """Make an estimator with the dictionary of a file that :meth:`save` wrote.

        Parameters
        ----------
        path : str or path
            The file.
        **parameters
            Parameters of the estimator, but those that the dictionary settles.

        Returns
        -------
        MultiFocusFusion
        """
        learner = load(path)
        components = getattr(learner, "components_", [])
        side = round(components[0].shape[-1] ** 0.5) if len(components) else 0
        if (
            not isinstance(learner, CoupledDictionaryLearning)
            or [array.shape[1] for array in components] != [side * side] * 2
            or learner.n_nonzero_coefs is None
        ):
            raise ModelFileError(
                f"Expected {os.fspath(path)!r} to hold the dictionaries of two views of square patches, as"
                " MultiFocusFusion.save writes them, got another model."
            )
        fusion = cls(len(components[0]), n_nonzero_coefs=learner.n_nonzero_coefs, patch_size=side, **parameters)
        fusion.learner_ = learner
        return fusion

    def __sklearn_is_fitted__(self) -> bool:
        return True


@lru_cache(maxsize=1)
def _shipped() -> CoupledDictionaryLearning:
    with resources.as_file(resources.files(__package__) / "models" / MODEL) as path:
        learner: CoupledDictionaryLearning = load(path)
    return learner


def draw_views(
    pairs: list[tuple[Grey, Grey]], side: int, n_patches: int, rng: np.random.Generator
) -> tuple[Grey, Grey]:
    """Draw pairs of patches; return their means and half their differences as rows, without the mean of each row."""
    counts = np.array([(one.shape[0] - side + 1) * (one.shape[1] - side + 1) for one, _ in pairs])
    shares = np.maximum(1, np.minimum(counts, counts * min(1.0, n_patches / counts.sum()))).astype(int)
    views: list[list[Grey]] = [[], []]
    for (one, other), share in zip(pairs, shares, strict=True):
        seed = int(rng.integers(2**32))
        for view, image in zip(views, ((one + other) / 2, (one - other) / 2), strict=True):
            rows = extract_patches(image, (side, side), n_patches=int(share), random_state=seed)
            view.append(rows.reshape(len(rows), -1))
    means, details = (np.concatenate(view) for view in views)
    for rows in (means, details):
        rows -= rows.mean(axis=1, keepdims=True)
    return means, details


def _as_images(value: Any, name: str) -> list[Array]:
    """Return images as a list of arrays, checked one by one."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        raise TypeError(f"Expected {name} to be a list of images, got {type(value).__name__}.")
    images = [np.asarray(image) for image in value]
    for number, image in enumerate(images):
        label = f"{name}[{number}]"
        if image.ndim not in (2, 3) or image.size == 0:
            raise ValueError(
                f"Expected {label} to have the shape (height, width) or (height, width, n_channels) and pixels,"
                f" got {image.shape}."
            )
        if image.dtype.kind not in "fiu" or image.dtype.itemsize > 8:
            raise TypeError(f"Expected {label} to hold integers or floating-point numbers, got {image.dtype}.")
        if image.dtype.kind == "f" and not np.isfinite(image).all():
            raise ValueError(f"Expected {label} to be finite, got NaN or infinity.")
    return images


def _check_size(image: Array, label: str, side: int) -> None:
    if min(image.shape[:2]) < side:
        raise ValueError(
            f"Expected {label} to be at least as large as a patch, {side} x {side} pixels, got"
            f" {image.shape[0]} x {image.shape[1]}."
        )


def _unit_scale(images: Sequence[Array]) -> float:
    """Return the factor that brings images into the range of small floating-point numbers."""
    if images[0].dtype.kind in "iu" and images[0].dtype.itemsize <= 2:
        return 1 / float(np.iinfo(images[0].dtype).max)
    largest = max(max(abs(float(image.min())), abs(float(image.max()))) for image in images)
    real = np.result_type(images[0].dtype, np.float32)
    return 1 / max(largest, float(np.finfo(real).tiny))


def _check_sources(images: Any, side: int) -> tuple[list[Array], float]:
    """Return the sources of a fusion, and the factor that brings them to a common range."""
    sources = _as_images(images, "images")
    if not 2 <= len(sources) <= MOST_SOURCES:
        raise ValueError(f"Expected at least two images to fuse, got {len(sources)}.")
    for number, image in enumerate(sources):
        if image.shape != sources[0].shape:
            raise ValueError(
                f"Expected images of one shape, got {sources[0].shape} and {image.shape} (images[{number}])."
                " Crop or convert them first."
            )
        if image.dtype != sources[0].dtype:
            raise ValueError(
                f"Expected images of one number type, got {sources[0].dtype} and {image.dtype} (images[{number}])."
                " Convert them first."
            )
    _check_size(sources[0], "images", side)
    return sources, _unit_scale(sources)


def _check_pairs(focused: Any, blurred: Any, side: int) -> list[tuple[Grey, Grey]]:
    """Return pairs of focused and blurred images, as brightness on a common range."""
    sharp, soft = (
        _as_images([value] if isinstance(value, np.ndarray) else value, name)
        for value, name in ((focused, "focused"), (blurred, "blurred"))
    )
    if len(sharp) != len(soft) or not sharp:
        raise ValueError(
            f"Expected as many focused as blurred images, and at least one, got {len(sharp)} and {len(soft)}."
        )
    pairs = []
    for number, (one, other) in enumerate(zip(sharp, soft, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            raise ValueError(
                f"Expected focused[{number}] and blurred[{number}] to have one shape and number type, got"
                f" {one.shape}, {one.dtype} and {other.shape}, {other.dtype}."
            )
        _check_size(one, f"focused[{number}]", side)
        scale = _unit_scale([one, other])
        pairs.append((luma(one, scale), luma(other, scale)))
    return pairs
