"""Inpainting as an estimator: dictionaries learned from a picture restore its missing pixels."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from ..coding.coder import Coder
from ..coding.coders import make_coder
from ..coding.passes import encode
from ..coding.recipe import Recipe
from ..coding.rule import CodingRule
from ..coding.samples import Samples
from ..estimators.ensemble import fit_many, plain_learner
from ..estimators.running import TASK_CONSTRAINTS, RunMixin
from ..foundation.arrays import Array
from ..foundation.checks import make_generator
from ..foundation.parameters import COUNT, Choice, Constraints, Integer, Real, Tuple
from ..foundation.progress import Meter
from ..parallel.jobs import Threads, count_jobs
from ._inpainting_pictures import check_damaged
from ._inpainting_smooth import Mask, fill_smoothly
from ._patches import Assembly, extract_patches, patch_bands, patch_grid

STRIDE = 2
#: First pixels of the grid of patches in successive rounds; with them, a stride of 2 is as good as 1.
OFFSETS = ((0, 0), (1, 1), (0, 1), (1, 0))
#: Weight of an estimated pixel relative to a known one. 0.07 to 0.15 work equally well; with 0, the codes of patches
#: with few known pixels are mostly noise; with 1, the estimate changes too slowly.
ESTIMATE_WEIGHT = 0.1
HIDDEN_SHARE = 0.1  # of the known pixels, to measure the error of the smooth estimate
LEAST_TOLERANCE = 0.002  # of the first round: half a level of 8 bits, for pictures that are smooth surfaces


class Inpainting(RunMixin, BaseEstimator):  # type: ignore[misc]
    """Restore missing pixels of a picture by dictionaries learned from the picture itself.

    The first estimate is a smooth surface through the known pixels. Each of several rounds learns a dictionary from
    patches of the estimate and codes every patch with missing pixels over it; the decoded patches, averaged where they
    overlap, are the next estimate of the missing pixels. A patch has two views, its known pixels and, with a small
    weight, the estimate of its missing ones; one code represents both, and all channels of a colour picture. Codes
    become more accurate from round to round.

    This restores what repeats or continues: pixels lost at random, or covered by scratches or text. Holes much larger
    than a patch are filled smoothly from the outside in; what they contained cannot be recovered.

    Parameters
    ----------
    n_components : int, default=256
        Number of atoms; reduced if there are fewer patches to learn from.
    n_nonzero_coefs : int, default=16
        Largest number of atoms in the code of a patch.
    patch_size : int, default=8
        Side of the square patches.
    n_rounds : int, default=8
        Number of rounds of learning and coding. With 0, the result is the smooth estimate.
    tolerance : "auto" or (float, float), default="auto"
        Error to which patches are coded in the first and the last round: root mean square, as a share of the range of
        the known pixels; it falls geometrically in between. ``"auto"`` hides a tenth of the known pixels to measure the
        error e of the smooth estimate. If a share q of all pixels is known, the first tolerance is e, or 2 q e if less
        than half is known, and the last is a quarter of that. Use larger values for noisy pictures.
    max_samples : int, default=20_000
        Largest number of patches that each round learns from.
    max_iter : int, default=8
        Iterations of dictionary learning in each round.
    max_bytes : int, default=64 MiB
        Memory for the patches that are processed at a time. Affects speed and memory only.
    n_jobs : int, optional
        Number of threads; None means 1 unless a joblib context says otherwise, -1 means all cores. Affects speed only.
    random_state : int, RandomState, Generator or None
        Randomness of the patches that are drawn and of the start of the learner.
    verbose : int, default=0
        1 shows progress.
    callback : callable, optional
        Called with a :class:`coupledict.Progress` as patches are finished. If it returns a true value, the work ends
        with :class:`coupledict.StoppedByCallback`.

    See Also
    --------
    CoupledDictionaryLearning : With ``missing="nan"``, for samples of any kind.

    Notes
    -----
    Learning from a damaged picture and averaging overlapping patches follow [1]_; the falling tolerance is that of
    iterative thresholding [2]_. Patches with fewer atoms in their codes have larger weights [3]_.

    References
    ----------
    .. [1] J. Mairal, M. Elad and G. Sapiro, "Sparse Representation for Color Image Restoration", IEEE Transactions on
       Image Processing 17(1), 2008. doi:10.1109/TIP.2007.911828
    .. [2] M. Elad, J.-L. Starck, P. Querre and D. L. Donoho, "Simultaneous Cartoon and Texture Image Inpainting Using
       Morphological Component Analysis", Applied and Computational Harmonic Analysis 19(3), 2005.
       doi:10.1016/j.acha.2005.03.005
    .. [3] O. G. Guleryuz, "Weighted Averaging for Denoising With Overcomplete Dictionaries", IEEE Transactions on Image
       Processing 16(12), 2007. doi:10.1109/TIP.2007.908078

    Examples
    --------
    >>> import numpy as np
    >>> from coupledict.images import Inpainting
    >>> rows, columns = np.mgrid[:48, :48]
    >>> picture = np.sin(rows / 2) * np.cos(columns / 3)
    >>> missing = np.random.default_rng(0).random(picture.shape) < 0.5
    >>> damaged = np.where(missing, np.nan, picture)
    >>> whole = Inpainting(random_state=0).fill(damaged)
    >>> bool(np.array_equal(whole[~missing], picture[~missing]))
    True
    >>> bool(np.abs(whole - picture).max() < 0.2)
    True
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **TASK_CONSTRAINTS,
        "patch_size": (Integer(2),),
        "n_rounds": (Integer(0),),
        "tolerance": (Choice("auto"), Tuple(Real(0, closed="neither"), 2, "two numbers")),
        "max_bytes": (COUNT,),
        **RunMixin._parameter_constraints,
    }

    def __init__(
        self,
        n_components: int = 256,
        *,
        n_nonzero_coefs: int = 16,
        patch_size: int = 8,
        n_rounds: int = 8,
        tolerance: Literal["auto"] | tuple[float, float] = "auto",
        max_samples: int = 20_000,
        max_iter: int = 8,
        max_bytes: int = 1 << 26,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.patch_size = patch_size
        self.n_rounds = n_rounds
        self.tolerance = tolerance
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fill(self, image: npt.ArrayLike, mask: npt.ArrayLike | None = None) -> Array:
        """Fill in the missing pixels of a picture.

        Parameters
        ----------
        image : array of shape (height, width) or (height, width, n_channels)
            Of dtype uint8, uint16, float32 or float64, on any scale. NaN and the masked entries of a masked array are
            missing values. Leave out an alpha channel: it would be treated as a colour. Arrays of PyTorch, JAX and
            others are read in place.
        mask : array of shape (height, width) or that of the image, optional
            True, or a number other than 0, where pixels are MISSING. The values of `image` there do not matter.

        Returns
        -------
        array of the shape and dtype of the image
            Known values are returned unchanged, to the bit. Restored ones lie within the range of the known values.

        Raises
        ------
        ValueError, TypeError
            If the arguments do not fit together, a channel has no known pixel, or known pixels are infinite.
        """
        rng = make_generator(self.random_state)
        self._check_parameters()
        damaged = check_damaged(image, mask, self.patch_size)
        if damaged.known.all():
            return np.array(damaged.image)
        if damaged.span == 0:
            return damaged.restored(np.zeros(damaged.known.shape, np.float32))
        estimate = damaged.scaled()
        bounds = self._tolerance(estimate, damaged.known, rng)
        for channel in range(estimate.shape[2]):
            estimate[:, :, channel] = fill_smoothly(estimate[:, :, channel], damaged.known[:, :, channel])
        n_patches = sum(self._count_patches(estimate.shape, number) for number in range(self.n_rounds))
        tolerances = np.geomspace(*bounds, max(self.n_rounds, 1))[: self.n_rounds]
        with self._watched() as callback:
            meter = Meter(callback, "filling", n_patches)
            atoms = None
            for number, tolerance in enumerate(tolerances):
                # Rows and columns before the offset keep their estimate in this round.
                part = tuple(slice(start, None) for start in self._offset(estimate.shape, number))
                tol = float(tolerance) ** 2 * self.patch_size**2 * estimate.shape[2]
                atoms = self._learn(self._draw(estimate, damaged.known, rng), tol, atoms, rng)
                self._improve(estimate[part], damaged.known[part], atoms, tol, meter)
        return damaged.restored(estimate)

    def _tolerance(self, scaled: Array, known: Mask, rng: np.random.Generator) -> tuple[float, float]:
        """Return the tolerance of the first and of the last round."""
        if not isinstance(self.tolerance, str):
            return float(self.tolerance[0]), float(self.tolerance[1])
        if self.n_rounds == 0:
            return LEAST_TOLERANCE, LEAST_TOLERANCE
        # Drawn from the known pixels only: the mask of a user may come from the same random numbers.
        places = np.flatnonzero(known.any(axis=2))
        chosen = np.zeros(known.shape[:2], np.bool_)
        chosen.flat[rng.choice(places, math.ceil(HIDDEN_SHARE * places.size), replace=False, shuffle=False)] = True
        hidden = chosen[:, :, None] & known
        errors = [np.zeros(0)]
        for channel in range(known.shape[2]):
            mine, rest = hidden[:, :, channel], (known & ~hidden)[:, :, channel]
            if rest.any():
                plane = scaled[:, :, channel]
                errors.append(fill_smoothly(plane, rest)[mine] - plane[mine])
        error = np.concatenate(errors)
        first = math.sqrt(np.mean(error**2)) * min(1.0, 2 * float(known.mean())) if error.size else 0
        first = max(first, LEAST_TOLERANCE)
        return first, first / 4

    def _offset(self, shape: tuple[int, ...], number: int) -> list[int]:
        """Return where the grid of patches begins in a round; a picture of the size of a patch has one position."""
        wanted = OFFSETS[number % len(OFFSETS)]
        return [min(start, room - self.patch_size) for start, room in zip(wanted, shape, strict=False)]

    def _count_patches(self, shape: tuple[int, ...], number: int) -> int:
        rest = [room - start for room, start in zip(shape, self._offset(shape, number), strict=False)]
        rows, columns = patch_grid(rest, self.patch_size, stride=STRIDE)
        return len(rows) * len(columns)

    def _improve(self, estimate: Array, known: Mask, atoms: Array, tol: float, meter: Meter) -> None:
        """Code all patches with missing pixels, and replace these pixels of the estimate."""
        side, n_channels = self.patch_size, estimate.shape[2]
        # One coder for all bands: its method may depend on the number of patches, and bands have fewer.
        n_patches = math.prod(map(len, patch_grid(estimate.shape, side, stride=STRIDE)))
        rule = CodingRule.checked(self.n_nonzero_coefs, tol, "omp")
        weights = np.array([1, ESTIMATE_WEIGHT])
        coder = make_coder(Recipe([atoms, atoms], weights, atoms.dtype, rule, n_patches, missing=True), Threads())
        assembly = Assembly(estimate.shape, (side, side, n_channels), stride=(STRIDE, STRIDE), dtype=np.float32)
        # Patches are held four times: as they are, as two views, and decoded.
        for band in patch_bands(estimate.shape, side, stride=STRIDE, max_bytes=max(1, self.max_bytes // 4)):
            patches = extract_patches(estimate[band], side, stride=STRIDE)
            is_known = extract_patches(known[band], side, stride=STRIDE).reshape(len(patches), -1)
            patch_weights = np.zeros(len(patches), np.float32)
            damaged = np.flatnonzero(~is_known.all(axis=1))
            if damaged.size:
                patches[damaged], patch_weights[damaged] = self._restore(
                    patches[damaged], is_known[damaged], atoms, coder
                )
            assembly.add(patches, band, weights=patch_weights[:, None, None, None])
            meter.advance(len(patches))
        better = np.clip(assembly.image(0), 0, 1)
        estimate[~known] = better[~known]

    def _restore(self, patches: Array, known: Mask, atoms: Array, coder: Coder) -> tuple[Array, Array]:
        """Code patches by known pixels and, less, by the estimate of the others; return them decoded, and weights.

        Patches with simple codes are more reliable. Those that do not reach the tolerance do no harm.
        """
        rows, means = centred(patches)
        views = [np.where(known, rows, np.float32(np.nan)), np.where(known, np.float32(np.nan), rows)]
        coded = encode(coder, Samples(views, rows.dtype, missing=True), Threads(count_jobs(self.n_jobs)))
        codes = coded.as_csr(coder.n_atoms)[0]
        decoded: Array = (codes @ atoms).reshape(patches.shape)
        decoded += means
        return decoded, (1 / (1 + np.diff(codes.indptr))).astype(np.float32)

    def _draw(self, estimate: Array, known: Mask, rng: np.random.Generator) -> Array:
        """Draw patches to learn from: complete ones if most are, else those with half the mean known pixels."""
        side = self.patch_size
        counts = _window_sums(known.sum(axis=2), side)
        whole = side * side * known.shape[2]
        places = np.flatnonzero(counts >= (whole if np.median(counts) == whole else counts.mean() / 2))
        if places.size > self.max_samples:
            places = np.sort(rng.choice(places, self.max_samples, replace=False, shuffle=False))
        rows, columns = np.unravel_index(places, counts.shape)
        windows = np.lib.stride_tricks.sliding_window_view(estimate, (side, side), axis=(0, 1))
        return centred(np.moveaxis(windows[rows, columns], 1, -1))[0]

    def _learn(self, rows: Array, tol: float, before: Array | None, rng: np.random.Generator) -> Array:
        """Return atoms learned from patches of the estimate, starting from those of the previous round."""
        learner = plain_learner(
            min(self.n_components, len(rows)) if before is None else len(before),
            n_nonzero_coefs=self.n_nonzero_coefs,
            tol=tol,
            max_iter=self.max_iter,
            init="samples" if before is None else [before],
            predictor="dictionary",
            n_jobs=self.n_jobs,
            random_state=rng,
        )
        fitted = fit_many([learner], [rows], self.n_jobs)[0]
        return np.asarray(fitted.components_[0], np.float32)


def centred(patches: Array) -> tuple[Array, Array]:
    """Return patches as rows, centred to mean 0 in each channel, and their means."""
    means = patches.mean(axis=(1, 2), keepdims=True)
    return (patches - means).reshape(len(patches), -1), means


def _window_sums(plane: npt.NDArray[Any], side: int) -> npt.NDArray[np.int64]:
    """Return the sums over all windows of this side."""
    sums = np.pad(plane.astype(np.int64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    return np.asarray(sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side], np.int64)
