"""A local page for people who do not program: fuse a stack, enlarge a picture, widen speech, explore atoms."""

from ._server import run

__all__ = ["run"]
