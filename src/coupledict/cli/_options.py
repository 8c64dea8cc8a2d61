"""Options that several commands share, each told once; and the checks of outputs that go with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ._app import MisuseError

Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Threads = Annotated[int | None, typer.Option(help="Threads; all cores if left out. Changes speed only.", min=1)]
Seed = Annotated[int, typer.Option(help="Source of everything random; the same number, the same result.", min=0)]
Quality = Annotated[int, typer.Option(help="Quality of .jpg and .webp files.", min=1, max=100)]
Picture = Annotated[Path, typer.Option("-o", "--output", help="Picture to write (.png, .jpg, .tif, .webp, .bmp).")]
ModelOption = Annotated[Path | None, typer.Option(help="Model to use instead of the one that ships.")]
SaveModel = Annotated[Path | None, typer.Option(help="Where to keep what --train learned.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, as 'coupledict learn' writes it.")]
PatchShape = Annotated[
    str | None,
    typer.Option(
        "--patch",
        metavar="SHAPE",
        help="Shape of the atoms: 8, 8x8 or 8x8x3 for patches, 'curve' for signals. What the model tells, or squares"
        " where they fit, if left out.",
    ),
]


def check_new_file(path: Path, *, force: bool) -> Path:
    """Say before the work begins whether a file can be written to a path."""
    if path.is_dir():
        raise IsADirectoryError(f"Expected an output file, got the folder '{path}'.")
    if path.exists() and not force:
        raise FileExistsError(f"'{path}' exists already; give another name, or --force to replace it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Expected the folder '{path.parent}' for the output to exist; make it first.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"Expected the folder '{path.parent}' to be writable; choose another.")
    return path


def check_training(model: Path | None, train: Path | None, save_model: Path | None, *, force: bool) -> None:
    """Refuse options about models that do not fit each other."""
    if model is not None and train is not None:
        raise MisuseError("Expected --model or --train, got both; a model is learned already.")
    if save_model is not None and train is None:
        raise MisuseError("Expected --save-model together with --train; there is nothing else to keep.")
    if save_model is not None:
        check_new_file(save_model, force=force)


def parse_patch(text: str | None) -> tuple[int, ...] | None:
    """Return the shape that --patch names; () stands for curves."""
    if text is None:
        return None
    if text == "curve":
        return ()
    try:
        sides = tuple(int(side) for side in text.lower().split("x"))
    except ValueError:
        sides = ()
    if not 1 <= len(sides) <= 3 or min(sides) < 1 or (len(sides) == 3 and sides[2] != 3):
        raise MisuseError(f"Expected --patch to be a side like 8, a shape like 8x8 or 8x8x3, or 'curve', got {text!r}.")
    return sides * 2 if len(sides) == 1 else sides


def jobs(threads: int | None) -> int:
    """Return the number of threads as estimators take it."""
    return threads or -1
