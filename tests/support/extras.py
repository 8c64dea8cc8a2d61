"""Tests whose extra is not installed are skipped, with a word about it: the package is tested without extras as well.

A test needs no mark for it. That a package is missing is seen from the error: an ImportError that names it, raised by
the test file or by the package, at whatever depth. An error about a package that is installed is never taken for one.
What cannot be seen, such as a command that ends with a sentence about a missing extra, says `extras.need("PIL")`.
"""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

#: What a test may need and an environment may lack, by the name that is imported, and where it comes from.
PACKAGES = {
    **dict.fromkeys(("PIL", "skimage", "tifffile", "cv2"), "coupledict[images]"),
    "pillow_heif": "coupledict[heic]",
    "rawpy": "coupledict[raw]",
    "soundfile": "coupledict[audio]",
    **dict.fromkeys(("dask", "distributed", "zarr"), "coupledict[dask]"),
    "matplotlib": "coupledict[plot]",
    **dict.fromkeys(("starlette", "uvicorn", "python_multipart", "anyio", "h11"), "coupledict[serve]"),
    "yaml": "the group 'lint'",
}
# Looked up once, before any test pretends that a package is missing.
ABSENT = frozenset(name for name in PACKAGES if find_spec(name) is None)


def sentence(package: str) -> str:
    """Return why a test is skipped that needs `package`."""
    return f"{package} is not installed; it comes with {PACKAGES[package]}."


def need(*packages: str) -> None:
    """Skip the test, or at the head of a file all of it, if one of `packages` is not installed."""
    for package in packages:
        if package in ABSENT:
            pytest.skip(sentence(package), allow_module_level=True)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Give `error`, what it was raised from, and what a doctest wraps."""
    while error is not None:
        yield error
        inner = getattr(error, "failures", [error])  # of several examples of one doctest
        for failure in inner:
            if isinstance(failure, doctest.UnexpectedException):
                yield from causes(failure.exc_info[1])
        error = error.__cause__ or error.__context__


def missing(error: BaseException | None, absent: frozenset[str] = ABSENT) -> str | None:
    """Return the package of `absent` that `error` is about, or None."""
    named = [cause.name or "" for cause in causes(error) if isinstance(cause, ImportError)]
    packages = [name.partition(".")[0] for name in named]
    return next((package for package in packages if package in absent), None)


def skipped(report: pytest.CollectReport | pytest.TestReport, error: BaseException | None, place: str) -> None:
    """Turn a failure because of a missing package into a skip."""
    package = missing(error) if report.failed else None
    if package is not None:
        report.outcome = "skipped"
        report.longrepr = (place, 0, f"Skipped: {sentence(package)}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    call = getattr(report, "call", None)
    if call is not None and call.excinfo is not None:
        skipped(report, call.excinfo.value, str(collector.path))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.excinfo is not None:
        skipped(report, call.excinfo.value, str(item.path))
    return report
