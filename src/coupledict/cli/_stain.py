"""``coupledict stain``: stain normalization of histological pictures, and pictures of their stains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._app import MisuseError, Result, command
from ._options import Force, Picture, Quality, Threads, check_new_model, jobs
from ._progress import progress_bar

if TYPE_CHECKING:
    from ..images import StainSeparator

STAINS = ("hematoxylin", "eosin")


@command(
    "Give a stained tissue the look of another picture.",
    "coupledict stain source.png --target target.png -o normal.png",
    "coupledict stain source.png --target target.png -o normal.png --save-model look.safetensors",
    "coupledict stain source.png --model look.safetensors -o normal.png --densities source",
)
def stain(
    image: Annotated[
        Path, typer.Argument(metavar="PICTURE", help="Picture of tissue stained with hematoxylin and eosin.")
    ],
    output: Picture,
    target: Annotated[Path | None, typer.Option(help="Picture whose look to apply.")] = None,
    model: Annotated[Path | None, typer.Option(help="Look saved by --save-model, instead of --target.")] = None,
    save_model: Annotated[Path | None, typer.Option(help="File to save the look of --target.")] = None,
    densities: Annotated[
        Path | None,
        typer.Option(
            metavar="PREFIX",
            help="Also write two grey pictures, PREFIX-hematoxylin.png and PREFIX-eosin.png, of the density of each"
            " stain, from black for none to white for the 99th percentile and above.",
        ),
    ] = None,
    quality: Quality = 95,
    threads: Threads = None,
    force: Force = False,
) -> Result:
    """Give a picture of stained tissue the look of another: its stain colours, and how strong they are.

    Stains are learned from both pictures, hematoxylin first. The structures of the tissue do not change.
    """
    from ..estimators.saving import save_with
    from ..images import StainSeparator
    from ..images._files import Picture as Pixels
    from ..images._files import check_output, read_image, warn_of_lost_profile, write_image

    if (target is None) == (model is None):
        raise MisuseError("Expected exactly one of --target, a picture, and --model, a saved look.")
    if save_model is not None and target is None:
        raise MisuseError("Expected --save-model only with --target; without it, there is nothing to save.")
    maps = [] if densities is None else [densities.with_name(f"{densities.name}-{name}.png") for name in STAINS]
    for file in (output, *maps):
        check_output(file, force=force)
    if save_model is not None:
        check_new_model(save_model, force=force)
    if output.resolve() in [file.resolve() for file in maps]:
        raise MisuseError(f"Expected different files for the picture and its densities, got '{output}' for both.")
    picture = read_image(image)
    warn_of_lost_profile(picture, image)
    with progress_bar() as callback:
        settings: dict[str, Any] = {"n_jobs": jobs(threads), "callback": callback}
        target_stains = _read_stains(model, settings) if target is None else _fit(StainSeparator(**settings), target)
        source_stains = _learn(StainSeparator(**target_stains.get_params() | settings), picture.pixels, image)
        normal = target_stains.normalize(picture.pixels, source=source_stains)
        found = source_stains.transform(picture.pixels) if maps else None
    if save_model is not None:
        save_with(target_stains.set_params(callback=None, n_jobs=None), save_model, replace=force)
    for number, file in enumerate(maps):
        write_image(file, Pixels(_grey(found, source_stains.max_density_, number)), force=force)
    write_image(output, Pixels(normal, picture.profile), force=force, quality=quality)
    kept = {} if save_model is None else {"model": str(save_model)}
    size = {"width": int(normal.shape[1]), "height": int(normal.shape[0])}
    lines = [
        f"{title}: {_describe(stains)}" for title, stains in (("Source", source_stains), ("Target", target_stains))
    ]
    lines.append(f"Wrote {', '.join(str(file) for file in (output, *maps))}.")
    lines += [] if save_model is None else [f"Wrote {save_model}; use it with --model."]
    stain_facts = {"source": _facts(source_stains), "target": _facts(target_stains)}
    return Result(
        {"output": str(output), **size, "densities": [str(file) for file in maps], **stain_facts, **kept},
        lines,
    )


def _fit(separator: StainSeparator, file: Path) -> StainSeparator:
    from ..images._files import read_image

    return _learn(separator, read_image(file).pixels, file)


def _learn(separator: StainSeparator, pixels: Any, file: Path) -> StainSeparator:
    """Learn the stains of a picture; errors name its file, and give no advice about parameters."""
    try:
        return separator.fit(pixels)
    except ValueError as error:
        sentence, advice, _ = str(error).partition("Use a picture with more tissue")
        raise ValueError(f"'{file}': {sentence}{advice and advice + '.'}") from error


def _read_stains(file: Path | None, settings: dict[str, Any]) -> StainSeparator:
    from ..images import StainSeparator

    target_stains: StainSeparator = StainSeparator.load(file or "").set_params(**settings)
    if target_stains.n_stains != len(STAINS):
        raise ValueError(f"Expected a model of {len(STAINS)} stains in '{file}', got {target_stains.n_stains}.")
    return target_stains


def _grey(found: Any, most: Any, number: int) -> Any:
    """Return the densities of a stain as a grey picture."""
    import numpy as np

    scale = 255 / most[number] if most[number] > 0 else 0.0
    return np.rint(np.clip(found[:, :, number] * scale, 0, 255)).astype(np.uint8)


def _facts(stains: StainSeparator) -> dict[str, Any]:
    return {
        "stains": [[round(float(part), 6) for part in colour] for colour in stains.stain_matrix_],
        "white": [round(float(part), 6) for part in stains.white_],
        "max_density": [round(float(part), 6) for part in stains.max_density_],
    }


def _describe(stains: StainSeparator) -> str:
    colours = (
        f"{name} ({', '.join(f'{part:.2f}' for part in colour)})"
        for name, colour in zip(STAINS, stains.stain_matrix_, strict=True)
    )
    return f"{', '.join(colours)}, background ({', '.join(f'{255 * part:.0f}' for part in stains.white_)})"
