"""Rebuild the bandwidth-extension model that comes with the package.

Run ``python tools/train_bandwidth.py --data DIR`` from the root of the project, where DIR (else COUPLEDICT_DATA) holds
a folder ``speech`` of wide-band sound files, or is one. The model that ships learned from utterances of the CMU Arctic
databases (free for any purpose), three recordings of LibriSpeech (CC BY 4.0) and spoken digits of AudioMNIST (MIT);
docs/audio.md gives the credits.
It takes less than a minute.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from coupledict.audio import BandwidthExtension
from coupledict.audio._files import READABLE, read_wide
from coupledict.experiments.sources import data_directory

MODEL = Path(__file__).parents[1] / "src" / "coupledict" / "audio" / "models" / "bandwidth.safetensors"


def main() -> None:
    """Train and write the model."""
    parser = argparse.ArgumentParser(description="Rebuild the bandwidth-extension model that comes with the package.")
    parser.add_argument("--data", metavar="DIR", help="folder of wide-band speech (else COUPLEDICT_DATA)")
    parser.add_argument("--output", type=Path, default=MODEL, help="file of the model (%(default)s)")
    arguments = parser.parse_args()
    folder = data_directory(arguments.data)
    if folder is None:
        parser.error("expected --data or COUPLEDICT_DATA: no speech comes with the package")
    folder = folder / "speech" if (folder / "speech").is_dir() else folder
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in READABLE)
    if not files:
        parser.error(f"expected sound files in '{folder}', found none")
    began = time.perf_counter()
    model = BandwidthExtension(n_jobs=-1, random_state=0).fit([read_wide(file) for file in files])
    model.set_params(n_jobs=None)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    model._to_state(half=True).write(arguments.output)
    seconds, size = time.perf_counter() - began, arguments.output.stat().st_size
    frames = ", ".join(f"{part.n_samples:,} frames ({kind})" for kind, part in model.models_.items())
    print(f"{len(files)} files, {frames}, {size / 1e6:.2f} MB, {seconds:.1f} s")


if __name__ == "__main__":
    main()
