"""The names of the package are imported when they are first asked for, and are all there."""

from __future__ import annotations

import importlib
import importlib.metadata

import pytest

import coupledict


def test_every_public_name_is_there():
    assert set(coupledict._PLACES) == set(coupledict.__all__)
    for name, place in coupledict._PLACES.items():
        module = importlib.import_module(f"coupledict.{place}")
        assert getattr(coupledict, name) is getattr(module, name)
        assert name in dir(coupledict)


@pytest.mark.parametrize("name", coupledict._MODULES)
def test_modules_need_no_import_of_their_own(name):
    assert getattr(coupledict, name) is importlib.import_module(f"coupledict.{name}")
    assert name in dir(coupledict)


def test_the_version_is_that_of_the_distribution():
    assert coupledict.__version__ == importlib.metadata.version("coupledict")


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'coupledict' has no attribute 'nothing'"):
        _ = coupledict.nothing
