"""The command line: ``coupledict COMMAND``; one module per group of commands.

Modules import what they need when a command runs: help and completion must not wait for scikit-learn.
"""

from ._app import app, main

__all__ = ["app", "main"]

# Importing a module registers its commands, which are listed in this order.
from . import _learn, _code, _show, _fuse, _images, _stain, _audio, _serve, _reproduce, _info  # noqa: F401, I001
