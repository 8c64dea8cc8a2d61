"""Damaged images and sounds of all formats: each is read as a picture or a sound, or refused with one sentence.

The limits on pixels and samples are set low, so that the claims of a damaged header show in the memory of the process.
Some headers are damaged on purpose where decoders trust them: sizes in PNG with a valid checksum, numbers in TIFF
directories, lengths of chunks in WAV.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import struct
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import tifffile
from model_files import TooSlowError, cut, flip, late, splice
from PIL import Image

from coupledict.audio._files import MAX_SAMPLES_VARIABLE, Reader
from coupledict.images._files import MAX_PIXELS_VARIABLE, read_image

SECONDS = 5
LIMIT = 1_000_000  # pixels, or samples
MOST_MEGABYTES = 256  # that the process may grow by
LENGTHS = [0, 1, 2, 255, 65535, 2**16, 30_000, 100_000, 2**24, 2**31 - 1, 2**31, 2**32 - 1]


def chunk(kind: bytes, contents: bytes) -> bytes:
    """Return a chunk of a PNG file."""
    return len(contents).to_bytes(4, "big") + kind + contents + zlib.crc32(kind + contents).to_bytes(4, "big")


def png_that_claims(width: int, height: int, *, depth: int = 8, colour: int = 0, data: bytes = b"") -> bytes:
    """Return a PNG file of a few bytes, whatever size it claims."""
    about = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [chunk(b"IHDR", about), chunk(b"IDAT", data or zlib.compress(bytes(1000))), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def make_images() -> dict[str, bytes]:
    """Return a small file of every kind of image that is read, and of some that are not."""
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (14, 17), np.uint8)
    colour = rng.integers(0, 256, (14, 17, 3), np.uint8)
    alpha = rng.integers(0, 256, (14, 17, 4), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    files: dict[str, bytes] = {}

    def pillow(name: str, image: Any, format: str, **options: Any) -> None:
        out = io.BytesIO()
        image.save(out, format, **options)
        files[name] = out.getvalue()

    rgb, frames = Image.fromarray(colour), [Image.fromarray(255 - grey)]
    pillow("grey.png", Image.fromarray(grey), "PNG", icc_profile=b"no profile")
    pillow("colour.png", rgb, "PNG", exif=exif)
    pillow("alpha.png", Image.fromarray(alpha), "PNG")
    pillow("palette.png", rgb.quantize(8), "PNG", transparency=bytes(range(8)))
    pillow("bits.png", Image.fromarray(grey).convert("1"), "PNG")
    pillow("deep.png", Image.fromarray(grey.astype(np.uint16) * 257), "PNG")
    pillow("moving.png", Image.fromarray(grey), "PNG", save_all=True, append_images=frames)
    pillow("colour.jpg", rgb, "JPEG", exif=exif)
    pillow("grey.jpg", Image.fromarray(grey), "JPEG", progressive=True)
    pillow("four.jpg", rgb.convert("CMYK"), "JPEG")
    pillow("lossy.webp", rgb, "WEBP", exif=exif)
    pillow("exact.webp", Image.fromarray(alpha), "WEBP", lossless=True)
    pillow("moving.webp", rgb, "WEBP", save_all=True, append_images=[rgb.rotate(90)])
    pillow("colour.bmp", rgb, "BMP")
    pillow("palette.bmp", rgb.quantize(8), "BMP")
    pillow("still.gif", rgb.quantize(8), "GIF")
    pillow("moving.gif", Image.fromarray(grey), "GIF", save_all=True, append_images=frames)
    pillow("colour.ppm", rgb, "PPM")
    pillow("lzw.tif", rgb, "TIFF", compression="tiff_lzw")
    pillow("fax.tif", Image.fromarray(grey).convert("1"), "TIFF", compression="group4")
    pillow("palette.tif", rgb.quantize(8), "TIFF")
    pillow("jpeg.tif", rgb, "TIFF", compression="jpeg")
    pillow("pages.tif", rgb, "TIFF", save_all=True, append_images=frames)
    for name, pixels, options in [
        ("plain", grey, {}),
        ("zlib", colour, {"compression": "zlib"}),
        ("tiles", alpha, {"tile": (16, 16), "extrasamples": ["unassalpha"], "compression": "zlib"}),
        ("deep", colour.astype(np.uint16) * 257, {"compression": "zlib", "predictor": True}),
        ("planes", colour.transpose(2, 0, 1), {"planarconfig": "separate"}),
        ("float", grey.astype(np.float32), {}),
        ("big", grey, {"bigtiff": True}),
    ]:
        out = io.BytesIO()
        kind: Any = {"photometric": "rgb" if pixels.ndim == 3 else "minisblack", **options}
        tifffile.imwrite(out, pixels, metadata=None, **kind)
        files[f"{name}.tif"] = out.getvalue()
    return files | _deep_images(colour.astype(np.uint16) * 257)


def _deep_images(colour: np.ndarray[Any, np.dtype[np.uint16]]) -> dict[str, bytes]:
    """Return files of 16 bits that others than Pillow and tifffile read."""
    import cv2
    import pillow_heif

    files = {"deepcolour.png": cv2.imencode(".png", colour)[1].tobytes()}
    files["deeplzw.tif"] = cv2.imencode(".tif", colour, [cv2.IMWRITE_TIFF_COMPRESSION, 5])[1].tobytes()
    for name, mode, pixels in [
        ("shallow.heic", "RGB", (colour >> 8).astype(np.uint8)),
        ("deep.heic", "RGB;16", colour),
    ]:
        out = io.BytesIO()
        height, width = pixels.shape[:2]
        pillow_heif.from_bytes(mode=mode, size=(width, height), data=pixels.tobytes()).save(out)
        files[name] = out.getvalue()
    files["raw.dng"] = raw_image(colour[..., 0])
    return files


def raw_image(
    mosaic: np.ndarray[Any, np.dtype[np.uint16]], *, orientation: int = 1, more: tuple[Any, ...] = ()
) -> bytes:
    """Return a raw file (DNG) of 16 bits, with the red pixels first and the neutral grey of a camera."""
    matrix = [7034, -804, -1014, -4420, 12564, 2058, -851, 1994, 5758]  # from XYZ to a camera, in units of 1 / 10,000
    tags = [
        (271, "s", 0, "Maker", True),
        (272, "s", 0, "Model", True),
        (274, "H", 1, orientation, True),
        (33421, "H", 2, (2, 2), True),
        (33422, "B", 4, (0, 1, 1, 2), True),
        (50706, "B", 4, (1, 4, 0, 0), True),
        (50707, "B", 4, (1, 1, 0, 0), True),
        (50708, "s", 0, "Maker Model", True),
        (50714, "H", 1, 0, True),
        (50717, "I", 1, 65535, True),
        (50721, 10, 9, tuple(number for entry in matrix for number in (entry, 10_000)), True),
        (50728, 5, 3, (1, 2, 1, 1, 2, 3), True),
        (50778, "H", 1, 21, True),
        *more,
    ]
    out = io.BytesIO()
    tifffile.imwrite(out, mosaic, photometric=32803, metadata=None, extratags=tags)
    return out.getvalue()


def make_sounds() -> dict[str, bytes]:
    """Return a small file of every kind of sound that is read."""
    files: dict[str, bytes] = {}
    sound = 0.3 * np.sin(np.arange(1500) / 7)
    pair = np.stack([sound, sound[::-1]], axis=1)
    for name, samples, format, subtype in [
        ("short.wav", sound, "WAV", "PCM_16"),
        ("long.wav", pair, "WAV", "PCM_24"),
        ("float.wav", pair, "WAV", "FLOAT"),
        ("phone.wav", sound, "WAV", "ULAW"),
        ("coded.wav", sound, "WAV", "IMA_ADPCM"),
        ("sound.flac", pair, "FLAC", "PCM_16"),
        ("sound.ogg", sound, "OGG", "VORBIS"),
        ("sound.aiff", pair, "AIFF", "PCM_16"),
        ("sound.au", sound, "AU", "PCM_16"),
        ("sound.mp3", sound, "MP3", "MPEG_LAYER_III"),
    ]:
        if format in soundfile.available_formats():
            out = io.BytesIO()
            soundfile.write(out, samples, 8000, subtype, format=format)
            files[name] = out.getvalue()
    return files


def _claim(name: str, contents: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Put an absurd number where decoders expect a size."""
    changed = bytearray(contents)
    number = LENGTHS[int(rng.integers(len(LENGTHS)))]
    if name.endswith(".png"):
        place = 16 + 4 * int(rng.integers(2))
        changed[place : place + 4] = number.to_bytes(4, "big")
        changed[29:33] = zlib.crc32(changed[12:29]).to_bytes(4, "big")
    else:
        end = len(contents) if name.endswith(".tif") else min(len(contents), 60)
        place = 2 * int(rng.integers(end // 2 - 2))
        changed[place : place + 4] = number.to_bytes(4, "big" if rng.random() < 0.2 else "little")
    return f"{number} at {place}", bytes(changed)


def _read_picture(path: Path) -> None:
    pixels = read_image(path).pixels
    assert pixels.dtype in (np.uint8, np.uint16), pixels.dtype
    assert pixels.ndim == 2 or pixels.shape[2:] in ((3,), (4,)), pixels.shape
    assert 0 < pixels.shape[0] * pixels.shape[1] <= LIMIT, pixels.shape


def _read_sound(path: Path) -> None:
    n = 0
    with Reader(path) as reader:
        for block in reader.blocks():
            assert block.ndim == 2 and block.shape[1] == reader.n_channels
            n += block.size
    assert n <= LIMIT, n


def check_refusal(error: OSError, path: Path) -> None:
    """Raise unless an error is one line that names the file."""
    text = str(error)
    assert str(path) in text and "\n" not in text and text.endswith(".") and len(text) < 600, repr(text[:600])


def _one(name: str, contents: bytes, read: Callable[[Path], None], folder: Path, rng: np.random.Generator) -> str:
    how = int(rng.integers(4))
    what, damaged = _claim(name, contents, rng) if how == 3 else [cut, flip, splice][how](contents, rng)
    path = folder / name
    path.write_bytes(damaged)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read(path)
        return "read"
    except OSError as error:
        check_refusal(error, path)
        return "refused"
    except (Exception, TooSlowError) as error:
        raise AssertionError(f"{name}, {what}: {type(error).__name__}: {error}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Set the limits, and keep what C libraries say of odd files from the screen."""
    names = (MAX_PIXELS_VARIABLE, MAX_SAMPLES_VARIABLE)
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, str(LIMIT)))
    sys.stderr.flush()
    screen, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(screen, 2)
        os.close(screen)
        os.close(nowhere)
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def run(count: int, seed: int) -> dict[str, object]:
    """Read `count` damaged files, of all formats in turn; raise an AssertionError at the first that is taken amiss."""
    import resource  # not on Windows, where tests take the files that are made here

    seen: Counter[str] = Counter()
    images, sounds = make_images(), make_sounds()
    files = [(name, contents, _read_picture) for name, contents in images.items()]
    files += [(name, contents, _read_sound) for name, contents in sounds.items()]
    before = signal.signal(signal.SIGALRM, late)
    try:
        with tempfile.TemporaryDirectory() as folder, _limits():
            for name, contents, read in files:  # all formats are known before memory is watched
                _one(name, contents + b" ", read, Path(folder), np.random.default_rng(0))
            top = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for number in range(count):
                try:
                    outcome = _one(*files[number % len(files)], Path(folder), np.random.default_rng([seed, number]))
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, number {number}: {error}") from error
                seen[outcome] += 1
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - top
    finally:
        signal.signal(signal.SIGALRM, before)
    megabytes = grown / (1 << (20 if sys.platform == "darwin" else 10))
    assert megabytes <= MOST_MEGABYTES, f"seed {seed}: the process grew by {megabytes:.0f} MB"
    return {
        "mutations": count,
        "formats": len(files),
        **dict(sorted(seen.items())),
        "megabytes that the process grew by": round(megabytes),
    }


if __name__ == "__main__":
    from _main import main

    main(run, 10_000)
