"""A local page for people who do not program: fuse a focus stack, enlarge a picture, look at a model's atoms."""

from ._server import run

__all__ = ["run"]
