"""``coupledict widen``: wide-band speech from narrow-band speech."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..foundation.warning import warn
from ._app import Result, command
from ._options import Force, ModelOption, SaveModel, Threads, check_training, jobs
from ._progress import progress_bar

if TYPE_CHECKING:
    from ..audio import WidenedFile
    from ..foundation.progress import Callback


class Kind(StrEnum):
    """Bands that an input may have."""

    narrow = "narrow"
    telephone = "telephone"


@command(
    "Wide-band speech from narrow-band speech.",
    "coupledict widen telephone.wav -o wide.wav",
    "coupledict widen interview.mp3 -o wide.flac --band narrow --strength 0.5",
    "coupledict widen telephone.wav -o wide.flac --train speech/ --save-model mine.safetensors",
)
def widen(
    source: Annotated[Path, typer.Argument(metavar="SOUND", help="Sound file with speech, sampled at 8 kHz or more.")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Sound to write, at 16 kHz or the rate of the input (.wav, .flac, .ogg)."),
    ],
    band: Annotated[
        Kind | None,
        typer.Option(help="Band of the input, up to 4 or 3.4 kHz; measured by default.", show_default=False),
    ] = None,
    strength: Annotated[
        float | None,
        typer.Option(
            help="Strength of the high band: 0.5 as predicted, 1 with the energy of speech; by default weak, 0.2.",
            min=0.0,
            max=1.0,
            show_default=False,
        ),
    ] = None,
    model: ModelOption = None,
    train: Annotated[
        Path | None,
        typer.Option(help="Folder of wide-band speech (16 kHz or more) to learn a model from.", metavar="DIR"),
    ] = None,
    save_model: SaveModel = None,
    threads: Threads = None,
    force: Force = False,
) -> Result:
    """Restore the high band of narrow-band speech, by dictionaries of both bands.

    A sound that already has a high band is written unchanged, with a warning.
    """
    from ..audio._files import check_output, check_source

    check_output(output, force=force)
    check_training(model, train, save_model, force=force)
    check_source(source, output)
    with progress_bar() as callback:
        widener = _widener(model, train, save_model, callback, jobs(threads), force=force)
        widener.set_params(n_jobs=jobs(threads), callback=callback)
        if strength is not None:
            widener.set_params(strength=strength)
        done = widener.extend_file(source, output, band=None if band is None else band.value, force=force)
    lines = [str(done)]
    if save_model is not None:
        lines.append(f"Wrote {save_model}; use it with --model.")
    if done.n_clipped:
        warn(
            f"{done.n_clipped} samples were too loud for the file and were clipped; make {source} quieter first.",
        )
    kept = {} if save_model is None else {"model": str(save_model)}
    return Result({**_facts(done), **kept}, lines)


def _facts(done: WidenedFile) -> dict[str, Any]:
    """Return the results, for machines."""
    return {
        "output": done.target,
        "widened": done.widened,
        "band": {"low": done.band.low, "high": done.band.high, "kind": done.band.kind},
        "input_rate": done.sampling_rate,
        "output_rate": done.output_rate,
        "channels": done.n_channels,
        "samples": done.n_samples,
        "samples_cut": done.n_clipped,
    }


def _widener(
    model: Path | None,
    train: Path | None,
    save_model: Path | None,
    callback: Callback | None,
    n_jobs: int,
    *,
    force: bool,
) -> Any:
    """Return the model to use: read from a file, learned, or shipped."""
    from ..audio import BandwidthExtension
    from ..estimators.saving import save_with

    if model is not None:
        return BandwidthExtension.load(model)
    if train is None:
        return BandwidthExtension.pretrained()
    widener = BandwidthExtension(n_jobs=n_jobs, random_state=0, callback=callback)
    widener.fit(_training_signals(train))
    if save_model is not None:
        save_with(widener, save_model, replace=force)
    return widener


def _training_signals(folder: Path) -> list[Any]:
    from ..audio import measure_band
    from ..audio._files import READABLE, read_wide
    from ..audio._frames import RATE

    if not folder.is_dir():
        raise FileNotFoundError(f"Expected a folder of speech to learn from, found none at '{folder}'.")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in READABLE)
    if not files:
        raise FileNotFoundError(f"Expected sound files ({', '.join(READABLE)}) in '{folder}', found none.")
    signals = [read_wide(file) for file in files]
    n_narrow = sum(measure_band(signal, RATE).kind in ("narrow", "telephone") for signal in signals)
    if n_narrow:
        warn(
            f"{n_narrow} of {len(files)} files in '{folder}' seem to have nothing above 4 kHz; a model learned from"
            " such files gives a weak high band. Leave them out.",
        )
    return signals
