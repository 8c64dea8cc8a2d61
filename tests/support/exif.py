"""A block of EXIF as cameras write it, and how Pillow reads one."""

from __future__ import annotations

from PIL import Image
from PIL.TiffImagePlugin import IFDRational

MAKE, MODEL, DATE, SOFTWARE, ARTIST = 0x010F, 0x0110, 0x0132, 0x0131, 0x013B
ORIENTATION, EXPOSURE_IFD, GPS_IFD = 0x0112, 0x8769, 0x8825
TIME, APERTURE, ISO, TAKEN, LENS = 0x829A, 0x829D, 0x8827, 0x9003, 0xA434
MAKER_NOTE, WIDE, HIGH, UNIQUE, COMMENT = 0x927C, 0xA002, 0xA003, 0xA420, 0x9286


def block(order="<"):
    """Return the EXIF block of a camera, put together by Pillow, in this byte order."""
    exif = Image.Exif()
    exif.endian = order
    exif[MAKE], exif[MODEL], exif[DATE] = "Maker", "Model 5", "2026:01:02 03:04:05"
    exif[ORIENTATION], exif[SOFTWARE], exif[ARTIST] = 6, "Firmware 1.0", "Somebody"
    exif[0x011A], exif[0x011B], exif[0x0128] = IFDRational(240), IFDRational(240), 2
    exposure = exif.get_ifd(EXPOSURE_IFD)
    exposure[TIME], exposure[APERTURE], exposure[ISO] = IFDRational(1, 250), IFDRational(28, 10), 400
    exposure[TAKEN], exposure[LENS] = "2026:01:02 03:04:05", "90 mm macro"
    exposure[MAKER_NOTE], exposure[UNIQUE] = b"secret notes" * 9, "0123456789abcdef"
    exposure[WIDE], exposure[HIGH] = 6000, 4000
    exposure[COMMENT] = b"ASCII\0\0\0a comment"
    gps = exif.get_ifd(GPS_IFD)
    gps[1], gps[2], gps[3], gps[4] = "N", (48.0, 51.0, 30.0), "E", (2.0, 17.0, 40.0)
    return exif.tobytes()


def by_pillow(path):
    """Return the three directories as Pillow reads them."""
    with Image.open(path) as image:
        exif = image.getexif()
        return dict(exif), dict(exif.get_ifd(EXPOSURE_IFD)), dict(exif.get_ifd(GPS_IFD))
