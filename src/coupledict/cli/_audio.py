"""``coupledict widen``: wide-band speech from narrow-band speech."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ._app import app


@app.command()
def widen(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Sound file of narrow-band speech, at 8 kHz.")],
    output: Annotated[Path, typer.Argument(help="Sound file to write, at 16 kHz (.wav, .flac, .ogg).")],
    model: Annotated[Path | None, typer.Option(help="Model to use instead of the one that ships.")] = None,
    train: Annotated[
        Path | None, typer.Option(help="Folder of wide-band speech (16 kHz) to learn from instead.", metavar="DIR")
    ] = None,
    save_model: Annotated[Path | None, typer.Option(help="Where to keep what --train learned.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads; all cores if left out.", min=1)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Give narrow-band speech the high band that it lost, by dictionaries of both bands."""
    from ..audio import BandwidthExtension
    from ..audio._files import check_output, check_source

    check_output(output, force=force)
    if model is not None and train is not None:
        raise ValueError("Expected --model or --train, got both; a model is learned already.")
    if save_model is not None and train is None:
        raise ValueError("Expected --save-model together with --train; there is nothing else to keep.")
    if save_model is not None and save_model.exists() and not force:
        raise FileExistsError(f"'{save_model}' exists already; give another name, or --force to replace it.")
    check_source(source)
    if model is not None:
        widener = BandwidthExtension.load(model)
    elif train is not None:
        widener = BandwidthExtension(n_jobs=threads or -1, random_state=0, verbose=1)
        widener.fit(_training_signals(train))
        if save_model is not None:
            widener.save(save_model)
    else:
        widener = BandwidthExtension.pretrained()
    widener.set_params(n_jobs=threads or -1, verbose=1)
    n_cut = widener.extend_file(source, output, force=force)
    if n_cut:
        typer.echo(f"{n_cut} samples were too loud for the file and were cut; make {source} quieter first.", err=True)
    typer.echo(f"Wrote {output}.")


def _training_signals(folder: Path) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    from ..audio._files import READABLE, read_wide

    if not folder.is_dir():
        raise FileNotFoundError(f"Expected a folder of speech to learn from, found none at '{folder}'.")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in READABLE)
    if not files:
        raise FileNotFoundError(f"Expected sound files ({', '.join(READABLE)}) in '{folder}', found none.")
    return [read_wide(file) for file in files]
