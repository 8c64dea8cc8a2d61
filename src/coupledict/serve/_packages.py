"""The packages of the extra ``serve``: a missing one and a broken one are told apart."""

from __future__ import annotations

import importlib

from ..foundation.packages import broken_package, is_missing

#: Modules that are imported, and the names under which pip knows their packages.
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
        If a package is missing, or is there but cannot be imported; the message says which, and how to mend it.
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
