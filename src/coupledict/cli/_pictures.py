"""Pictures as views: patches at the same positions of pictures of one name, and pictures assembled from patches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._app import MisuseError
from ._models import OpenedLearner
from ._views import ViewFiles

if TYPE_CHECKING:
    from ..foundation.progress import Callback

RANGE = 255.0  # pictures of any bit depth get the range of 8 bits, so that a tolerance means the same for all
SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")


def read_folders(
    folders: Sequence[Path],
    *,
    side: int,
    n_patches: int,
    colour: bool,
    centre: bool,
    seed: int,
    callback: Callback | None,
) -> ViewFiles:
    """Extract patches from the pictures of folders, one folder per view, paired by file name without suffix."""
    import numpy as np

    from ..foundation.progress import Meter

    named = [_pictures_of(folder) for folder in folders]
    common = sorted(set.intersection(*(set(files) for files in named)))
    if not common:
        raise ValueError(
            "Expected pictures of the same names in all folders, got none in "
            + " and ".join(f"'{folder}'" for folder in folders)
            + "."
        )
    shares = _shares(n_patches, len(common))
    rows: list[list[Any]] = [[] for _ in folders]
    meter = Meter(callback, "reading pictures", len(common))
    for number, (name, share) in enumerate(zip(common, shares, strict=True)):
        planes = [read_plane(files[name], colour=colour) for files in named]
        _check_pair(planes, [files[name] for files in named], side)
        for view, plane in zip(rows, planes, strict=True):
            view.append(_draw_patches(plane, side, share, seed + number, centre=centre))
        meter.advance()
    channels = (3,) if colour else ()
    shape = (side, side, *channels)
    made = {"centred": centre, "range": RANGE, "colour": colour, "n_pictures": len(common)}
    notes = _unpaired(folders, named, set(common))
    names = [folder.name or str(folder.resolve().name) for folder in folders]
    return ViewFiles([np.concatenate(view) for view in rows], names, [shape] * len(folders), made, notes)


def _pictures_of(folder: Path) -> dict[str, Path]:
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise FileNotFoundError(f"Expected pictures ({', '.join(SUFFIXES)}) in '{folder}', found none.")
    found: dict[str, Path] = {}
    for file in files:
        if file.stem in found:
            raise ValueError(f"Expected one picture of each name, got '{found[file.stem]}' and '{file.name}'.")
        found[file.stem] = file
    return found


def _unpaired(folders: Sequence[Path], named: list[dict[str, Path]], common: set[str]) -> list[str]:
    """Return one sentence for each folder with pictures that have no partner."""
    notes = []
    for folder, files in zip(folders, named, strict=True):
        alone = [file.name for name, file in files.items() if name not in common]
        if alone:
            more = f" and {len(alone) - 5} more" if len(alone) > 5 else ""
            notes.append(f"Left out pictures of {folder} without a partner: {', '.join(alone[:5])}{more}.")
    return notes


def _shares(total: int, count: int) -> list[int]:
    """Return the number of patches from each picture."""
    return [max(1, (total * (i + 1)) // count - (total * i) // count) for i in range(count)]


def read_plane(file: Path, *, colour: bool) -> Any:
    """Read a picture as float32 from 0 to 255: its luma, or red, green and blue."""
    import numpy as np

    from ..images._files import read_image
    from ..images._grey import luma

    pixels = read_image(file).pixels
    scale = RANGE / np.iinfo(pixels.dtype).max
    if not colour:
        return luma(pixels, scale)
    if pixels.ndim == 2:
        pixels = np.dstack([pixels] * 3)
    return pixels[..., :3].astype(np.float32) * np.float32(scale)


def _check_pair(planes: list[Any], files: list[Path], side: int) -> None:
    for plane, file in zip(planes, files, strict=True):
        if plane.shape != planes[0].shape:
            raise ValueError(
                f"Expected pictures of one size, got {planes[0].shape[1]} x {planes[0].shape[0]} pixels in"
                f" '{files[0]}' and {plane.shape[1]} x {plane.shape[0]} in '{file}'."
            )
        if min(plane.shape[:2]) < side:
            raise ValueError(
                f"Expected pictures no smaller than a patch, {side} x {side} pixels, got {plane.shape[1]} x"
                f" {plane.shape[0]} in '{file}'."
            )


def _draw_patches(plane: Any, side: int, n_patches: int, seed: int, *, centre: bool) -> Any:
    """Draw random patches as rows; the same seed draws the same positions."""
    from ..images import extract_patches

    room = (plane.shape[0] - side + 1) * (plane.shape[1] - side + 1)
    patches = extract_patches(plane, (side, side), max_patches=min(n_patches, room), random_state=seed)
    rows = patches.reshape(len(patches), -1)
    return rows - rows.mean(axis=1, keepdims=True) if centre else rows


def predict_picture(learner: OpenedLearner, files: Sequence[Path | None], view: int, callback: Callback | None) -> Any:
    """Predict a picture from others, averaging the predictions of overlapping patches."""
    import numpy as np

    from ..foundation.block_sizes import SIZES
    from ..foundation.progress import Meter
    from ..images import patch_bands
    from ..images._patches import Assembly

    shape = _patch_size(learner, len(files))
    given = [None if v == view or f is None else read_plane(f, colour=len(shape) == 3) for v, f in enumerate(files)]
    there = [(plane, file) for plane, file in zip(given, files, strict=True) if plane is not None and file is not None]
    if not there:
        raise MisuseError(f"Expected a picture of a view other than the one to predict ({view}), got none.")
    _check_pair([plane for plane, _ in there], [file for _, file in there], max(shape[:2]))
    first = there[0][0]
    assembly = Assembly(first.shape, shape, dtype=np.float32)
    meter, n_rows = Meter(callback, "predicting", first.shape[0]), 0
    for band in patch_bands(first.shape, shape[:2], max_bytes=SIZES.patch_bytes):
        planes = [None if plane is None else plane[band] for plane in given]
        predicted = _predict_patches(
            learner.estimator, planes, shape, view, centred=learner.made.get("centred") is True
        )
        assembly.add(predicted.reshape(-1, *shape), band)
        meter.advance(band.stop - n_rows)
        n_rows = band.stop
    return np.rint(np.clip(assembly.image(None), 0, RANGE)).astype(np.uint8)


def _patch_size(learner: OpenedLearner, n_views: int) -> tuple[int, ...]:
    """Return the size of the patches that a model was learned from; it is the same in all views."""
    sizes = learner.patch_sizes
    if isinstance(sizes, list) and len(sizes) == n_views and learner.made.get("range") == RANGE:
        first = sizes[0]
        if all(size == first for size in sizes) and isinstance(first, list) and len(first) in (2, 3):
            return tuple(int(side) for side in first)
    raise ValueError("Expected a model that 'coupledict learn' learned from folders of pictures, got another one.")


def _predict_patches(learner: Any, planes: list[Any], shape: tuple[int, ...], view: int, *, centred: bool) -> Any:
    """Predict all patches of one view from those of others; their means are those of the first given view."""
    from ..images import extract_patches

    patches_of_planes = [None if plane is None else extract_patches(plane, shape[:2]) for plane in planes]
    rows = [None if patches is None else patches.reshape(len(patches), -1) for patches in patches_of_planes]
    if not centred:
        return learner.predict(rows, view=view)
    means = [None if r is None else r.mean(axis=1, keepdims=True) for r in rows]
    rows = [None if r is None else r - mean for r, mean in zip(rows, means, strict=True)]
    return learner.predict(rows, view=view) + next(mean for mean in means if mean is not None)
