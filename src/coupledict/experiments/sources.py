"""Where patches come from: the Lytro multi-focus pairs in a folder, or photographs that ship with scikit-image."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike
from scipy import ndimage

from ..foundation.arrays import Array

#: Photographs inside the scikit-image wheel: none of them is downloaded.
BUNDLED = (
    "camera",
    "coins",
    "moon",
    "brick",
    "grass",
    "gravel",
    "astronaut",
    "chelsea",
    "coffee",
    "rocket",
)

#: Regions of the Lytro pairs where one image is in focus and the other is not: pair, focused, blurred, row, column,
#: height, width. The authors of the paper trained on these.
FOCUSED_REGIONS = (
    ("07", "B", "A", 140, 3, 100, 152),
    ("09", "A", "B", 85, 55, 304, 187),
    ("12", "B", "A", 148, 300, 226, 216),
    ("13", "B", "A", 41, 121, 206, 353),
    ("17", "B", "A", 89, 343, 180, 168),
)

MISSING = (
    'Expected scikit-image and Pillow to be installed, to read images. Install them: pip install "coupledict[images]"'
)


def data_directory(given: str | None) -> Path | None:
    """Return the folder of ``--data``, else of ``COUPLEDICT_DATA``, else None."""
    name = given or os.environ.get("COUPLEDICT_DATA")
    return Path(name) if name else None


def load_images(directory: Path | None) -> tuple[list[Array], str]:
    """Load grey images on the scale 0-255, and a sentence that describes them.

    Parameters
    ----------
    directory : Path or None
        Folder of the Lytro multi-focus pairs, or one with such a folder named ``lytro``; None takes bundled
        photographs.

    Returns
    -------
    images : list of ndarray of shape (height, width), float32
    sentence : str
    """
    if directory is None:
        return [bundled_image(name) for name in BUNDLED], (
            f"Images: {len(BUNDLED)} photographs bundled with scikit-image (neither --data nor COUPLEDICT_DATA is set)."
        )
    files = sorted(lytro_folder(directory).glob("lytro-*.jpg"))
    return [_grey(file) for file in files], f"Images: the Lytro multi-focus set, {len(files)} images."


def lytro_folder(directory: Path) -> Path:
    """Return the folder itself or its sub-folder ``lytro``, whichever holds the Lytro pairs."""
    for folder in (directory / "lytro", directory):
        if next(folder.glob("lytro-*.jpg"), None) is not None:
            return folder
    raise FileNotFoundError(
        f"Expected the Lytro pairs (lytro-01-A.jpg and so on) in '{directory}' or its folder 'lytro', found none; "
        "correct --data or COUPLEDICT_DATA, or leave both unset to use the bundled photographs."
    )


def load_pairs(directory: Path | None, *, sigma: float = 2.0) -> tuple[list[Array], list[Array], str]:
    """Load regions in focus and the same regions out of focus, on the scale 0-255, and a sentence that describes them.

    Parameters
    ----------
    directory : Path or None
        As in :func:`load_images`; None takes bundled photographs and blurs them with a Gaussian of width `sigma`.

    Returns
    -------
    focused, blurred : list of ndarray of shape (height, width), float32
    sentence : str
    """
    if directory is None:
        images = [bundled_image(name) for name in BUNDLED]
        soft = [ndimage.gaussian_filter(image, sigma) for image in images]
        sentence = f"Pairs: bundled photographs and copies blurred by a Gaussian of width {sigma:g}: not real pairs."
        return images, soft, sentence
    folder = lytro_folder(directory)
    focused, blurred = [], []
    for pair, sharp, blunt, row, column, height, width in FOCUSED_REGIONS:
        region = slice(row, row + height), slice(column, column + width)
        focused.append(_grey(folder / f"lytro-{pair}-{sharp}.jpg")[region])
        blurred.append(_grey(folder / f"lytro-{pair}-{blunt}.jpg")[region])
    return focused, blurred, f"Pairs: {len(focused)} focused and blurred regions of the Lytro multi-focus set."


def _grey(file: Path) -> Array:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(MISSING) from error
    with Image.open(file) as image:
        return np.asarray(image.convert("L"), dtype=np.float32)


def bundled_image(name: str) -> Array:
    """Load a photograph that ships with scikit-image, grey, on the scale 0-255."""
    try:
        import skimage.color
        import skimage.data
    except ImportError as error:
        raise ImportError(MISSING) from error
    image = getattr(skimage.data, name)()
    if image.ndim == 3:
        image = 255.0 * skimage.color.rgb2gray(image)
    return np.asarray(image, dtype=np.float32)


def distinct_patches(
    sets: Sequence[list[Array]], n_patches: int, *, side: int = 8, seed: int = 0, dtype: DTypeLike = np.float64
) -> tuple[Array, ...]:
    """Cut patches at the same random positions from sets of images of equal sizes, each patch mean-centred.

    Every position of every image is equally likely, and no position comes twice, so that the patches can be
    divided into some to learn from and some that were never seen (they may overlap).

    Returns
    -------
    patches : tuple of ndarray of shape (n_patches, side * side)
        One for each set.
    """
    rng = np.random.default_rng(seed)
    room = np.array([(image.shape[0] - side + 1, image.shape[1] - side + 1) for image in sets[0]])
    count = room.prod(axis=1)
    ends = np.cumsum(count)
    places = rng.choice(int(ends[-1]), size=n_patches, replace=False)
    which = np.searchsorted(ends, places, side="right")
    rows, columns = np.divmod(places - (ends - count)[which], room[which, 1])
    return tuple(cut_patches(images, which, rows, columns, side, dtype) for images in sets)


def cut_patches(images: list[Array], which: Array, rows: Array, columns: Array, side: int, dtype: DTypeLike) -> Array:
    """Cut square patches at positions (number of the image, row, column), each mean-centred."""
    patches = np.empty((len(which), side * side), dtype=dtype)
    for number, image in enumerate(images):
        (mine,) = np.nonzero(which == number)
        windows = np.lib.stride_tricks.sliding_window_view(image, (side, side))
        patches[mine] = windows[rows[mine], columns[mine]].reshape(len(mine), side * side)
    patches -= patches.mean(axis=1, keepdims=True)
    return patches
