"""Optional packages: errors distinguish one that is missing from one that is installed but does not work."""

from __future__ import annotations

import importlib
from typing import Any


def is_missing(error: Exception, module: str) -> bool:
    """Tell whether importing a module failed because its package is not installed."""
    return isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]


def broken_package(error: Exception, package: str, extra: str) -> ImportError:
    """Return the error for a package that is installed but cannot be imported."""
    reason = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return ImportError(
        f"Expected {package} to work, but importing it failed ({reason}); install it and what it needs again:"
        f' pip install --force-reinstall {package} "coupledict[{extra}]"'
    )


def need_package(module: str, name: str, purpose: str, extra: str) -> Any:
    """Return a package of an extra; the error says how to install it, or why it does not work."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if not is_missing(error, module):
            raise broken_package(error, name, extra) from error
        raise ImportError(
            f'Expected {name} to be installed, for {purpose}. Install it with: pip install "coupledict[{extra}]"'
        ) from error
