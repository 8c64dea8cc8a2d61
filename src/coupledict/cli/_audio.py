"""``coupledict widen``: wide-band speech from narrow-band speech."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._app import Result, command
from ._options import Force, ModelOption, SaveModel, Threads, check_training, jobs
from ._progress import progress_bar

if TYPE_CHECKING:
    from ..foundation.progress import Callback


@command(
    "Wide-band speech from narrow-band speech.",
    "coupledict widen telephone.wav wide.wav",
    "coupledict widen telephone.wav wide.flac --train speech/ --save-model mine.safetensors",
)
def widen(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Sound file of narrow-band speech, at 8 kHz.")],
    output: Annotated[Path, typer.Argument(help="Sound file to write, at 16 kHz (.wav, .flac, .ogg).")],
    model: ModelOption = None,
    train: Annotated[
        Path | None, typer.Option(help="Folder of wide-band speech (16 kHz) to learn from instead.", metavar="DIR")
    ] = None,
    save_model: SaveModel = None,
    threads: Threads = None,
    force: Force = False,
) -> Result:
    """Give narrow-band speech the high band that it lost, by dictionaries of both bands."""
    from ..audio._files import check_output, check_source

    check_output(output, force=force)
    check_training(model, train, save_model, force=force)
    check_source(source)
    with progress_bar() as told:
        widener = _widener(model, train, save_model, told, jobs(threads))
        widener.set_params(n_jobs=jobs(threads), callback=told)
        n_cut = widener.extend_file(source, output, force=force)
    lines = [f"Wrote {output}."]
    if save_model is not None:
        lines.append(f"Wrote {save_model}; use it with --model.")
    if n_cut:
        warnings.warn(
            f"{n_cut} samples were too loud for the file and were cut; make {source} quieter first.", stacklevel=1
        )
    kept = {} if save_model is None else {"model": str(save_model)}
    return Result({"output": str(output), "samples_cut": n_cut, **kept}, lines)


def _widener(
    model: Path | None, train: Path | None, save_model: Path | None, callback: Callback | None, n_jobs: int
) -> Any:
    """Return the extension that was asked for: read, learned, or the one that ships."""
    from ..audio import BandwidthExtension

    if model is not None:
        return BandwidthExtension.load(model)
    if train is None:
        return BandwidthExtension.pretrained()
    widener = BandwidthExtension(n_jobs=n_jobs, random_state=0, callback=callback)
    widener.fit(_training_signals(train))
    if save_model is not None:
        widener.save(save_model)
    return widener


def _training_signals(folder: Path) -> list[Any]:
    from ..audio._files import READABLE, read_wide

    if not folder.is_dir():
        raise FileNotFoundError(f"Expected a folder of speech to learn from, found none at '{folder}'.")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in READABLE)
    if not files:
        raise FileNotFoundError(f"Expected sound files ({', '.join(READABLE)}) in '{folder}', found none.")
    return [read_wide(file) for file in files]
