"""Where patches come from: the Lytro multi-focus pairs in a folder, or photographs that ship with scikit-image."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike
from scipy import ndimage

from ..foundation.arrays import Array

#: Photographs in the scikit-image wheel, which need no download.
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
#: Those whose rights scikit-image states. Shipped models learn only from these; see images/models/CREDITS.md.
STATED_RIGHTS = tuple(name for name in BUNDLED if name != "moon")

#: Regions of the Lytro pairs where one image is in focus and the other is not: pair, focused, blurred, row, column,
#: height, width. The authors of the paper trained on these.
FOCUSED_REGIONS = (
    ("07", "B", "A", 140, 3, 100, 152),
    ("09", "A", "B", 85, 55, 304, 187),
    ("12", "B", "A", 148, 300, 226, 216),
    ("13", "B", "A", 41, 121, 206, 353),
    ("17", "B", "A", 89, 343, 180, 168),
)

#: Parts of the images, sorted by name: settings can be chosen on one half, and reported on the other.
Half: TypeAlias = Literal["all", "first", "second"]

MISSING = (
    'Expected scikit-image and Pillow to be installed, to read images. Install them: pip install "coupledict[images]"'
)


def data_directory(given: str | None) -> Path | None:
    """Return the folder given by ``--data`` or else by ``COUPLEDICT_DATA``, or None."""
    name = given or os.environ.get("COUPLEDICT_DATA")
    return Path(name) if name else None


def load_images(directory: Path | None, *, half: Half = "all", colour: bool = False) -> tuple[list[Array], str]:
    """Load images on the scale 0-255, grey or in colour, and a sentence that describes them.

    Parameters
    ----------
    directory : Path or None
        Folder of the Lytro multi-focus pairs, or one with such a folder named ``lytro``; None takes bundled
        photographs.
    half : {"all", "first", "second"}
        All images, or half of them, in the order of their names. Both images of a pair are in the same half.
    colour : bool
        Load red, green and blue. Bundled photographs that are grey are left out.

    Returns
    -------
    images : list of ndarray of shape (height, width), or (height, width, 3) in colour, float32
    sentence : str
    """
    kind, part = "colour images" if colour else "images", _part(half)
    if directory is None:
        names = BUNDLED if half == "all" else take_half(BUNDLED, half)
        images = [bundled_image(name, colour=colour) for name in names]
        images = [image for image in images if image.ndim == (3 if colour else 2)]
        return images, (
            f"{kind.capitalize()}: {len(images)} photographs bundled with scikit-image{part} (neither --data nor"
            " COUPLEDICT_DATA is set)."
        )
    images = [_read(file, colour=colour) for file in _lytro_files(lytro_folder(directory), half)]
    return images, f"{kind.capitalize()}: the Lytro multi-focus set, {len(images)} images{part}."


def _lytro_files(folder: Path, half: Half) -> list[Path]:
    """Return the files of all pairs, or of half of the pairs."""
    files = sorted(folder.glob("lytro-*.jpg"))
    kept = take_half(sorted({file.stem[:-2] for file in files}), half)
    return [file for file in files if file.stem[:-2] in kept]


def take_half(names: Sequence[str], half: Half) -> list[str]:
    """Return all names or half of them, sorted."""
    names, middle = sorted(names), len(names) // 2
    return {"all": names, "first": names[:middle], "second": names[middle:]}[half]


def _part(half: Half) -> str:
    return "" if half == "all" else f", the {half} half by name"


def lytro_folder(directory: Path) -> Path:
    """Return the folder itself or its sub-folder ``lytro``, whichever holds the Lytro pairs."""
    for folder in (directory / "lytro", directory):
        if next(folder.glob("lytro-*.jpg"), None) is not None:
            return folder
    raise FileNotFoundError(
        f"Expected the Lytro pairs (lytro-01-A.jpg and so on) in '{directory}' or its folder 'lytro', found none; "
        "correct --data or COUPLEDICT_DATA, or leave both unset to use the bundled photographs."
    )


def load_pairs(
    directory: Path | None, *, sigma: float = 2.0, half: Half = "all"
) -> tuple[list[Array], list[Array], str]:
    """Load regions in focus and the same regions out of focus, on the scale 0-255, and a sentence that describes them.

    Parameters
    ----------
    directory : Path or None
        As in :func:`load_images`; None takes bundled photographs and blurs them with a Gaussian of width `sigma`.
    half : {"all", "first", "second"}
        All regions, or those that lie in the images of this half.

    Returns
    -------
    focused, blurred : list of ndarray of shape (height, width), float32
    sentence : str
    """
    if directory is None:
        images, _ = load_images(None, half=half)
        soft = [ndimage.gaussian_filter(image, sigma) for image in images]
        sentence = f"Pairs: bundled photographs{_part(half)}, and copies blurred by a Gaussian of width {sigma:g}: "
        return images, soft, sentence + "not real pairs."
    folder = lytro_folder(directory)
    kept = _lytro_files(folder, half)
    focused: list[Array] = []
    blurred: list[Array] = []
    for pair, sharp, blunt, row, column, height, width in FOCUSED_REGIONS:
        files = [folder / f"lytro-{pair}-{side}.jpg" for side in (sharp, blunt)]
        if half != "all" and files[0] not in kept:
            continue
        region = slice(row, row + height), slice(column, column + width)
        for regions, file in zip((focused, blurred), files, strict=True):
            regions.append(_read(file)[region])
    sentence = f"Pairs: {len(focused)} focused and blurred regions of the Lytro multi-focus set{_part(half)}."
    return focused, blurred, sentence


def _read(file: Path, *, colour: bool = False) -> Array:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(MISSING) from error
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB" if colour else "L"), dtype=np.float32)


def bundled_image(name: str, *, colour: bool = False) -> Array:
    """Load a photograph that ships with scikit-image on the scale 0-255, grey, or in colour if it has any."""
    try:
        import skimage.color
        import skimage.data
    except ImportError as error:
        raise ImportError(MISSING) from error
    image = getattr(skimage.data, name)()
    if image.ndim == 3 and not colour:
        image = 255.0 * skimage.color.rgb2gray(image)
    return np.asarray(image, dtype=np.float32)


def distinct_patches(
    sets: Sequence[list[Array]], n_patches: int, *, side: int = 8, seed: int = 0, dtype: DTypeLike = np.float64
) -> tuple[Array, ...]:
    """Extract mean-centred patches at the same random positions of sets of images of equal sizes.

    Patches of colour images hold their channels one after the other, and have one mean.

    Every position of every image is equally likely, and no position is drawn twice, so that the patches can be split
    into training and held-out ones (which may overlap).

    Returns
    -------
    patches : tuple of ndarray of shape (n_patches, side * side), or (n_patches, 3 * side * side) in colour
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
    """Extract mean-centred square patches at positions (number of the image, row, column)."""
    n_channels = 1 if images[0].ndim == 2 else images[0].shape[2]
    patches = np.empty((len(which), n_channels * side * side), dtype=dtype)
    for number, image in enumerate(images):
        (mine,) = np.nonzero(which == number)
        windows = np.lib.stride_tricks.sliding_window_view(image, (side, side), axis=(0, 1))
        patches[mine] = windows[rows[mine], columns[mine]].reshape(len(mine), -1)
    patches -= patches.mean(axis=1, keepdims=True)
    return patches
