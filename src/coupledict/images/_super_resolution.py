"""Super-resolution as an estimator: large pictures in, a model that makes small ones large out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.resources import as_file, files
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._base import check_choice, generator
from .._ensemble import fit_many
from .._learner import CoupledDictionaryLearning
from .._passes import count_jobs, one_blas_thread
from .._single import DictionaryLearning
from .._views import Array, check_count, check_tol
from . import _sr_anchored, _sr_samples
from ._resize import imresize, store
from ._sr_geometry import Geometry
from ._sr_pictures import check_picture, luma, n_colors, unit_luma
from ._sr_pipeline import Model, back_project, predict_detail
from ._sr_samples import Draw

SCALES = (2, 3, 4)
LEARNING_SAMPLES = 200_000  # more of them do not make better dictionaries
REGRESSION_SAMPLES = 2_000_000  # twice as many add 0.01 dB
THRESHOLD_SAMPLES = 50_000
BATCH_SAMPLES = 1 << 14
DETAILS_PER_PIXEL = 48 / 9  # components of the detail for each small pixel of a patch; all of them add 0.02 dB at most
FLAT = 1e-12  # energy of differences that is nothing but rounding, for pictures from 0 to 1
N_NEIGHBORS = 1024
ALPHA = 0.1  # for features of norm 1, as in A+
N_NONZERO = {"anchored": 1, "coupled": 2}


class SuperResolution(BaseEstimator):  # type: ignore[misc]
    """Make small pictures large, with the detail that pictures usually have.

    A picture is interpolated, and what interpolation misses is predicted patch by patch. A patch covers 3x3 pixels of
    the small picture, and there is one around each of them. It is seen as the first and second differences of the
    interpolated picture, reduced to their principal components, and turned so that brightness rises along its rows and
    columns: what holds for an edge holds for it seen from any other side [3]_. Where patches overlap, their predictions
    are averaged; then back-projection makes sure that the large picture, made small again, is the small one.

    Two methods predict detail from features. ``"coupled"`` learns dictionaries of features and of detail together,
    codes the features sparsely, and turns the codes into detail [1]_. ``"anchored"`` (A+ [2]_) learns a dictionary of
    features; each atom gets a linear map from features to detail, fitted to the training samples that correlate with it
    most, and a patch is predicted by the map of the atom nearest to it. It is better by 0.3 to 0.6 dB.

    Pictures are grey or in colour, with or without alpha, as arrays of uint8, uint16, float32 or float64. Integers use
    the range of their type. Floats should be 0 to 1 in `fit`; `upscale` takes any range and neither rounds nor cuts
    them. Detail is predicted for brightness (ITU-R BT.601 luma) alone; chroma and alpha are interpolated.

    Parameters
    ----------
    scale : {2, 3, 4}, default=3
        Pixels of the large picture for one of the small, each way.
    method : {"anchored", "coupled"}, default="anchored"
        How detail is predicted.
    n_components : int, default=1024
        Atoms of the dictionary.
    n_nonzero_coefs : int, optional
        Atoms in the code of a patch while dictionaries are learned, and with ``"coupled"`` in `upscale` too; 2 if left
        out. With ``"anchored"`` it is 1 if left out: patches belong to one anchor there.
    n_neighbors : int, optional
        About how many training samples the map of an anchor is fitted to; 1024 if left out. Only with ``"anchored"``.
    alpha : float, optional
        Ridge penalty of these maps, for features of norm 1; 0.1 if left out. Only with ``"anchored"``.
    patch_size : int, default=3
        Side of a patch in pixels of the small picture, odd.
    feature_share : float, default=0.999
        Share of the energy of the features that their principal components keep.
    n_detail_components : int, optional
        Principal components of the detail that are predicted; 48 for the default patches if left out. All of them
        (``(scale * patch_size) ** 2``) add 0.02 dB at most, and fewer make a smaller and faster model.
    n_samples : int, optional
        Most patches to learn from; 2,000,000 (``"anchored"``) or 200,000 (``"coupled"``) if left out. Where the images
        have fewer, slightly smaller copies of them give more.
    max_iter : int, default=20
        Iterations of dictionary learning.
    back_projection : int, default=2
        Iterations of back-projection; 0 for none.
    ensemble : bool, default=False
        Predict each patch by its three nearest anchors together: 0.01 to 0.04 dB better, in about twice the time. Only
        with ``"anchored"``. (To average over the eight flips and transposes of the picture would change nothing,
        because patches are turned.)
    n_jobs : int, optional
        Threads; None is 1 unless a joblib context says otherwise, -1 is all cores. Changes speed only.
    random_state : int, RandomState, Generator or None
        Source of the choice of samples and of the start of learning.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary of features: atoms of the coupled one, or anchors.
    details_ : array of shape (n_components, n_details) or (n_components, n_features, n_details)
        The dictionary of detail for codes over `components_`, or the map of each anchor from features to detail.
    projection_ : array of shape (n_window, n_features)
        From pixels around a patch of the small picture, turned, to features.
    basis_ : array of shape (n_details, n_pixels)
        From details to pixels of a turned patch.
    n_samples_ : int
        Patches learned from.

    See Also
    --------
    imresize : Interpolation, and how small pictures are made for learning.

    Notes
    -----
    Models learn from pictures made small by :func:`imresize`, and are at their best where small pictures were made so.
    Noise and compression artefacts are taken for structure.

    `upscale` works in float32 and takes time in proportion to the pixels. Memory: about 20 bytes a pixel of the result,
    the result itself included, and some 40 MB a thread.

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

    A model of one's own, here from a single picture:

    >>> model = SuperResolution(2, n_components=64, n_samples=20_000, random_state=0).fit([data.camera()])
    >>> model.upscale(data.coins()).shape
    (606, 768)
    """

    def __init__(
        self,
        scale: int = 3,
        *,
        method: Literal["anchored", "coupled"] = "anchored",
        n_components: int = 1024,
        n_nonzero_coefs: int | None = None,
        n_neighbors: int | None = None,
        alpha: float | None = None,
        patch_size: int = 3,
        feature_share: float = 0.999,
        n_detail_components: int | None = None,
        n_samples: int | None = None,
        max_iter: int = 20,
        back_projection: int = 2,
        ensemble: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.scale = scale
        self.method = method
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.patch_size = patch_size
        self.feature_share = feature_share
        self.n_detail_components = n_detail_components
        self.n_samples = n_samples
        self.max_iter = max_iter
        self.back_projection = back_projection
        self.ensemble = ensemble
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, images: Sequence[npt.ArrayLike], y: object = None) -> Self:
        """Learn from large pictures; the small ones are made here.

        Parameters
        ----------
        images : list of arrays of shape (rows, columns) or (rows, columns, channels)
            Pictures of the quality that upscaled pictures shall have. Alpha is not looked at.
        y : ignored
            Accepted for pipelines.

        Returns
        -------
        self
        """
        self._check_parameters()
        planes = _check_pictures(images)
        rng, n_jobs = generator(self.random_state), count_jobs(self.n_jobs)
        geometry, anchored = self._geometry(), self.method == "anchored"
        shapes = [(plane.shape[0], plane.shape[1]) for plane in planes]
        most = self.n_samples or (REGRESSION_SAMPLES if anchored else LEARNING_SAMPLES)
        draws = _sr_samples.plan(shapes, geometry, min(most, LEARNING_SAMPLES), rng)
        self.n_samples_ = sum(draw.count for draw in draws)
        if self.n_samples_ < self.n_components:
            raise ValueError(
                f"Expected images with at least n_components={self.n_components} patches to learn from, got"
                f" {self.n_samples_}. Use more or larger images, or fewer components."
            )
        windows, details = _sr_samples.samples(planes, draws, geometry)
        order = rng.permutation(len(windows))
        with one_blas_thread():
            self.projection_ = self._find_projection(windows, geometry)
            self.basis_ = self._find_basis(details)
            features, details = windows[order] @ self.projection_, details[order] @ self.basis_.T
        if anchored:
            self._fit_anchored(planes, _sr_samples.plan(shapes, geometry, most, rng), features, rng, n_jobs)
        else:
            self._fit_coupled(features, details, rng)
        return self

    def upscale(self, image: npt.ArrayLike) -> Array:
        """Return a picture `scale` times as large each way.

        Parameters
        ----------
        image : array of shape (rows, columns) or (rows, columns, channels)
            uint8, uint16, float32 or float64; 1 channel is grey, 2 are grey and alpha, 3 are RGB, 4 are RGB and alpha.

        Returns
        -------
        array of shape (scale * rows, scale * columns) or (scale * rows, scale * columns, channels)
            Of the number type of `image`. Integers are rounded and cut to their range, floats are not.
        """
        check_is_fitted(self, "components_")
        self._check_parameters()
        array = check_picture(image, "image")
        plane = luma(array)
        detail = predict_detail(
            self._model(),
            plane,
            ensemble=self.ensemble,
            n_jobs=count_jobs(self.n_jobs),
            progress=lambda items, total: self._track(items, total, "Upscaling"),
        )
        shape = (detail.shape[0], detail.shape[1])
        detail = back_project(detail, plane, self.back_projection)
        out: Array = np.empty(shape + array.shape[2:], array.dtype)
        work = np.float64 if array.dtype == np.float64 else np.float32
        for channel in range(1 if array.ndim == 2 else array.shape[2]):
            source, target = (array, out) if array.ndim == 2 else (array[:, :, channel], out[:, :, channel])
            large = imresize(source.astype(work), shape=shape)
            if channel < n_colors(array):
                large += detail
            store(large, target)
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file of data, without code, that :meth:`load` reads.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced, as a whole.
        """
        from ._sr_saving import save

        check_is_fitted(self, "components_")
        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SuperResolution:
        """Read a model that :meth:`save` wrote; it upscales to the same bits.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        SuperResolution

        Raises
        ------
        ModelFileError
            For a file that is damaged, not such a model, or written by a newer version.
        """
        from ._sr_saving import load

        return load(path)

    @classmethod
    def pretrained(
        cls,
        scale: int = 3,
        *,
        method: Literal["anchored"] = "anchored",
        ensemble: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> SuperResolution:
        """Load the model that comes with the package for a scale.

        It was learned from the free photographs that come with scikit-image, by ``tools/train_super_resolution.py``.

        Parameters
        ----------
        scale : {2, 3, 4}, default=3
        method : {"anchored"}
            Others do not come with the package.
        ensemble, n_jobs, verbose
            As in :class:`SuperResolution`.

        Returns
        -------
        SuperResolution
        """
        _check_scale(scale)
        check_choice(method, "method of a pretrained model", ("anchored",))
        with as_file(files(__package__) / "models" / f"super_resolution_x{scale}.safetensors") as path:
            model = cls.load(path)
        model.set_params(ensemble=ensemble, n_jobs=n_jobs, verbose=verbose)
        return model

    def _check_parameters(self) -> None:
        """Raise for parameters that are wrong, or that mean nothing with this method."""
        _check_scale(self.scale)
        check_choice(self.method, "method", ("anchored", "coupled"))
        for name in ("n_components", "patch_size", "max_iter"):
            check_count(getattr(self, name), name)
        for name in ("n_nonzero_coefs", "n_neighbors", "n_detail_components", "n_samples"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)
        if self.patch_size % 2 == 0:
            raise ValueError(f"Expected patch_size to be odd, got {self.patch_size}.")
        if self.alpha is not None:
            check_tol(self.alpha, "alpha")
        if not 0 < check_tol(self.feature_share, "feature_share") <= 1:
            raise ValueError(f"Expected feature_share to be above 0 and at most 1, got {self.feature_share}.")
        if self.back_projection != 0:
            check_count(self.back_projection, "back_projection")
        if self.method == "coupled":
            for name in ("n_neighbors", "alpha", "ensemble"):
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
        return Model(
            geometry, self.projection_, self.basis_, self.components_, self.details_, n_nonzero=self._n_nonzero
        )

    def _find_projection(self, windows: Array, geometry: Geometry) -> Array:
        """Return the map from windows to the principal components of their differences."""
        differences = geometry.differences()
        level = windows - windows[:, :1]  # differences do not see it; products lose fewer digits without
        moments = (level.T @ level).astype(np.float64) / len(level)
        axes = _principal(differences.T @ moments @ differences, self.feature_share)
        return (differences @ axes).astype(np.float32)

    def _find_basis(self, details: Array) -> Array:
        """Return the principal components of details, or the pixels themselves where all of them count."""
        most = self.n_detail_components or round(DETAILS_PER_PIXEL * self.patch_size**2)
        if most >= details.shape[1]:
            return np.eye(details.shape[1], dtype=np.float32)
        axes = _principal((details.T @ details).astype(np.float64) / len(details), 1.0)
        return np.ascontiguousarray(axes.T[:most], dtype=np.float32)

    def _fit_coupled(self, features: Array, details: Array, rng: np.random.Generator) -> None:
        learner = CoupledDictionaryLearning(
            self.n_components,
            n_nonzero_coefs=self._n_nonzero,
            max_iter=self.max_iter,
            view_weights="balanced",
            n_jobs=self.n_jobs,
            random_state=rng,
            verbose=self.verbose,
        )
        fit_many([learner], [features, details], self.n_jobs)  # an interrupt ends it all, not only the learner
        self.components_ = learner.components_[0]
        self.details_ = learner._refitted[(0,)][1]

    def _fit_anchored(
        self, planes: list[Array], draws: list[Draw], features: Array, rng: np.random.Generator, n_jobs: int
    ) -> None:
        self.n_samples_ = sum(draw.count for draw in draws)
        learner = DictionaryLearning(
            self.n_components,
            n_nonzero_coefs=self._n_nonzero,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
            random_state=rng,
            verbose=self.verbose,
        )
        fit_many([learner], features, self.n_jobs)
        anchors, geometry = learner.components_, self._geometry()
        with one_blas_thread():
            some, _ = _sr_anchored.normalized(features[:THRESHOLD_SAMPLES], features[:THRESHOLD_SAMPLES])
            limits = _sr_anchored.thresholds(anchors, some, (self.n_neighbors or N_NEIGHBORS) / self.n_samples_)

        def read(batch: list[Draw]) -> tuple[Array, Array]:
            windows, details = _sr_samples.samples(planes, batch, geometry)
            return windows @ self.projection_, details @ self.basis_.T

        batches = _sr_samples.batches(draws, BATCH_SAMPLES)
        self.details_ = _sr_anchored.regressors(
            anchors,
            limits,
            batches,
            read,
            alpha=ALPHA if self.alpha is None else self.alpha,
            n_jobs=n_jobs,
            progress=lambda items: self._track(items, len(batches), "Fitting maps"),
        )
        self.components_ = anchors

    def _track(self, items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
        """Show how far a loop has come."""
        if not self.verbose:
            return items
        from rich.console import Console
        from rich.progress import track

        return track(items, what, total=total, console=Console(stderr=True))


def _check_scale(scale: object) -> None:
    if isinstance(scale, bool) or not isinstance(scale, int | np.integer) or scale not in SCALES:
        raise ValueError(f"Expected scale to be 2, 3 or 4, got {scale!r}.")


def _check_pictures(images: object) -> list[Array]:
    """Return the brightness of pictures to learn from."""
    if isinstance(images, np.ndarray) and images.ndim < 4:
        raise TypeError("Expected images to be a list of arrays, got one array. Put it into a list.")
    if not isinstance(images, Iterable) or isinstance(images, str):
        raise TypeError(f"Expected images to be a list of arrays, got {images!r}.")
    planes = [unit_luma(check_picture(image, f"images[{i}]")) for i, image in enumerate(images)]
    if not planes:
        raise ValueError("Expected at least one image to learn from, got an empty list.")
    return planes


def _principal(moments: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float64]:
    """Return, as columns and largest first, the principal axes that hold a share of the energy."""
    energies, axes = np.linalg.eigh(moments)
    energies = np.maximum(energies[::-1], 0)
    if not energies[0] > FLAT:
        raise ValueError("Expected images with some structure, got only flat ones.")
    n = int(np.searchsorted(np.cumsum(energies) / energies.sum(), share)) + 1
    return axes[:, ::-1][:, :n]
