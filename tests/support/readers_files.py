"""Files that a reader of a page brings: small ones of their kind, under the names that the page uses."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import soundfile
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage import data

from coupledict.audio import narrow_band
from support.pages import Block
from support.voices import resampled, voice

SIZE = slice(100, 180), slice(200, 300)


def picture(focus: int | None = None) -> np.ndarray:
    """Return a small photograph; in focus in its first or second half only if `focus` is 0 or 1."""
    sharp = data.coffee()[SIZE]
    half = (np.arange(sharp.shape[1]) < sharp.shape[1] // 2) == (focus == 0)
    return sharp if focus is None else np.where(half[:, None], sharp, gaussian_filter(sharp, (2, 2, 0)))


def write_picture(path: Path, pixels: np.ndarray) -> None:
    """Write a picture, and its folder."""
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.fromarray(pixels).save(path)


def write_stack(folder: Path) -> None:
    """Write a focus stack of two pictures."""
    for number in (0, 1):
        write_picture(folder / f"img{number}.tif", picture(number))


def write_rows(path: Path, with_gaps: bool = False) -> None:
    """Write an array of samples, some of whose entries may be missing."""
    rng = np.random.default_rng(0)
    rows = abs(rng.standard_normal((400, 12)).cumsum(axis=1))
    np.save(path, np.where(rng.random(rows.shape) < 0.1, np.nan, rows) if with_gaps else rows)


def write_voices(folder: Path) -> None:
    """Write wide-band speech of three speakers."""
    folder.mkdir()
    for seed in range(3):
        soundfile.write(folder / f"{seed}.wav", voice(seed, 2.5), 16_000)


def write_mask(path: Path) -> None:
    """Write which pixels are missing: one in five."""
    lost = np.random.default_rng(0).random(picture().shape[:2]) < 0.2
    write_picture(path, (255 * lost).astype(np.uint8))


def narrow_speech(path: Path) -> None:
    """Write speech of a band of 4 kHz."""
    soundfile.write(path, narrow_band(voice(9, 1.0)), 8_000)


MAKERS = {
    "near.jpg": lambda path: write_picture(path, picture(0)),
    "far.jpg": lambda path: write_picture(path, picture(1)),
    "small.png": lambda path: write_picture(path, picture()),
    "small.jpg": lambda path: write_picture(path, picture()),
    "soft.png": lambda path: write_picture(path, gaussian_filter(picture(), (1.5, 1.5, 0))),
    "damaged.png": lambda path: write_picture(path, picture()),
    "mask.png": write_mask,
    "source.png": lambda path: write_picture(path, data.immunohistochemistry()[:128, :128]),
    "target.png": lambda path: write_picture(path, data.immunohistochemistry()[128:256, :128]),
    "stack/": write_stack,
    "stacks/": lambda folder: [write_stack(folder / name) for name in ("fly", "moss")],
    "sharp/": lambda folder: write_picture(folder / "1.png", picture()),
    "blurred/": lambda folder: write_picture(folder / "1.png", gaussian_filter(picture(), (1.5, 1.5, 0))),
    "left.npy": lambda path: write_rows(path, with_gaps=True),
    "right.npy": lambda path: write_rows(path, with_gaps=True),
    "spectra.npy": write_rows,
    "narrow.wav": narrow_speech,
    "telephone.wav": narrow_speech,
    "interview.wav": lambda path: soundfile.write(path, resampled(narrow_band(voice(9, 1.0)), 8_000, 48_000), 48_000),
    "voices/": write_voices,
}


def bring(block: Block) -> Block:
    """Make the files that a block names and that are not there yet."""
    for name, make in MAKERS.items():
        if re.search(rf"(?<![\w/]){re.escape(name)}", block.text) and not Path(name).exists():
            make(Path(name))
    return block
