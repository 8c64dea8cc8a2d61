"""Packages that are missing, and those that are there but do not work: two faults, two messages."""

from __future__ import annotations

import sys

import pytest

from support import extras
from support.command import refused, run

PACKAGES = ["starlette", "uvicorn", "python_multipart", "PIL", "h11"]


def spoil(folder, package, line):
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(line + "\n")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("raise ImportError('libodd.so.1: cannot open shared object file')", "libodd.so.1: cannot open shared object"),
        ("import no_such_dependency", "No module named 'no_such_dependency'"),
        ("raise AttributeError('an old version')", "AttributeError: an old version"),
    ],
    ids=["library", "dependency", "version"],
)
def test_a_package_that_fails_is_not_called_missing(tmp_path, package, line, reason):
    if package != "PIL":  # which is looked for first: one that is missing would be told before one that fails
        extras.need(*PACKAGES)
    message = refused(run("serve", "--no-browser", **spoil(tmp_path, package, line)), 1)
    assert reason in message
    assert message.startswith("Expected ")
    assert "but importing it failed" in message
    assert "to be installed" not in message
    assert "pip install --force-reinstall" in message


def test_what_reads_pictures_is_not_called_missing_either(tmp_path, monkeypatch):
    from coupledict.serve import _pictures, _samples

    for package in ("cv2", "skimage"):
        spoil(tmp_path, package, "raise ImportError('libGL.so.1: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("cv2", "skimage")]:
        monkeypatch.delitem(sys.modules, name)
    for call, package in ((_pictures._opencv, "OpenCV"), (_samples._photographs, "scikit-image")):
        with pytest.raises(ImportError, match=rf"Expected {package} to work, but importing it failed \(libGL"):
            call()
        for name in ("cv2", "skimage"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=rf"Expected {package} to be installed"):
            call()
        monkeypatch.delitem(sys.modules, "skimage")
