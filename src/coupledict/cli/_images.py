"""``coupledict upscale`` and ``fill``: larger and restored pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._app import MisuseError, Result, command
from ._options import Force, ModelOption, Picture, Quality, SaveModel, Seed, Threads, check_training, jobs
from ._progress import progress_bar

if TYPE_CHECKING:
    from ..foundation.progress import Callback

TRAINING_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")


@command(
    "Enlarge a picture 2, 3 or 4 times.",
    "coupledict upscale small.png -o large.png",
    "coupledict upscale small.png -o large.png --scale 3 --best",
    "coupledict upscale small.png -o large.png --degradation noise=10",
    "coupledict upscale small.png -o large.png --train photographs/ --save-model mine.safetensors",
)
def upscale(
    image: Annotated[Path, typer.Argument(metavar="PICTURE", help="Picture to enlarge.")],
    output: Picture,
    scale: Annotated[int, typer.Option(help="How many times as wide and as high: 2, 3 or 4.", min=2, max=4)] = 2,
    model: ModelOption = None,
    train: Annotated[
        Path | None, typer.Option(help="Folder of sharp pictures to learn a model from.", metavar="DIR")
    ] = None,
    save_model: SaveModel = None,
    coupled: Annotated[
        bool, typer.Option("--coupled", help="With --train: learn coupled dictionaries instead of anchored regressors.")
    ] = False,
    best: Annotated[bool, typer.Option("--best", help="Use three anchors a patch: slightly better, slower.")] = False,
    degradation: Annotated[
        str,
        typer.Option(
            help="Degradation of the picture, which is repaired first: auto (estimated from its pixels), none, noise=10"
            " (in grey levels of 255), jpeg=75 (quality), or noise=10,jpeg=75."
        ),
    ] = "auto",
    quality: Quality = 95,
    threads: Threads = None,
    force: Force = False,
) -> Result:
    """Enlarge a picture by dictionaries of small and large patches, after removing noise and JPEG artefacts."""
    from ..images import SuperResolution
    from ..images._files import Picture as Pixels
    from ..images._files import check_output, check_pixels, read_image, warn_of_lost_profile, write_image

    check_output(output, force=force)
    check_training(model, train, save_model, force=force)
    if coupled and train is None:
        raise MisuseError("Expected --coupled only with --train: a learned model already has its method.")
    if coupled and best:
        raise MisuseError("Expected --best without --coupled: it needs anchored regressors.")
    degradations = _degradation(degradation)
    picture = read_image(image)
    warn_of_lost_profile(picture, image)
    check_pixels(scale * picture.pixels.shape[0], scale * picture.pixels.shape[1])
    with progress_bar() as callback:
        enlarger = _enlarger(
            scale, model, train, save_model, coupled=coupled, callback=callback, n_jobs=jobs(threads), force=force
        )
        enlarger.set_params(ensemble=best or enlarger.ensemble, n_jobs=jobs(threads), callback=callback)
        found = SuperResolution.find_degradation(picture.pixels) if degradations is None else degradations
        enlarger.set_params(degradation=found.text())
        pixels = enlarger.upscale(picture.pixels)
    write_image(output, Pixels(pixels, picture.profile), force=force, quality=quality)
    kept = {} if save_model is None else {"model": str(save_model)}
    return Result(
        {"output": str(output), **_size(pixels), "degradation": found.text(), **kept},
        ([f"Found {found}{' and mended it' if found else ''}."] if degradations is None else [])
        + [f"Wrote {output}: {pixels.shape[1]} x {pixels.shape[0]} pixels."]
        + ([] if save_model is None else [f"Wrote {save_model}; use it with --model."]),
    )


def _degradation(text: str) -> Any:
    """Return the degradation that --degradation gives, or None if it is to be estimated."""
    from ..images._sr_degradation import parse

    try:
        return parse(text)
    except ValueError as error:
        raise MisuseError(str(error).replace("Expected degradation to be", "Expected --degradation to be")) from error


def _enlarger(
    scale: int,
    model: Path | None,
    train: Path | None,
    save_model: Path | None,
    *,
    coupled: bool,
    callback: Callback | None,
    n_jobs: int,
    force: bool,
) -> Any:
    """Return the model to use: read from a file, learned, or shipped."""
    from ..estimators.saving import save_with
    from ..images import SuperResolution

    if model is not None:
        enlarger = SuperResolution.load(model)
        if enlarger.scale != scale:
            raise ValueError(f"Expected --scale {enlarger.scale}, which '{model}' was made for, got {scale}.")
        return enlarger
    if train is None:
        return SuperResolution.pretrained(scale)
    enlarger = SuperResolution(
        scale, method="coupled" if coupled else "anchored", n_jobs=n_jobs, random_state=0, callback=callback
    )
    enlarger.fit(_training_pictures(train))
    if save_model is not None:
        save_with(enlarger, save_model, replace=force)
    return enlarger


@command(
    "Restore missing pixels of a picture.",
    "coupledict fill damaged.png --mask mask.png -o whole.png",
    "coupledict fill with-transparent-holes.png -o whole.png",
)
def fill(
    image: Annotated[Path, typer.Argument(metavar="PICTURE", help="Picture with missing pixels.")],
    output: Picture,
    mask: Annotated[
        Path | None,
        typer.Option(
            help="Picture of the same size, white where pixels are missing, black elsewhere. By default, transparent"
            " pixels are missing."
        ),
    ] = None,
    seed: Seed = 0,
    quality: Quality = 95,
    threads: Threads = None,
    force: Force = False,
) -> Result:
    """Restore missing pixels (scratches, text, random losses) by dictionaries learned from the picture itself.

    Known pixels are not changed. Holes much larger than 8 pixels are filled smoothly, because their content is unknown.
    """
    import numpy as np

    from ..images import Inpainting
    from ..images._files import Picture as Pixels
    from ..images._files import check_output, read_image, warn_of_lost_profile, write_image

    check_output(output, force=force)
    picture = read_image(image)
    warn_of_lost_profile(picture, image)
    missing = _transparent(picture.pixels, image) if mask is None else _read_mask(mask, picture.pixels, image)
    with progress_bar() as callback:
        task = Inpainting(n_jobs=jobs(threads), random_state=seed, callback=callback)
        whole = task.fill(picture.pixels if picture.pixels.ndim == 2 else picture.pixels[..., :3], missing)
    if picture.pixels.shape[2:] == (4,):
        alpha = picture.pixels[..., 3].copy()
        if mask is None:
            alpha[missing] = np.iinfo(alpha.dtype).max
        whole = np.dstack([whole, alpha])
    write_image(output, Pixels(whole, picture.profile, picture.exif), force=force, quality=quality)
    share = float(missing.mean())
    return Result(
        {"output": str(output), **_size(whole), "filled": int(missing.sum()), "share": share},
        [f"Filled {int(missing.sum()):,} pixels, {share:.1%} of the picture.", f"Wrote {output}."],
    )


def _transparent(pixels: Any, file: Path) -> Any:
    """Return which pixels are fully transparent."""
    missing = pixels[..., 3] == 0 if pixels.shape[2:] == (4,) else None
    if missing is None or not missing.any():
        raise MisuseError(
            f"Expected --mask, a picture that is white where pixels are missing, or transparent pixels in '{file}', got"
            " neither."
        )
    return missing


def _read_mask(file: Path, pixels: Any, image: Path) -> Any:
    """Return the missing pixels of a mask: those brighter than mid-grey, because JPEG blurs the edges."""
    import numpy as np

    from ..images._files import read_image
    from ..images._grey import luma

    mask = read_image(file).pixels
    if mask.shape[:2] != pixels.shape[:2]:
        raise ValueError(
            f"Expected a mask of the size of '{image}', {pixels.shape[1]} x {pixels.shape[0]} pixels, got"
            f" {mask.shape[1]} x {mask.shape[0]} in '{file}'."
        )
    missing = luma(mask[..., :3] if mask.ndim == 3 else mask, 1 / np.iinfo(mask.dtype).max) > 0.5
    if not missing.any() or missing.all():
        raise ValueError(
            f"Expected '{file}' to be white where pixels are missing and black where they are known, got"
            f" {'only white' if missing.all() else 'no white'} pixels."
        )
    return missing


def _size(pixels: Any) -> dict[str, int]:
    return {"width": int(pixels.shape[1]), "height": int(pixels.shape[0])}


def _training_pictures(folder: Path) -> list[Any]:
    from ..images._files import read_image

    if not folder.is_dir():
        raise FileNotFoundError(f"Expected a folder of pictures to learn from, found none at '{folder}'.")
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in TRAINING_SUFFIXES)
    if not files:
        raise FileNotFoundError(f"Expected pictures ({', '.join(TRAINING_SUFFIXES)}) in '{folder}', found none.")
    return [read_image(file).pixels for file in files]
