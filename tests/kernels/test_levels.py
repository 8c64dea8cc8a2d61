from __future__ import annotations

import platform
import re

import numpy as np
import pytest

import coupledict

# From slowest to fastest; a processor may lack the last ones.
LEVELS = {
    "x86_64": ["baseline", "avx2", "avx512"],
    "AMD64": ["baseline", "avx2", "avx512"],
    "aarch64": ["neon"],
    "arm64": ["neon"],
}


def test_build_info_tells_the_truth(level):
    info = coupledict.build_info()
    assert info["simd"] == level
    assert level in info["simd_available"]
    assert info["version"] == coupledict.__version__
    assert info["compiler"]


def test_levels_are_those_of_the_processor():
    found = coupledict.build_info()["simd_available"]
    assert found == LEVELS.get(platform.machine(), ["baseline"])[: len(found)]


def test_an_unknown_level_is_an_error(monkeypatch):
    first = re.escape(repr(coupledict.build_info()["simd_available"][0]))
    monkeypatch.setenv("COUPLEDICT_SIMD", "avx1024")
    with pytest.raises(ValueError, match=rf"Expected COUPLEDICT_SIMD to be 'auto' or .*{first}.*got 'avx1024'"):
        coupledict.sparse_encode(np.ones((1, 2)), np.eye(2))


def test_auto_is_the_fastest(monkeypatch):
    monkeypatch.setenv("COUPLEDICT_SIMD", "auto")
    assert coupledict.build_info()["simd"] == coupledict.build_info()["simd_available"][-1]
