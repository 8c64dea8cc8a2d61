"""The picture and model tasks of the page: fuse a focus stack, enlarge a picture, show the atoms of a model.

Each task runs in the worker thread with its job and the form that was sent. It reports progress, stores pictures and
files for the page in the job's folder, and returns the result for the page, as JSON.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..images import MultiFocusFusion, SuperResolution, imresize
from ..images._files import Picture, read_image
from . import _samples
from ._jobs import READING, SENT, WRITING, Job, Phase
from ._pictures import FORMATS, align
from ._speech import widen
from ._uploads import Form, Limits, Upload

Pixels = npt.NDArray[Any]

WORKED = 0.96  # finished share of a job when the estimator is done; the rest is writing
#: The estimators' stages on the page.
PHASES = {
    "fusing": Phase("Fusing the pictures", 0, WORKED),
    "upscaling": Phase("Enlarging the picture", 0, WORKED),
}
SCALES = ("2", "3", "4")
#: Colours of the sources in a decision map: safe for colour-blind people (Okabe and Ito), repeated beyond eight.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555")


def fuse(job: Job, form: Form, limits: Limits) -> dict[str, Any]:
    """Fuse the uploaded pictures, aligned first unless the form says otherwise.

    They are read one by one, and stay on disk: the page shows them next to the result.
    """
    job.report(READING)
    file_format = _requested_format(form)
    uploads = form.files or _samples.focus_stack(job.folder / SENT)
    if len(uploads) < 2:
        raise ValueError(f"Expected two or more pictures of one scene, got {len(uploads)}.")
    headers = limits.check_pictures(uploads)
    first = headers[0]
    for upload, header in zip(uploads, headers, strict=True):
        if (header.shape, header.dtype) != (first.shape, first.dtype):
            raise ValueError(
                f"Expected pictures of one size and kind, got {first} in '{uploads[0].name}' and {header} in"
                f" '{upload.name}'."
            )
    job.report(PHASES["fusing"].name)
    register = form.options.get("register", "yes") == "yes"
    fused = MultiFocusFusion(
        register="auto" if register else False,
        keep_size=register and form.options.get("keep_size") == "yes",  # pictures that are not aligned keep their size
        n_jobs=-1,
        callback=job.watch(PHASES),
    ).fuse([upload.path for upload in uploads])
    job.report(WRITING, WORKED)
    stem = uploads[0].stem
    like = headers[fused.reference]
    result = _keep(job, "fused", Picture(fused.image, like.profile, like.exif), f"{stem}-fused", file_format)
    befores = [
        job.pictures.promise(f"source-{number}", fused.image.shape, partial(_source, upload, source.matrix, fused.box))
        | {"label": upload.name}
        for number, (upload, source) in enumerate(zip(uploads, fused.sources, strict=True))
    ]
    decision = _keep_map(job, fused.decision, len(uploads), f"{stem}-map")
    job.report(WRITING, 0.5 * (1 + WORKED))
    job.files.make(befores[0]["view"])  # the one that is shown first
    return {
        "result": result | {"label": "Fused"},
        "note": "" if form.files else _samples.STACK_NOTE,
        "before": befores,
        "map": decision,
        "source": {"width": first.shape[1], "height": first.shape[0]},
        "shares": [
            {
                "label": upload.name,
                "share": source.share,
                "colour": COLOURS[number % len(COLOURS)],
                "moved": source.shift if source.aligned else 0.0,
                "note": source.note,
            }
            for number, (upload, source) in enumerate(zip(uploads, fused.sources, strict=True))
        ],
    }


def _source(upload: Upload, matrix: npt.NDArray[np.float64], box: tuple[int, int, int, int]) -> Picture:
    return align(read_image(upload.path), matrix, box)


def enlarge(job: Job, form: Form, limits: Limits) -> dict[str, Any]:
    """Enlarge the uploaded picture."""
    job.report(READING)
    scale, file_format = form.options.get("scale", "2"), _requested_format(form)
    if scale not in SCALES:
        raise ValueError(f"Expected a scale of 2, 3 or 4, got {scale!r}.")
    uploads = form.files or _samples.small_picture(job.folder / SENT)
    if len(uploads) != 1:
        raise ValueError(f"Expected one picture at a time, got {len(uploads)}.")
    limits.check_pictures(uploads, int(scale) ** 2)
    picture = read_image(uploads[0].path)
    job.report(PHASES["upscaling"].name)
    enlarger = SuperResolution.pretrained(int(scale), n_jobs=-1, callback=job.watch(PHASES))
    large = enlarger.upscale(picture.pixels)
    job.report(WRITING, WORKED)
    result = _keep(job, "enlarged", replace(picture, pixels=large), f"{uploads[0].stem}-x{scale}", file_format)
    bicubic = job.pictures.keep("bicubic", replace(picture, pixels=imresize(picture.pixels, int(scale))))
    job.files.make(bicubic["view"])
    return {
        "result": result | {"label": "Enlarged"},
        "note": "" if form.files else _samples.SMALL_NOTE,
        "before": [bicubic | {"label": "Bicubic"}],
        "source": {"label": uploads[0].name, "width": picture.pixels.shape[1], "height": picture.pixels.shape[0]},
    }


def explore(job: Job, form: Form, limits: Limits) -> dict[str, Any]:
    """Make a page of the atoms of the uploaded model."""
    from ..loading import load
    from ..report import explorer_page
    from ..report._models import model_atoms

    job.report(READING)
    uploads = form.files or _samples.model(job.folder / SENT)
    if len(uploads) != 1:
        raise ValueError(f"Expected one model file at a time, got {len(uploads)}.")
    model = load(uploads[0].path)
    job.report("Drawing the atoms")
    found = model_atoms(model)
    page = explorer_page(found.dictionaries, title=uploads[0].name, patch_size=found.patch_size, names=found.names)
    (job.folder / "atoms.html").write_text(page, encoding="utf-8")
    return {
        "page": "atoms.html",
        "name": f"{uploads[0].stem}-atoms.html",
        "title": uploads[0].name,
        "atoms": len(found.dictionaries[0]),
        "views": len(found.dictionaries),
    }


TASKS = {"fuse": fuse, "enlarge": enlarge, "widen": widen, "explore": explore}


def _requested_format(form: Form) -> str | None:
    """Return the format that the form asks for; None leaves it to the result."""
    file_format = form.options.get("format")
    if file_format is not None and file_format not in FORMATS:
        raise ValueError(f"Expected a format of {', '.join(FORMATS)}, got {file_format!r}.")
    return file_format


def _keep(job: Job, name: str, picture: Picture, download: str, file_format: str | None) -> dict[str, Any]:
    """Store a result with all its bits, and offer it in all formats.

    The default format is TIFF for 16 bits and PNG for 8. Formats are written on request, so that the page shows the
    result before a large file is compressed.
    """
    bits = 8 * picture.pixels.itemsize
    result = job.pictures.keep(name, picture)
    job.files.make(result["view"])
    kind = file_format or ("TIFF" if bits == 16 else "PNG")
    return result | {"format": kind, "formats": job.pictures.offer(name, download), "bits": bits}


def _keep_map(job: Job, decision: Pixels, n_sources: int, download: str) -> dict[str, Any]:
    """Write which source each pixel is from, as a palette image whose indices are the numbers of the sources."""
    from PIL import Image

    height, width = decision.shape
    step = math.ceil(math.sqrt(height * width / job.pictures.display.most_pixels))
    for name, numbers in (("map.png", decision), ("map-view.png", decision[::step, ::step])):
        image = Image.fromarray(np.ascontiguousarray(numbers, np.uint8))
        image.putpalette(b"".join(bytes.fromhex(COLOURS[n % len(COLOURS)][1:]) for n in range(n_sources)))
        image.save(job.folder / name, "PNG", compress_level=3)  # it has large areas, and shrinks well at any level
    return {"file": "map.png", "name": f"{download}.png", "view": "map-view.png", "width": width, "height": height}


def write_names(uploads: list[Upload]) -> dict[str, str]:
    """Return the user's names of uploaded files by their paths, which error messages may contain."""
    return {str(Path(upload.path)): upload.name for upload in uploads}
