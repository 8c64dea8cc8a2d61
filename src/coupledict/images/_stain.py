"""Stain separation as an estimator: the density of each stain at every pixel, and normalised colours."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin
from ..files.state import ModelState, check_file_count, make_estimator
from ..foundation.arrays import Array, Floats
from ..foundation.checks import make_generator
from ..foundation.parameters import COUNT, NON_NEGATIVE, Choice, Constraints, Integer, Real, Tuple
from ..foundation.progress import Callback, Meter
from ..foundation.tensors import as_array
from ..parallel.jobs import count_jobs
from ._stain_estimation import Stains, find_stains
from ._stain_pictures import DARKEST, check_stained, for_bands
from ._stain_rendering import Rendering, Separation

MOST_STAINS = 3  # as many as there are channels
REMEDY = " Divide intensities by 255, or by the largest value of their type."
WHITE = Real(DARKEST, 1, closed="right", noun="share of the range", remedy=REMEDY)
MOST_DENSITY = 1e6  # far above what lets any light pass; larger densities could overflow
LEAST_DENSITY = 1e-3  # at the 99th percentile; smaller densities are noise and are not scaled


class StainSeparator(RunMixin, SavedMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Separate the stains of a histological picture, and give pictures the colours of another.

    The optical density of stained tissue, the light that it absorbs, is a sum of stain colours, each times the density
    of the stain at the pixel. Colours and densities are learned from the picture itself, as a non-negative dictionary
    and sparse non-negative codes, because most pixels have mostly one stain [1]_. `transform` returns the densities;
    `normalize` renders the densities of one picture in the colours of another, so that the structure is preserved and
    only the appearance changes.

    Learning starts from the two extreme colours of the picture and ends at a minimum of the objective, so results
    hardly depend on which pixels are drawn, and are otherwise deterministic.

    Parameters
    ----------
    n_stains : {1, 2, 3}, default=2
        Number of stains.
    alpha : float, default=0.1
        Penalty on the densities while colours are learned, in units of optical density (natural logarithm). Tools based
        on SPAMS use 0.1. A smaller penalty, such as 0.02, finds colours farther apart, which suits tissue where most
        pixels have both stains.
    transform_alpha : float, default=0.01
        Penalty on the densities that `transform` and `normalize` compute.
    white : "auto", float or three floats, default="auto"
        Light of the background in each channel, as a share of the range of the pixels (240 of 255 is 0.94). ``"auto"``
        takes the mean of the brightest pixels of each picture, or 1 if these are dark or strongly coloured, so that no
        background is visible.
    tissue_threshold : float, default=0.15
        Mean optical density above which a pixel is tissue. Other pixels are background and are not learned from.
    max_samples : int, default=1_000_000
        Largest number of pixels that are drawn from all over a picture to learn from it, background included.
    tile_size : int, default=65_536
        Approximate number of pixels that a thread processes at a time, in whole rows. Affects speed and memory only.
    n_jobs : int, optional
        Number of threads; None means 1 unless a joblib context says otherwise, -1 means all cores. Affects speed only.
    random_state : int, RandomState, Generator or None, default=0
        Randomness of the pixels drawn from pictures of more than `max_samples` pixels; otherwise not used.
    verbose : int, default=0
        1 shows progress.
    callback : callable, optional
        Called with a :class:`coupledict.Progress` after each step of learning and as bands of pixels are finished. If
        it returns a true value, the work ends with :class:`coupledict.StoppedByCallback`.

    Attributes
    ----------
    stain_matrix_ : array of shape (n_stains, 3)
        Optical density of each stain in red, green and blue; rows of norm 1. They are ordered by the ratio of absorbed
        blue to red light, smallest first: hematoxylin, then eosin; or hematoxylin, then diaminobenzidine.
    white_ : array of shape (3,)
        Light of the background, as a share of the range.
    max_density_ : array of shape (n_stains,)
        For each stain, the density that 99 % of the tissue pixels do not exceed.
    found_ : array of bool of shape (n_stains,)
        Whether the picture showed the stain. If it showed only one of two, `fit` warned, and the other has the standard
        colour of hematoxylin or eosin [2]_.
    n_samples_ : int
        Number of tissue pixels learned from.
    n_iter_ : int
        Number of steps of learning.

    See Also
    --------
    DictionaryLearning : Dictionaries of any size.

    Notes
    -----
    Optical density is -log(light / white), at least 0; light below 1/255 of the range counts as 1/255. Densities are
    exact solutions of the non-negative lasso, found by examining all supports.

    `transform` and `normalize` need little memory besides their result, whatever the size of the picture; pass a
    memory-mapped array as `out` if the result is too large as well. The picture may be a memory-mapped array too.

    References
    ----------
    .. [1] A. Vahadane et al., "Structure-Preserving Color Normalization and Sparse Stain Separation for Histological
       Images", IEEE Transactions on Medical Imaging 35(8), 2016. doi:10.1109/TMI.2016.2529665
    .. [2] A. C. Ruifrok and D. A. Johnston, "Quantification of Histochemical Staining by Color Deconvolution",
       Analytical and Quantitative Cytology and Histology 23(4), 2001.

    Examples
    --------
    >>> from skimage import data
    >>> from coupledict.images import StainSeparator
    >>> tissue = data.immunohistochemistry()
    >>> separator = StainSeparator().fit(tissue)
    >>> separator.stain_matrix_.round(2)
    array([[0.58, 0.62, 0.54],
           [0.31, 0.51, 0.8 ]])
    >>> densities = separator.transform(tissue)
    >>> densities.shape, densities.dtype
    ((512, 512, 2), dtype('float32'))
    >>> again = separator.inverse_transform(densities)
    >>> again.shape, again.dtype
    ((512, 512, 3), dtype('uint8'))
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "n_stains": (Integer(1, MOST_STAINS),),
        "alpha": (NON_NEGATIVE,),
        "transform_alpha": (NON_NEGATIVE,),
        "white": (Choice("auto"), WHITE, Tuple(WHITE, 3, "three numbers", remedy=REMEDY)),
        "tissue_threshold": (NON_NEGATIVE,),
        "max_samples": (COUNT,),
        "tile_size": (COUNT,),
        **RunMixin._parameter_constraints,
    }

    def __init__(
        self,
        n_stains: int = 2,
        *,
        alpha: float = 0.1,
        transform_alpha: float = 0.01,
        white: Literal["auto"] | float | tuple[float, float, float] = "auto",
        tissue_threshold: float = 0.15,
        max_samples: int = 1_000_000,
        tile_size: int = 1 << 16,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_stains = n_stains
        self.alpha = alpha
        self.transform_alpha = transform_alpha
        self.white = white
        self.tissue_threshold = tissue_threshold
        self.max_samples = max_samples
        self.tile_size = tile_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:
        """Learn the stains of a picture; for `normalize`, of the picture whose colours others should get.

        Parameters
        ----------
        X : array of shape (rows, columns, 3) or (rows, columns, 4)
            The picture, in RGB, of dtype uint8, uint16, float32 or float64; floats are from 0 to 1. Fully transparent
            pixels are ignored. Arrays of PyTorch, JAX and others are read in place.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If the picture is grey, of one colour or not of these types, or shows hardly any tissue.
        """
        self._check_parameters()
        image = check_stained(X)
        with self._watched() as callback:
            stains = self._learn(image, callback)
        self._keep(stains)
        return self

    def transform(self, X: npt.ArrayLike, *, out: Array | None = None) -> Array:
        """Return the density of each stain at every pixel of a picture that has the stains and white of `fit`.

        Parameters
        ----------
        X : array of shape (rows, columns, 3) or (rows, columns, 4)
            As in `fit`.
        out : array of float32 of shape (rows, columns, n_stains), optional
            Array that receives the densities, such as a memory-mapped one.

        Returns
        -------
        array of float32 of shape (rows, columns, n_stains)
            Densities, at least 0; `out` if it is given.
        """
        stains = self._fitted()
        image = check_stained(X)
        n_stains = len(stains.stain_matrix)
        densities = _check_out(out, (*image.shape[:2], n_stains), np.dtype(np.float32))
        separation = Separation(stains.stain_matrix, stains.white, self.transform_alpha, image.dtype)

        def work(band: slice) -> None:
            for stain, density in enumerate(separation.densities(image[band])):
                densities[band, :, stain] = density

        self._for_bands(work, image.shape, "separating")
        return densities

    def inverse_transform(self, X: npt.ArrayLike, *, dtype: npt.DTypeLike = np.uint8) -> Array:
        """Return the picture of these densities, in the stain colours and on the background of `fit`.

        Parameters
        ----------
        X : array of shape (rows, columns, n_stains)
            Densities. Set those of a stain to 0 to see the picture without it.
        dtype : dtype, default=uint8
            Number type of the picture: uint8, uint16, float32 or float64.

        Returns
        -------
        array of shape (rows, columns, 3)
            The picture, in RGB.
        """
        stains = self._fitted()
        given, number_type = as_array(X), np.dtype(dtype)
        n_stains = len(stains.stain_matrix)
        if given.ndim != 3 or given.shape[2] != n_stains or 0 in given.shape or given.dtype.kind not in "fiub":
            raise ValueError(
                f"Expected densities of shape (rows, columns, {n_stains}), got shape {given.shape} of {given.dtype}."
            )
        image = np.empty((*given.shape[:2], 3), number_type)
        check_stained(image)
        rendering = Rendering(stains.stain_matrix, stains.white, number_type)

        def work(band: slice) -> None:
            if not np.isfinite(given[band]).all():
                raise ValueError("Expected densities to be finite, got NaN or infinity.")
            clipped = np.clip(given[band], -MOST_DENSITY, MOST_DENSITY).astype(np.float32)
            rendering.draw([clipped[:, :, stain] for stain in range(n_stains)], image[band])

        self._for_bands(work, image.shape, "drawing")
        return image

    def normalize(
        self, image: npt.ArrayLike, *, source: StainSeparator | None = None, out: Array | None = None
    ) -> Array:
        """Return a picture in the colours of the one that `fit` learned from.

        The stains of the picture are learned with the parameters of this estimator. Their densities are scaled so that
        the 99th percentile of each equals `max_density_`, and rendered in the colours of `stain_matrix_` on `white_`.

        Parameters
        ----------
        image : array of shape (rows, columns, 3) or (rows, columns, 4)
            As in `fit`. Alpha is kept.
        source : StainSeparator, optional
            Fitted to the slide that the picture comes from; nothing is then learned from the picture itself. So all
            tiles of a slide change alike, even those that show little or no tissue.
        out : array of the shape and dtype of the image, optional
            Array that receives the result, such as a memory-mapped one.

        Returns
        -------
        array of the shape and dtype of the image
            The picture in its new colours; `out` if it is given.
        """
        target = self._fitted()
        given = check_stained(image)
        result = _check_out(out, given.shape, given.dtype)
        if source is None:
            with self._watched() as callback:
                own = self._learn(given, callback)
        else:
            own = _check_source(source, len(target.stain_matrix))
        usable = own.found & target.found & (np.minimum(own.max_density, target.max_density) > LEAST_DENSITY)
        factors = np.divide(target.max_density, own.max_density, out=np.ones(len(usable)), where=usable)
        separation = Separation(own.stain_matrix, own.white, self.transform_alpha, given.dtype)
        rendering = Rendering(factors[:, None] * target.stain_matrix, target.white, given.dtype)

        def work(band: slice) -> None:
            pixels = given[band]
            rendering.draw(separation.densities(pixels), result[band])
            result[band, :, 3:] = pixels[:, :, 3:]

        self._for_bands(work, given.shape, "normalizing")
        return result

    def _given_white(self) -> Floats | None:
        """Return the parameter `white` as three numbers, or None if it is to be estimated."""
        if isinstance(self.white, str):
            return None
        several = isinstance(self.white, tuple | list | np.ndarray)
        return np.array(self.white if several else [self.white] * 3, np.float64)

    def _for_bands(self, work: Any, shape: tuple[int, ...], stage: str) -> None:
        with self._watched() as callback:
            meter = Meter(callback, stage, shape[0] * shape[1])
            for_bands(work, shape, n_pixels=self.tile_size, n_jobs=count_jobs(self.n_jobs), meter=meter)

    def _learn(self, image: Array, callback: Callback | None) -> Stains:
        """Return the stains of a picture."""
        return find_stains(
            image,
            n_stains=self.n_stains,
            alpha=self.alpha,
            transform_alpha=self.transform_alpha,
            white=self._given_white(),
            tissue_threshold=self.tissue_threshold,
            max_samples=self.max_samples,
            rng=make_generator(self.random_state),
            callback=callback,
        )

    def _fitted(self) -> Stains:
        check_is_fitted(self, "stain_matrix_")
        self._check_parameters()
        if self.n_stains != len(self.stain_matrix_):
            raise ValueError(f"Expected n_stains as it was in fit, {len(self.stain_matrix_)}, got {self.n_stains}.")
        fields = (self.stain_matrix_, self.white_, self.max_density_, self.found_, self.n_samples_, self.n_iter_)
        return Stains(*fields)

    def _keep(self, stains: Stains) -> None:
        """Set all fitted attributes in one step, so that an interrupt leaves either all of them or none."""
        self.__dict__.update({f"{name}_": value for name, value in vars(stains).items()})

    def _to_state(self) -> ModelState:
        stains = self._fitted()
        tensors = {"stain_matrix": stains.stain_matrix, "white": stains.white, "max_density": stains.max_density}
        found = [bool(flag) for flag in stains.found]
        return ModelState.of(self, tensors, found=[*found], n_samples=stains.n_samples, n_iter=stains.n_iter)

    @classmethod
    def _from_state(cls, state: ModelState) -> Self:
        separator = make_estimator(cls, state.parameters)
        n_stains = separator.n_stains
        shapes = {"stain_matrix": (n_stains, 3), "white": (3,), "max_density": (n_stains,)}
        for name, shape in shapes.items():
            array = state.tensors[name]
            fits = array.shape == shape and array.dtype == np.float64
            if not fits or not ((array >= 0) & (array <= MOST_DENSITY)).all():
                raise ValueError(f"its {name} is not {shape} numbers from 0 to {MOST_DENSITY:g}")
        colours, white, top = (state.tensors[name] for name in shapes)
        if np.abs(np.linalg.norm(colours, axis=1) - 1).max() > 1e-6:
            raise ValueError("its stains are not of norm 1")
        if white.min() <= DARKEST or white.max() > 1:
            raise ValueError("its white is not a share of the range")
        found = state.facts["found"]
        if not isinstance(found, list) or len(found) != n_stains or not all(isinstance(flag, bool) for flag in found):
            raise ValueError("it does not say which stains were found")
        counts = [check_file_count(state.facts[name], name) for name in ("n_samples", "n_iter")]
        separator._keep(Stains(colours, white, top, np.array(found, np.bool_), *counts))
        return separator


def _check_source(source: object, n_stains: int) -> Stains:
    if not isinstance(source, StainSeparator):
        raise TypeError(f"Expected source to be a fitted StainSeparator, got {source!r}.")
    stains = source._fitted()
    if len(stains.stain_matrix) != n_stains:
        raise ValueError(
            f"Expected source to have {n_stains} stains, like this separator, got {len(stains.stain_matrix)}."
        )
    return stains


def _check_out(out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        got = f"{out.shape} of {out.dtype}" if isinstance(out, np.ndarray) else repr(out)
        raise ValueError(f"Expected out to be an array of shape {shape} of {dtype}, got {got}.")
    return out
