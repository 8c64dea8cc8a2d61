"""The packages of the extra ``serve``; the errors distinguish missing from broken ones."""

from __future__ import annotations

import importlib

from ..foundation.packages import broken_package, is_missing

#: Imported modules, and the names of their packages for pip.
MODULES = {
    "PIL": "Pillow",
    "PIL.Image": "Pillow",
    "python_multipart": "python-multipart",
    "starlette": "starlette",
    "starlette.applications": "starlette",
    "uvicorn": "uvicorn",
    "uvicorn.protocols.http.h11_impl": "uvicorn",
}


def check_packages() -> None:
    """Import what the server needs.

    Raises
    ------
    ImportError
        If a package is missing or cannot be imported; the message says which, and how to fix it.
    """
    for module, package in MODULES.items():
        try:
            importlib.import_module(module)
        except Exception as error:  # a package that does not fit its dependencies may raise anything
            if not is_missing(error, module):
                raise broken_package(error, package, "serve") from error
            raise ImportError(
                f'Expected {package} to be installed. Install it: pip install "coupledict[serve]"'
            ) from error
