"""Options that several commands share, each defined once, and the checks of outputs that belong to them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._app import MisuseError

MODEL_SUFFIX = ".safetensors"

Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Threads = Annotated[int | None, typer.Option(help="Threads, by default all cores. Changes speed only.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers; the same seed gives the same result.", min=0)]
Quality = Annotated[int, typer.Option(help="Quality of .jpg and .webp files.", min=1, max=100)]
Picture = Annotated[Path, typer.Option("-o", "--output", help="Picture to write (.png, .jpg, .tif, .webp, .bmp).")]
ModelOption = Annotated[Path | None, typer.Option(help="Model to use instead of the shipped one.")]
SaveModel = Annotated[Path | None, typer.Option(help="File to save the model that --train learned.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by 'coupledict learn'.")]
Missing = Annotated[bool, typer.Option("--missing", help="Treat NaN in the arrays as a missing entry.")]
PatchSize = Annotated[
    str | None,
    typer.Option(
        "--patch",
        metavar="SIZE",
        help="Size of the atoms: 8, 8x8 or 8x8x3 for patches, 'curve' for signals. By default, the size noted in the"
        " model, or squares if they fit.",
    ),
]


def check_new_file(path: Path, *, force: bool) -> Path:
    """Return the path of a file to write; raise, before the work begins, if it cannot be written."""
    from ..files.whole import check_output  # imports NumPy, for which --help must not wait

    return check_output(path, force=force)


def check_new_model(path: Path, *, force: bool) -> Path:
    """Return the path of a model to write; raise if it has another suffix or cannot be written."""
    if path.suffix not in ("", MODEL_SUFFIX):
        raise MisuseError(f"Expected the name of a model to end in {MODEL_SUFFIX}, got '{path}'.")
    return check_new_file(path, force=force)


def check_training(model: Path | None, train: Path | None, save_model: Path | None, *, force: bool) -> None:
    """Refuse contradictory options about models."""
    if model is not None and train is not None:
        raise MisuseError("Expected --model or --train, got both; a model needs no training.")
    if save_model is not None and train is None:
        raise MisuseError("Expected --save-model only with --train; without it, there is nothing to save.")
    if save_model is not None:
        check_new_model(save_model, force=force)


def parse_patch(text: str | None) -> tuple[int, ...] | None:
    """Return the size that --patch names; () stands for curves."""
    if text is None:
        return None
    if text == "curve":
        return ()
    try:
        sides = tuple(int(side) for side in text.lower().split("x"))
    except ValueError:
        sides = ()
    if not 1 <= len(sides) <= 3 or min(sides) < 1 or (len(sides) == 3 and sides[2] != 3):
        raise MisuseError(f"Expected --patch to be a side like 8, a size like 8x8 or 8x8x3, or 'curve', got {text!r}.")
    return sides * 2 if len(sides) == 1 else sides


def jobs(threads: int | None) -> int:
    """Return the number of threads as estimators take it."""
    return threads or -1
