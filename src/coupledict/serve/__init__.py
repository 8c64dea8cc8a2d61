"""A local page for people who do not program: fuse a stack, enlarge a picture, widen speech, look at atoms."""

from ._server import run

__all__ = ["run"]
