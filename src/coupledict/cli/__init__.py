"""The command line: ``coupledict COMMAND``; one module a group of commands."""

from ._app import app, main

__all__ = ["app", "main"]

from . import _audio, _images, _reproduce  # noqa: F401  (they register their commands)
