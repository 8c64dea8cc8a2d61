"""Colour profiles (ICC): only complete profiles that describe the pixels are passed on to other files.

The check reads the header and the table of tags, without a library that might fail on the rest. The contents of the
tags are not examined.
"""

from __future__ import annotations

SMALLEST, LARGEST = 132, 1 << 22  # bytes: the header and the number of tags; larger profiles are for printing presses
MOST_TAGS = 100
VERSIONS = (2, 4, 5)
#: Profiles of cameras, screens, printers and colour spaces; not device links, effects and named colours.
CLASSES = (b"scnr", b"mntr", b"prtr", b"spac")
CONNECTIONS = (b"XYZ ", b"Lab ")
GREY, COLOUR = b"GRAY", b"RGB "
#: Tags that are needed to compute colours, unless there is a table: curves and primaries.
NEEDED = {
    GREY: {b"kTRC"},
    COLOUR: {start + end for start in (b"r", b"g", b"b") for end in (b"XYZ", b"TRC")},
}
TABLE = b"A2B0"


def check_profile(profile: object, channels: int) -> bytes | None:
    """Return a colour profile if it is complete and fits pixels with this many channels, else None.

    Parameters
    ----------
    profile : object
        The profile of a file.
    channels : int
        1 for grey pixels, 3 or 4 for colours.
    """
    if not isinstance(profile, bytes) or not SMALLEST <= len(profile) <= LARGEST:
        return None
    head_fits = (
        int.from_bytes(profile[:4], "big") == len(profile)
        and profile[8] in VERSIONS
        and profile[12:16] in CLASSES
        and profile[16:20] == (GREY if channels == 1 else COLOUR)
        and profile[20:24] in CONNECTIONS
        and profile[36:40] == b"acsp"
    )
    return profile if head_fits and _has_colours(profile) else None


def _has_colours(profile: bytes) -> bool:
    """Return whether all tags of a profile lie within it, and those that colours need are present."""
    count = int.from_bytes(profile[128:132], "big")
    end = SMALLEST + 12 * count
    if not 0 < count <= MOST_TAGS or end > len(profile):
        return False
    names = set()
    for place in range(SMALLEST, end, 12):
        start, length = (int.from_bytes(profile[place + k : place + k + 4], "big") for k in (4, 8))
        if start < end or length < 8 or start + length > len(profile):
            return False
        names.add(profile[place : place + 4])
    return len(names) == count and (TABLE in names or names >= NEEDED[profile[16:20]])
