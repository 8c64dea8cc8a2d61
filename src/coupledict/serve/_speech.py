"""The speech task of the page: a high band for narrow-band recordings, to hear, to see and to save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..audio import Band, BandwidthExtension, output_rate
from ..audio._files import (
    MAX_SAMPLES_VARIABLE,
    Reader,
    _soundfile,
    check_format,
    max_samples,
    open_source,
    write_blocks,
)
from ..audio._frames import Floats
from ..audio._measurement import measure_blocks
from ..audio._rates import resample, resampled_length
from ..audio._signals import check_blocks
from ..audio._widening import GIVEN, is_extended
from ..foundation.packages import broken_package
from ..foundation.progress import Meter
from ..images._files import Picture
from . import _samples
from ._jobs import READING, SENT, WRITING, Job, Phase
from ._spectra import draw_spectra
from ._uploads import Form, Limits, Upload

LISTENED = "listening"
MEASURED, SURVEYED, WIDENED, WRITTEN = 0.04, 0.07, 0.85, 0.97  # finished shares of a job after each step
SEEN_NAME, ADDING = "Measuring the band", "Adding the high band"
#: Formats that are offered, by their names on the page.
OFFERED = {"WAV": ".wav", "FLAC": ".flac"}
MOST_CHANNELS, HIGHEST_RATE = 2, 48_000  # of the sound to play; browsers cannot play everything


@dataclass(frozen=True)
class Sound:
    """The properties of a sound file; samples are those of one channel."""

    rate: int
    n_channels: int
    n_samples: int
    band: Band

    def describe(self) -> dict[str, Any]:
        """Return it as JSON, for the page."""
        band = {"kind": self.band.kind, "low": self.band.low, "high": self.band.high}
        return {
            "rate": self.rate,
            "channels": self.n_channels,
            "seconds": self.n_samples / self.rate,
            "band": band,
        }


def widen(job: Job, form: Form, limits: Limits) -> dict[str, Any]:
    """Widen the uploaded sound. If it already has a high band, nothing is added, and the page says so."""
    job.report(READING)
    band, strength = _requested_band(form), _requested_strength(form)
    uploads = form.files or _samples.telephone_call(job.folder / SENT)
    if len(uploads) != 1:
        raise ValueError(f"Expected one recording at a time, got {len(uploads)}.")
    (upload,) = uploads
    sound = _inspect(job, upload, band)
    if not sound.n_samples:
        raise ValueError(f"Expected a recording with sound in it, got none in '{upload.name}'.")
    shown = {
        "note": "" if form.files else _samples.VOICE_NOTE,
        "source": sound.describe() | {"label": upload.name, "measured": band is None},
    }
    before = partial(_listen, job, upload.path, "before.wav")
    if not is_extended(sound.band):
        before(Phase(WRITING, MEASURED, WRITTEN))
        return shown | {"widened": False, "before": "before.wav"}
    phases = {"measuring": Phase(SEEN_NAME, MEASURED, SURVEYED), "widening": Phase(ADDING, SURVEYED, WIDENED)}
    widener = BandwidthExtension.pretrained(n_jobs=-1, callback=job.watch(phases)).set_params(strength=strength)
    done = widener.extend_file(upload.path, job.folder / "widened.wav", band=sound.band)
    middle = 0.5 * (WIDENED + WRITTEN)
    before(Phase(WRITING, WIDENED, middle))
    _listen(job, job.folder / "widened.wav", "after.wav", Phase(WRITING, middle, WRITTEN))
    return shown | {
        "widened": True,
        "before": "before.wav",
        "after": "after.wav",
        "spectra": _draw(job),
        "result": {
            "rate": done.output_rate,
            "format": "FLAC" if upload.name.lower().endswith(".flac") and done.n_channels <= 8 else "WAV",
            "formats": _offer(job, done.output_rate, done.n_channels, f"{upload.stem}-wide"),
        },
        "strength": strength,
        "clipped": done.n_clipped,
    }


def missing_for_speech() -> str | None:
    """Return a sentence about what is missing to widen speech; None if nothing is."""
    try:
        _soundfile()
        max_samples()
    except (ImportError, ValueError) as error:
        return str(error)
    except OSError as error:  # the package is installed, but the library that it wraps is not
        return str(broken_package(error, "soundfile", "audio"))
    return None


def _requested_band(form: Form) -> str | None:
    """Return the band given in the form; None if it is to be measured."""
    band_name = form.options.get("band", "auto")
    if band_name != "auto" and band_name not in GIVEN:
        raise ValueError(f"Expected a band of auto, {' or '.join(GIVEN)}, got {band_name!r}.")
    return None if band_name == "auto" else band_name


def _requested_strength(form: Form) -> float:
    text = form.options.get("strength", "0.2")
    try:
        strength = float(text)
    except ValueError:
        strength = -1.0
    if not 0 <= strength <= 1:
        raise ValueError(f"Expected a strength from 0 to 1, got {text!r}.")
    return strength


def _inspect(job: Job, upload: Upload, band_name: str | None) -> Sound:
    """Count the samples of a file, and measure its band unless it is given; raise if it is too long."""
    with open_source(upload.path) as reader:
        rate, n_channels = reader.rate, reader.n_channels
        check_format("widened.wav", output_rate(rate), n_channels)
        _check_length(upload, reader.n_samples or 0, rate, n_channels)
        meter = Meter(job.watch({SEEN_NAME: Phase(SEEN_NAME, 0, MEASURED)}), SEEN_NAME, reader.n_samples)
        count = 0

        def blocks() -> Iterator[Floats]:
            nonlocal count
            for block in check_blocks(reader.blocks()):
                count += len(block)
                _check_length(upload, count, rate, n_channels)
                meter.advance(len(block))
                yield block

        if band_name is None:
            band = measure_blocks(blocks(), rate)
        else:
            low, high, kind = GIVEN[band_name]
            band = Band(low, high, rate, kind)
            for _ in blocks():
                pass
    return Sound(rate, n_channels, count, band)


def _check_length(upload: Upload, n_samples: int, rate: int, n_channels: int) -> None:
    """Raise for a sound that is too long, now or at the rate of the result."""
    n_made = n_channels * resampled_length(n_samples, rate, output_rate(rate))
    if n_made > max_samples():
        raise ValueError(
            f"Expected at most {max_samples() / 1e6:g} million samples over all channels, but '{upload.name}' widened"
            f" would have {n_made / 1e6:.1f} or more; choose a shorter recording, or start the page with a larger"
            f" {MAX_SAMPLES_VARIABLE} in its environment."
        )


def _listen(job: Job, source: Path, name: str, phase: Phase) -> None:
    """Write a sound as browsers can play it: 16 bits, at most two channels and 48 kHz."""
    with Reader(source, streamed=True) as reader:
        rate = min(reader.rate, HIGHEST_RATE)
        n_channels = reader.n_channels if reader.n_channels <= MOST_CHANNELS else 1
        meter = Meter(job.watch({LISTENED: phase}), LISTENED, reader.n_samples)
        blocks = _counted(reader.blocks(), meter)
        if n_channels != reader.n_channels:
            blocks = (block.mean(axis=1, keepdims=True) for block in blocks)
        write_blocks(job.folder / name, resample(blocks, reader.rate, rate), rate, n_channels, "PCM_16")


def _counted(blocks: Iterable[Floats], meter: Meter) -> Iterator[Floats]:
    for block in blocks:
        meter.advance(len(block))
        yield block


def _draw(job: Job) -> list[dict[str, Any]]:
    """Keep pictures of the spectra before and after."""
    job.report(WRITING, WRITTEN)
    drawn = draw_spectra(job.folder / "before.wav", job.folder / "after.wav")
    kept = []
    for name, pixels in zip(("Before", "After"), drawn, strict=True):
        picture = job.pictures.keep(f"spectrum-{name.lower()}", Picture(pixels))
        job.files.make(picture["view"])
        kept.append(picture | {"label": name})
    return kept


def _offer(job: Job, rate: int, n_channels: int, download: str) -> list[dict[str, str]]:
    """Offer the result in all formats that can hold it; all but WAV are written on request."""
    offered = []
    for kind, suffix in OFFERED.items():
        try:
            check_format(f"widened{suffix}", rate, n_channels)
        except ValueError:
            continue
        job.files.offer(f"widened{suffix}", partial(_convert, job.folder / "widened.wav"))
        offered.append({"format": kind, "file": f"widened{suffix}", "name": download + suffix})
    return offered


def _convert(source: Path, target: Path) -> None:
    """Write a sound in another format, with the same samples if the format can hold them."""
    with Reader(source, streamed=True) as reader:
        write_blocks(target, reader.blocks(), reader.rate, reader.n_channels, reader.subtype, reader.n_samples)
