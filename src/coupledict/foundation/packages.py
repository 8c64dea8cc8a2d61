"""Optional packages: one that is missing and one that is there but does not work are told apart."""

from __future__ import annotations


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
