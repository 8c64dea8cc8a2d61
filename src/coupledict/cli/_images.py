"""``coupledict fuse`` and ``upscale``: sharp pictures from a focus stack, larger pictures from small ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..images._files import Picture, check_output, read_image, write_image
from ._app import app

Output = Annotated[Path, typer.Option("-o", "--output", help="Picture to write (.png, .jpg, .tif, .webp, .bmp).")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Threads = Annotated[int | None, typer.Option(help="Threads; all cores if left out.", min=1)]
Quality = Annotated[int, typer.Option(help="Quality of .jpg and .webp files.", min=1, max=100)]
TRAINING_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")


@app.command()
def fuse(
    images: Annotated[list[Path], typer.Argument(help="Two or more pictures of one scene, focused differently.")],
    output: Output,
    map_: Annotated[
        Path | None, typer.Option("--map", help="Picture of which source each pixel is from, from black to white.")
    ] = None,
    register: Annotated[
        bool, typer.Option("--register", help="Align the pictures first: small shifts and changes of scale.")
    ] = False,
    quality: Quality = 95,
    threads: Threads = None,
    force: Force = False,
) -> None:
    """Fuse pictures of one scene that are focused differently into one that is sharp everywhere."""
    from ..images import MultiFocusFusion

    check_output(output, force=force)
    if map_ is not None:
        check_output(map_, force=force)
        if map_.resolve() == output.resolve():
            raise ValueError(f"Expected different files for the picture and its map, got '{output}' for both.")
    if len(images) < 2:
        raise ValueError(f"Expected two or more pictures to fuse, got {len(images)}.")
    pictures = [read_image(path) for path in images]
    first = pictures[0].pixels
    for path, picture in zip(images, pictures, strict=True):
        if picture.pixels.shape != first.shape or picture.pixels.dtype != first.dtype:
            raise ValueError(
                f"Expected pictures of one size and kind, got {_describe(first)} in '{images[0]}' and"
                f" {_describe(picture.pixels)} in '{path}'."
            )
    fused = MultiFocusFusion(register=register, n_jobs=threads or -1).fuse([picture.pixels for picture in pictures])
    if map_ is not None:
        levels = np.rint(np.linspace(0, 255, len(images))).astype(np.uint8)
        write_image(map_, Picture(levels[fused.decision]), force=force)
    write_image(output, Picture(fused.image, pictures[0].profile), force=force, quality=quality)
    shares = np.bincount(fused.decision.ravel(), minlength=len(images)) / fused.decision.size
    for path, share in zip(images, shares, strict=True):
        typer.echo(f"{share:6.1%} of the pixels are from {path}")
    typer.echo(f"Wrote {output}" + (f" and {map_}." if map_ is not None else "."))


@app.command()
def upscale(
    image: Annotated[Path, typer.Argument(help="Picture to enlarge.")],
    output: Output,
    scale: Annotated[int, typer.Option(help="How many times as wide and as high: 2, 3 or 4.")] = 2,
    model: Annotated[Path | None, typer.Option(help="Model to use instead of the one that ships.")] = None,
    train: Annotated[
        Path | None, typer.Option(help="Folder of sharp pictures to learn from instead.", metavar="DIR")
    ] = None,
    save_model: Annotated[Path | None, typer.Option(help="Where to keep what --train learned.")] = None,
    coupled: Annotated[
        bool, typer.Option("--coupled", help="With --train: learn coupled dictionaries instead of anchored regressors.")
    ] = False,
    best: Annotated[bool, typer.Option("--best", help="Let anchors work together: a little better, slower.")] = False,
    quality: Quality = 95,
    threads: Threads = None,
    force: Force = False,
) -> None:
    """Enlarge a picture by dictionaries of small and large patches."""
    from ..images import SuperResolution

    check_output(output, force=force)
    if model is not None and train is not None:
        raise ValueError("Expected --model or --train, got both; a model is learned already.")
    if coupled and train is None:
        raise ValueError("Expected --coupled together with --train: models that are learned already have their method.")
    if coupled and best:
        raise ValueError("Expected --best without --coupled: it is for anchored regressors.")
    if save_model is not None and train is None:
        raise ValueError("Expected --save-model together with --train; there is nothing else to keep.")
    if save_model is not None and save_model.exists() and not force:
        raise FileExistsError(f"'{save_model}' exists already; give another name, or --force to replace it.")
    picture = read_image(image)
    if model is not None:
        enlarger = SuperResolution.load(model)
        if enlarger.scale != scale:
            raise ValueError(f"Expected --scale {enlarger.scale}, which '{model}' was made for, got {scale}.")
    elif train is not None:
        enlarger = SuperResolution(
            scale, method="coupled" if coupled else "anchored", n_jobs=threads or -1, random_state=0, verbose=1
        )
        enlarger.fit(_training_pictures(train))
        if save_model is not None:
            enlarger.save(save_model)
    else:
        enlarger = SuperResolution.pretrained(scale)
    enlarger.set_params(ensemble=best, n_jobs=threads or -1, verbose=1)
    pixels = enlarger.upscale(picture.pixels)
    write_image(output, Picture(pixels, picture.profile), force=force, quality=quality)
    typer.echo(f"Wrote {output}: {pixels.shape[1]} x {pixels.shape[0]} pixels.")


def _describe(pixels: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    kind = {2: "grey"}.get(pixels.ndim) or {3: "colour", 4: "colour with alpha"}[pixels.shape[2]]
    return f"{pixels.shape[1]} x {pixels.shape[0]} pixels of {8 * pixels.itemsize}-bit {kind}"


def _training_pictures(folder: Path) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    if not folder.is_dir():
        raise FileNotFoundError(f"Expected a folder of pictures to learn from, found none at '{folder}'.")
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in TRAINING_SUFFIXES)
    if not files:
        raise FileNotFoundError(f"Expected pictures ({', '.join(TRAINING_SUFFIXES)}) in '{folder}', found none.")
    return [read_image(file).pixels for file in files]
