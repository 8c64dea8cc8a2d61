"""Pictures that were written, as other programs read them."""

from __future__ import annotations

import io

import cv2
import numpy as np
import tifffile
from PIL import Image


def read(content):
    """Return the pixels of a picture, given as bytes."""
    if content[:2] in (b"II", b"MM"):
        return tifffile.imread(io.BytesIO(content))
    if content[24:26] == b"\x10\x02":  # PNG with 16 bits of colour, which Pillow would cut
        return cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)[..., ::-1]
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


def pixels_of(path):
    """Return the pixels of a file."""
    return read(path.read_bytes())
