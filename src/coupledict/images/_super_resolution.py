"""Super-resolution as an estimator: it learns from large pictures and enlarges small ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..estimators.ensemble import fit_many, plain_learner
from ..estimators.running import RunMixin
from ..estimators.saving import SavedMixin
from ..estimators.single import DictionaryLearning
from ..files.models import JSON
from ..files.packing import pack_half, unpack_half
from ..files.state import ModelState, check_file_count, make_estimator
from ..foundation.arrays import Array
from ..foundation.block_sizes import SIZES
from ..foundation.checks import check_choice, make_generator
from ..foundation.parameters import (
    BOOLEAN,
    COUNT,
    NONE,
    PENALTY,
    Choice,
    Constraints,
    Instance,
    Integer,
    Real,
    check_value,
)
from ..foundation.progress import Callback, Meter
from ..parallel.blas import one_blas_thread
from ..parallel.jobs import count_jobs
from . import _sr_anchored, _sr_samples
from ._resize import imresize, store
from ._sr_colour_restoration import planes_to_restore, restore_picture
from ._sr_degradation import Degradation, estimate, parse
from ._sr_geometry import Geometry
from ._sr_model import DetailPredictor, Model
from ._sr_pictures import brightness, check_picture, check_pictures, n_colors
from ._sr_pipeline import back_project, predict_detail
from ._sr_samples import Draw

SCALES = (2, 3, 4)
SCALE = Integer(min(SCALES), max(SCALES))
LEARNING_SAMPLES = 200_000  # more do not improve the dictionaries
REGRESSION_SAMPLES = 2_000_000  # twice as many add 0.01 dB
THRESHOLD_SAMPLES = 50_000
DETAILS_PER_PIXEL = 48 / 9  # components of detail per small pixel of a patch; all of them add 0.02 dB at most
FLAT = 1e-12  # energy of differences below which a picture from 0 to 1 counts as flat
N_NEIGHBORS = 1024
RIDGE_ALPHA = 0.1  # for features of norm 1, as in A+
COUPLED_RIDGE_ALPHA = 1e-3  # the value behind the figures in docs/images.md
N_NONZERO = {"anchored": 1, "coupled": 2}
MOST_BACK_PROJECTIONS = 1000  # largest number accepted from a file: each takes time, and a few are enough


class SuperResolution(RunMixin, SavedMixin, BaseEstimator):  # type: ignore[misc]
    """Enlarge pictures, and predict the detail that interpolation misses.

    A picture is interpolated, and the missing detail is predicted patch by patch. A patch covers 3x3 pixels of the
    small picture; there is one around each pixel. Its features are the first and second differences of the interpolated
    picture, reduced to their principal components. Patches are flipped and transposed so that brightness rises along
    their rows and columns: the model learns one orientation instead of eight [3]_. Predictions are averaged where
    patches overlap; back-projection then ensures that the large picture, made small again, equals the small one.

    Two methods predict detail from features. ``"coupled"`` learns dictionaries of features and of detail together,
    codes the features sparsely, and turns the codes into detail [1]_. ``"anchored"`` (A+ [2]_) learns a dictionary of
    features; each atom has a linear map from features to detail, fitted to the training samples that correlate with it
    most, and the map of the nearest atom predicts a patch. This method is better by 0.3 to 0.6 dB.

    Pictures are grey or in colour, with or without alpha, as arrays of uint8, uint16, float32 or float64. Integers use
    the range of their type. Floats should be 0 to 1 in `fit`; `upscale` takes any range and neither rounds nor clips
    them. Detail is predicted for brightness (ITU-R BT.601 luma) alone; chroma and alpha are interpolated.

    Parameters
    ----------
    scale : {2, 3, 4}, default=3
        Factor by which width and height are enlarged.
    method : {"anchored", "coupled"}, default="anchored"
        How detail is predicted.
    n_components : int, default=1024
        Number of atoms.
    n_nonzero_coefs : int, optional
        Atoms in the code of a patch while dictionaries are learned, and with ``"coupled"`` in `upscale` too. The
        default is 2 with ``"coupled"`` and 1 with ``"anchored"``, where a patch belongs to one anchor.
    n_neighbors : int, optional
        Approximate number of training samples that the map of an anchor is fitted to; the default is 1024. Only with
        ``"anchored"``.
    ridge_alpha : float, optional
        Ridge penalty of these maps, for features of norm 1; the default is 0.1. Only with ``"anchored"``.
    patch_size : int, default=3
        Side of a patch in pixels of the small picture, odd.
    feature_share : float, default=0.999
        Share of the energy of the features that their principal components keep.
    n_detail_components : int, optional
        Number of principal components of the detail that are predicted; the default is 48 for the default patches. All
        of them (``(scale * patch_size) ** 2``) add at most 0.02 dB; fewer make a smaller and faster model.
    max_samples : int, optional
        Largest number of patches to learn from; the default is 2,000,000 (``"anchored"``) or 200,000 (``"coupled"``).
        If the pictures have fewer, slightly smaller copies of them provide more.
    max_iter : int, default=20
        Iterations of dictionary learning.
    back_projection : int, default=2
        Iterations of back-projection; 0 for none.
    ensemble : bool, default=False
        Predict each patch from its three nearest anchors: 0.01 to 0.04 dB better, in about twice the time. Only with
        ``"anchored"``. (Averaging over the eight flips and transposes of the picture would change nothing, because
        patches are turned.)
    degradation : str, default="none"
        Degradation of the pictures that `upscale` gets; it is removed before they are enlarged. ``"none"`` takes them
        as they are. ``"auto"`` estimates it from each picture, see :meth:`find_degradation`; if it finds none, the
        result has the same bits as with ``"none"``. ``"noise=10"`` is noise of this standard deviation in each channel,
        in grey values of 255; ``"jpeg=75"`` is JPEG of this quality; ``"noise=10, jpeg=75"`` is noise that was
        compressed. The models for restoration are part of the package; `fit` does not change them.
    n_jobs, verbose
        As in :class:`coupledict.CoupledDictionaryLearning`.
    random_state : int, RandomState, Generator or None
        Randomness of the choice of samples and of the start of learning.
    callback : callable, optional
        Called with a :class:`coupledict.Progress` as iterations and batches of `fit` and tiles of `upscale` are
        finished. If it returns a true value, the work ends with :class:`coupledict.StoppedByCallback`.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary of features: its atoms, or the anchors.
    details_ : array of shape (n_components, n_details) or (n_components, n_features, n_details)
        The dictionary of detail for codes over `components_`, or the map of each anchor from features to detail.
    projection_ : array of shape (n_window, n_features)
        Map from the pixels around a patch of the small picture, turned, to features.
    basis_ : array of shape (n_details, n_pixels)
        Map from details to the pixels of a turned patch.
    n_samples_ : int
        Number of patches learned from.

    See Also
    --------
    imresize : Interpolation, and how small pictures are made for learning.

    Notes
    -----
    Models learn from pictures made small by :func:`imresize`, and work best for pictures made small in the same way.
    They mistake noise and compression artefacts for structure and amplify them; `degradation` prevents that. Pictures
    that were restored are not back-projected, which would bring the noise back.

    `upscale` works in float32 and takes time in proportion to the pixels. It needs about 20 bytes of memory per pixel
    of the result, including the result itself, and about 40 MB per thread.

    References
    ----------
    .. [1] R. Zeyde, M. Elad and M. Protter, "On Single Image Scale-Up Using Sparse-Representations", Curves and
       Surfaces 2010, LNCS 6920. The learning is that of :class:`coupledict.CoupledDictionaryLearning`.
    .. [2] R. Timofte, V. De Smet and L. Van Gool, "A+: Adjusted Anchored Neighborhood Regression for Fast
       Super-Resolution", ACCV 2014.
    .. [3] E. Perez-Pellitero, J. Salvador, J. Ruiz-Hidalgo and B. Rosenhahn, "PSyCo: Manifold Span Reduction for Super
       Resolution", CVPR 2016.

    Examples
    --------
    >>> from skimage import data
    >>> from coupledict.images import SuperResolution, imresize
    >>> photograph = data.coffee()
    >>> small = imresize(photograph, 1 / 3)
    >>> large = SuperResolution.pretrained(3).upscale(small)
    >>> small.shape, large.shape, large.dtype
    ((134, 200, 3), (402, 600, 3), dtype('uint8'))

    Learn a new model, here from a single picture:

    >>> model = SuperResolution(2, n_components=64, max_samples=20_000, random_state=0).fit([data.camera()])
    >>> model.upscale(data.coins()).shape
    (606, 768)
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "scale": (SCALE,),
        "method": (Choice("anchored", "coupled"),),
        "ensemble": (BOOLEAN,),
        "n_components": (COUNT,),
        "n_nonzero_coefs": (NONE, COUNT),
        "n_neighbors": (NONE, COUNT),
        "ridge_alpha": (NONE, PENALTY),
        "patch_size": (Integer(1, odd=True),),
        "feature_share": (Real(0, 1, closed="right"),),
        "n_detail_components": (NONE, COUNT),
        "max_iter": (COUNT,),
        "back_projection": (Integer(0),),
        "max_samples": (NONE, COUNT),
        "degradation": (Instance((str,), "a string"),),
        **RunMixin._parameter_constraints,
    }

    def __init__(
        self,
        scale: int = 3,
        *,
        method: Literal["anchored", "coupled"] = "anchored",
        ensemble: bool = False,
        n_components: int = 1024,
        n_nonzero_coefs: int | None = None,
        n_neighbors: int | None = None,
        ridge_alpha: float | None = None,
        patch_size: int = 3,
        feature_share: float = 0.999,
        n_detail_components: int | None = None,
        max_iter: int = 20,
        back_projection: int = 2,
        max_samples: int | None = None,
        degradation: str = "none",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.scale = scale
        self.method = method
        self.ensemble = ensemble
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.n_neighbors = n_neighbors
        self.ridge_alpha = ridge_alpha
        self.patch_size = patch_size
        self.feature_share = feature_share
        self.n_detail_components = n_detail_components
        self.max_iter = max_iter
        self.back_projection = back_projection
        self.max_samples = max_samples
        self.degradation = degradation
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Sequence[npt.ArrayLike], y: object = None) -> Self:
        """Learn from large pictures; `fit` makes the small ones itself.

        Parameters
        ----------
        X : list of arrays of shape (rows, columns) or (rows, columns, channels)
            Pictures of the quality that upscaled pictures should have. Alpha is ignored.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        self._check_parameters()
        planes = check_pictures(X)
        rng, geometry = make_generator(self.random_state), self._geometry()
        with self._watched() as callback:
            training = self._draw(planes, geometry, rng)
            learn = self._learn_anchored if self.method == "anchored" else self._learn_coupled
            components, details, n_samples = learn(training, rng, callback)
        self._keep(Model(geometry, training.projection, training.basis, components, details), n_samples)
        return self

    def upscale(self, image: npt.ArrayLike) -> Array:
        """Return a picture `scale` times as large each way.

        Parameters
        ----------
        image : array of shape (rows, columns) or (rows, columns, channels)
            uint8, uint16, float32 or float64; 1 channel is grey, 2 are grey and alpha, 3 are RGB, 4 are RGB and alpha.
            Arrays of PyTorch, JAX and others are read in place.

        Returns
        -------
        array of shape (scale * rows, scale * columns) or (scale * rows, scale * columns, channels)
            Of the number type of `image`. Integers are rounded and clipped to their range, floats are not.
        """
        check_is_fitted(self, "components_")
        self._check_parameters()
        array = check_picture(image, "image")
        model, n_jobs, n_pixels = self._model(), count_jobs(self.n_jobs), array.shape[0] * array.shape[1]
        predictor = DetailPredictor(
            model, n_nonzero=self._n_nonzero, n_patches=n_pixels, ensemble=self.ensemble, n_jobs=n_jobs
        )
        found = parse(self.degradation)
        degradation = estimate(array) if found is None else found
        clean = array
        with self._watched() as callback:
            n_planes = planes_to_restore(array, degradation)
            meter = Meter(callback, "upscaling", n_pixels * (1 + n_planes))
            if n_planes:
                clean = restore_picture(array, degradation, n_jobs=n_jobs, meter=meter)
            plane = brightness(clean)
            detail = predict_detail(predictor, plane, n_jobs=n_jobs, meter=meter)
        shape = (detail.shape[0], detail.shape[1])
        if not n_planes:  # back-projection would bring the noise of a restored picture back
            detail = back_project(detail, plane, self.back_projection)
        out: Array = np.empty(shape + array.shape[2:], array.dtype)
        work = np.float64 if array.dtype == np.float64 else np.float32
        for channel in range(1 if array.ndim == 2 else array.shape[2]):
            source, target = (clean, out) if array.ndim == 2 else (clean[:, :, channel], out[:, :, channel])
            large = imresize(source.astype(work), shape=shape)
            if channel < n_colors(array):
                large += detail
            store(large, target)
        return out

    @staticmethod
    def find_degradation(image: npt.ArrayLike) -> Degradation:
        """Estimate the degradation of a picture, as ``degradation="auto"`` does.

        Parameters
        ----------
        image : array of shape (rows, columns) or (rows, columns, channels)
            As in :meth:`upscale`.

        Returns
        -------
        Degradation
            With the attributes `noise` and `color_noise`, standard deviations in grey values of 255 (0 for none), and
            `jpeg_quality` (None for none). It is false if the picture is clean; `str` describes it in words.

        Examples
        --------
        >>> import numpy as np
        >>> from skimage import data
        >>> from coupledict.images import SuperResolution, imresize
        >>> photograph = imresize(data.coffee(), 1 / 2)
        >>> noisy = photograph + 10 * np.random.default_rng(0).standard_normal(photograph.shape)
        >>> found = SuperResolution.find_degradation(np.clip(np.rint(noisy), 0, 255).astype(np.uint8))
        >>> round(found.noise), found.jpeg_quality
        (10, None)
        """
        return estimate(check_picture(image, "image"))

    @classmethod
    def pretrained(
        cls,
        scale: int = 3,
        *,
        method: Literal["anchored"] = "anchored",
        ensemble: bool = False,
        degradation: str = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> Self:
        """Load the model of the package for a scale.

        ``tools/train_super_resolution.py`` learned it from photographs of scikit-image with stated rights
        (``images/models/CREDITS.md``).

        Parameters
        ----------
        scale : {2, 3, 4}, default=3
        method : {"anchored"}
            The only method for which the package has models.
        degradation : str, default="auto"
            As in :class:`SuperResolution`, with another default.
        ensemble, n_jobs, verbose, callback
            As in :class:`SuperResolution`.

        Returns
        -------
        SuperResolution
        """
        check_value(scale, "scale", SCALE)
        check_choice(method, "method of a pretrained model", ("anchored",))
        with as_file(files(__package__) / "models" / f"super_resolution_x{scale}.safetensors") as path:
            model = cls.load(path)
        model.set_params(ensemble=ensemble, degradation=degradation, n_jobs=n_jobs, verbose=verbose, callback=callback)
        return model

    def _check_combination(self) -> None:
        parse(self.degradation)
        if self.method == "coupled":
            for name in ("n_neighbors", "ridge_alpha", "ensemble"):
                if getattr(self, name) not in (None, False):
                    raise ValueError(f"Expected {name} only with method='anchored', got it with method='coupled'.")

    def _geometry(self) -> Geometry:
        return Geometry(self.scale, self.patch_size)

    @property
    def _n_nonzero(self) -> int:
        return self.n_nonzero_coefs or N_NONZERO[self.method]

    def _model(self) -> Model:
        geometry = self._geometry()
        now = geometry.window**2, geometry.side**2, 3 if self.method == "anchored" else 2
        if now != (self.projection_.shape[0], self.basis_.shape[1], self.details_.ndim):
            raise ValueError("Expected scale, method and patch_size as they were in fit, got others. Fit again.")
        return Model(geometry, self.projection_, self.basis_, self.components_, self.details_)

    def _keep(self, model: Model, n_samples: int) -> None:
        """Set all fitted attributes in one step, so that an interrupt leaves either all of them or none."""
        fitted = {f"{name}_": array for name, array in model.tensors().items()}
        self.__dict__.update(fitted, n_samples_=n_samples)

    def _to_state(self, *, half: bool = False) -> ModelState:
        """Return the fitted estimator as data; with `half` in half precision.

        The models of the package are stored this way; the effect on results is too small to measure.
        """
        tensors = self._model().tensors()
        facts: dict[str, JSON] = {"n_samples": int(self.n_samples_)}
        if half:
            facts["half"] = {name: list[JSON](array.shape) for name, array in tensors.items()}
            tensors = {name: pack_half(array) for name, array in tensors.items()}
        return ModelState.of(self, tensors, **facts)

    @classmethod
    def _from_state(cls, state: ModelState) -> Self:
        estimator = make_estimator(cls, state.parameters)
        if check_file_count(estimator.back_projection, "parameter back_projection") > MOST_BACK_PROJECTIONS:
            raise ValueError(f"its parameter back_projection is {estimator.back_projection}")
        halves = {name: unpack_half(state.tensors[name], shape) for name, shape in state.facts.get("half", {}).items()}
        anchored = estimator.method == "anchored"
        model = Model.from_tensors(estimator._geometry(), state.tensors | halves, anchored=anchored)
        estimator._keep(model, check_file_count(state.facts["n_samples"], "number of samples"))
        return estimator

    # Learning

    def _draw(self, planes: list[Array], geometry: Geometry, rng: np.random.Generator) -> _Training:
        """Return samples to learn dictionaries from, as features and details."""
        shapes = [(plane.shape[0], plane.shape[1]) for plane in planes]
        draws = _sr_samples.plan(shapes, geometry, min(self._most_samples, LEARNING_SAMPLES), rng)
        n_samples = sum(draw.count for draw in draws)
        if n_samples < self.n_components:
            raise ValueError(
                f"Expected images with at least n_components={self.n_components} patches to learn from, got"
                f" {n_samples}. Use more or larger images, or fewer components."
            )
        windows, details = _sr_samples.samples(planes, draws, geometry)
        order = rng.permutation(len(windows))
        with one_blas_thread():
            projection = self._find_projection(windows, geometry)
            basis = self._find_basis(details)
            features, details = windows[order] @ projection, details[order] @ basis.T
        return _Training(planes, geometry, projection, basis, features, details)

    @property
    def _most_samples(self) -> int:
        return self.max_samples or (REGRESSION_SAMPLES if self.method == "anchored" else LEARNING_SAMPLES)

    def _find_projection(self, windows: Array, geometry: Geometry) -> Array:
        """Return the map from windows to the principal components of their differences."""
        differences = geometry.differences()
        level = (
            windows - windows[:, :1]
        )  # differences do not depend on the level, and products are more accurate without it
        moments = (level.T @ level).astype(np.float64) / len(level)
        axes = _principal(differences.T @ moments @ differences, self.feature_share)
        return (differences @ axes).astype(np.float32)

    def _find_basis(self, details: Array) -> Array:
        """Return the principal components of details, or the identity if all of them are kept."""
        most = self.n_detail_components or round(DETAILS_PER_PIXEL * self.patch_size**2)
        if most >= details.shape[1]:
            return np.eye(details.shape[1], dtype=np.float32)
        axes = _principal((details.T @ details).astype(np.float64) / len(details), 1.0)
        return np.ascontiguousarray(axes.T[:most], dtype=np.float32)

    def _learn_coupled(
        self, training: _Training, rng: np.random.Generator, callback: Callback | None
    ) -> tuple[Array, Array, int]:
        """Return the dictionary of features, the dictionary of detail for codes over it, and the number of samples."""
        learner = plain_learner(
            self.n_components,
            n_nonzero_coefs=self._n_nonzero,
            max_iter=self.max_iter,
            view_weights="balanced",
            ridge_alpha=COUPLED_RIDGE_ALPHA,
            random_state=rng,
        )
        fit_many([learner], [training.features, training.details], self.n_jobs, callback)
        return learner.components_[0], learner.predictors_[(0,)][1], len(training.features)

    def _learn_anchored(
        self, training: _Training, rng: np.random.Generator, callback: Callback | None
    ) -> tuple[Array, Array, int]:
        """Return the anchors, the map from features to detail of each, and the number of samples."""
        planes, geometry, features = training.planes, training.geometry, training.features
        shapes = [(plane.shape[0], plane.shape[1]) for plane in planes]
        draws = _sr_samples.plan(shapes, geometry, self._most_samples, rng)
        n_samples = sum(draw.count for draw in draws)
        learner = DictionaryLearning(
            self.n_components, n_nonzero_coefs=self._n_nonzero, max_iter=self.max_iter, random_state=rng
        )
        fit_many([learner], features, self.n_jobs, callback)
        anchors = learner.components_
        with one_blas_thread():
            some, _ = _sr_anchored.normalized(features[:THRESHOLD_SAMPLES], features[:THRESHOLD_SAMPLES])
            limits = _sr_anchored.thresholds(anchors, some, (self.n_neighbors or N_NEIGHBORS) / n_samples)

        def read(batch: list[Draw]) -> tuple[Array, Array]:
            windows, details = _sr_samples.samples(planes, batch, geometry)
            return windows @ training.projection, details @ training.basis.T

        batches = _sr_samples.batches(draws, SIZES.detail_samples)
        maps = _sr_anchored.regressors(
            anchors,
            limits,
            batches,
            read,
            ridge_alpha=RIDGE_ALPHA if self.ridge_alpha is None else self.ridge_alpha,
            n_jobs=count_jobs(self.n_jobs),
            meter=Meter(callback, "fitting maps", len(batches)),
        )
        return anchors, maps, n_samples


@dataclass(frozen=True)
class _Training:
    """Pictures to learn from, and the features and details of some of their patches, in random order."""

    planes: list[Array]
    geometry: Geometry
    projection: Array
    basis: Array
    features: Array
    details: Array


def _principal(moments: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float64]:
    """Return the principal axes that hold a share of the energy, as columns, the largest first."""
    energies, axes = np.linalg.eigh(moments)
    energies = np.maximum(energies[::-1], 0)
    if not energies[0] > FLAT:
        raise ValueError("Expected images with some structure, got only flat ones.")
    n = int(np.searchsorted(np.cumsum(energies) / energies.sum(), share)) + 1
    return axes[:, ::-1][:, :n]
