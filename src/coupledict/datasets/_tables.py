"""Views of the tables that ship with scikit-learn: nothing is downloaded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer, load_digits

from ..foundation.arrays import Array
from ._results import MultiviewDataset, check_float_dtype, description, vector_shapes

INK = 4.0  # pixel value, of 0 to 16, from which a pixel counts as ink


def load_digit_views(*, dtype: npt.DTypeLike = np.float64) -> MultiviewDataset:
    """Load 1,797 handwritten digits, each described in four ways.

    The digits are those of :func:`sklearn.datasets.load_digits`, 8 x 8 pixels. The views are ``pixels``, ``fourier``
    (40 magnitudes of the Fourier transform, which are invariant to circular shifts), ``projections`` (46 sums along
    rows, columns and both diagonals) and ``profiles`` (32 distances from the four sides to the first pixel with ink).

    Parameters
    ----------
    dtype : {float64, float32}, default=float64
        Number type of the views.

    Returns
    -------
    MultiviewDataset
        With four views, and the digits as `target`.

    Examples
    --------
    >>> from coupledict.datasets import load_digit_views
    >>> data = load_digit_views()
    >>> [view.shape for view in data.views.values()]
    [(1797, 64), (1797, 40), (1797, 46), (1797, 32)]
    >>> data.target[:5].tolist()
    [0, 1, 2, 3, 4]
    """
    number_type = check_float_dtype(dtype)
    digits = load_digits()
    pictures = np.asarray(digits.images, np.float64)
    made = {
        "pixels": pictures,
        "fourier": np.abs(np.fft.rfft2(pictures)),
        "projections": _projections(pictures),
        "profiles": _profiles(pictures),
    }
    views = {name: view.reshape(len(pictures), -1).astype(number_type) for name, view in made.items()}
    shapes = {**vector_shapes(views), "pixels": (8, 8), "fourier": (8, 5), "profiles": (4, 8)}
    text = description(
        "1,797 handwritten digits of 43 writers in four views: pixels, magnitudes of the Fourier transform,"
        " projections and profiles, all computed from the pixels.",
        "From the Optical Recognition of Handwritten Digits data of E. Alpaydin and C. Kaynak, UCI Machine Learning"
        " Repository (CC BY 4.0), as bundled with scikit-learn.",
    )
    return MultiviewDataset(views, text, shapes, np.asarray(digits.target), [str(digit) for digit in range(10)])


def _projections(pictures: Array) -> Array:
    """Return sums along columns, rows and both diagonals."""
    side = pictures.shape[1]
    turned = pictures[:, :, ::-1]
    diagonals = [
        shown.trace(offset, axis1=1, axis2=2) for shown in (pictures, turned) for offset in range(1 - side, side)
    ]
    return np.hstack([pictures.sum(axis=1), pictures.sum(axis=2), np.stack(diagonals, axis=1)])


def _profiles(pictures: Array) -> Array:
    """Return the distances from the left, the right, the top and the bottom to the first pixel with ink."""
    written = pictures >= INK
    sides = (written, written[:, :, ::-1], written.transpose(0, 2, 1), written.transpose(0, 2, 1)[:, :, ::-1])
    return np.stack([np.where(side.any(axis=2), side.argmax(axis=2), side.shape[2]) for side in sides], axis=1)


def load_breast_cancer_views(*, dtype: npt.DTypeLike = np.float64) -> MultiviewDataset:
    """Load 569 samples of breast tissue, each measured in three ways.

    The data are those of :func:`sklearn.datasets.load_breast_cancer`. Ten properties of the cell nuclei in a picture
    (radius, texture, ...) were measured; the views hold the ``mean`` over all nuclei, its standard ``error``, and the
    mean of the three ``worst``. Features have very different scales: scale them before learning.

    Parameters
    ----------
    dtype : {float64, float32}, default=float64
        Number type of the views.

    Returns
    -------
    MultiviewDataset
        With three views of ten features each, and malignant (0) or benign (1) as `target`.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from coupledict import CoupledDictionaryLearning
    >>> from coupledict.datasets import load_breast_cancer_views
    >>> from coupledict.views import EachView
    >>> data = load_breast_cancer_views()
    >>> scaled = EachView(StandardScaler()).fit_transform(data.views)
    >>> learner = CoupledDictionaryLearning(20, n_nonzero_coefs=3, random_state=0).fit(scaled)
    >>> learner.components_["worst"].shape
    (20, 10)
    """
    number_type = check_float_dtype(dtype)
    table = load_breast_cancer()
    kinds = ("mean", "error", "worst")  # the order of the thirty columns
    columns = {kind: slice(10 * place, 10 * (place + 1)) for place, kind in enumerate(kinds)}
    views = {kind: np.ascontiguousarray(table.data[:, part], dtype=number_type) for kind, part in columns.items()}
    text = description(
        "569 samples of breast tissue: ten properties of cell nuclei, as their mean, the error of the mean, and the"
        " mean of the three worst.",
        "From the Breast Cancer Wisconsin (Diagnostic) data of W. Wolberg, O. Mangasarian, N. Street and W. Street,"
        " UCI Machine Learning Repository (CC BY 4.0), as bundled with scikit-learn.",
    )
    names = {kind: [str(name) for name in table.feature_names[part]] for kind, part in columns.items()}
    return MultiviewDataset(
        views, text, vector_shapes(views), np.asarray(table.target), [str(name) for name in table.target_names], names
    )
