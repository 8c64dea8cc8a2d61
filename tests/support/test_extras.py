"""Tests of extras that are not installed are skipped, and no other failure is taken for that."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from support import extras

ABSENT = frozenset({"PIL", "dask"})
pytest_plugins = ["pytester"]
CONFTEST = """
from support import extras

extras.ABSENT = frozenset({"rawpy_"})
extras.PACKAGES["rawpy_"] = "x[raw]"
extras.missing.__defaults__ = (extras.ABSENT,)
pytest_plugins = ["support.extras"]
"""


def raised(*names):
    """Return an error that was raised from errors about the packages `names`."""
    error = None
    for name in names:
        try:
            raise ImportError(f"No module named {name!r}", name=name) from error
        except ImportError as new:
            error = new
    return error


@pytest.mark.parametrize(
    ("error", "package"),
    [
        (raised("PIL"), "PIL"),
        (raised("dask.array"), "dask"),
        (raised("dask.array", None), "dask"),  # a sentence of ours, raised from it
        (raised("numpy"), None),  # it is installed
        (raised("PILLOW"), None),
        (ValueError("No module named 'PIL'"), None),
        (None, None),
    ],
)
def test_only_errors_about_absent_packages_count(error, package):
    assert extras.missing(error, ABSENT) == package


def test_every_extra_has_its_packages_in_the_table():
    content = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    named = {origin.partition("[")[2].rstrip("]") for origin in extras.PACKAGES.values() if "[" in origin}
    assert named == set(content["project"]["optional-dependencies"]) - {"all"}
    assert {canonicalize_name(name) for name in ("pillow_heif", "soundfile")} <= {
        canonicalize_name(name) for name in extras.PACKAGES
    }


@pytest.mark.slow
def test_files_and_tests_are_skipped_with_a_sentence_and_others_fail(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        test_file="import rawpy_\ndef test_one(): pass\n",
        test_inside="def test_two():\n    import rawpy_\ndef test_three():\n    import no_such_package\n",
        test_doc='def double():\n    """Import it.\n\n    >>> import rawpy_\n    """\n',
    )
    outcome = pytester.runpytest_subprocess("-rs", "--doctest-modules", "-p", "no:cacheprovider")
    outcome.assert_outcomes(skipped=4, failed=1)
    outcome.stdout.fnmatch_lines(["*rawpy_ is not installed; it comes with x[[]raw[]].*"])
