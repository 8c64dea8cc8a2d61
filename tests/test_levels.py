from __future__ import annotations

import numpy as np
import pytest

import coupledict


def test_build_info_tells_the_truth(level):
    info = coupledict.build_info()
    assert info["simd"] == level
    assert level in info["simd_available"]
    assert info["version"] == coupledict.__version__
    assert info["compiler"]


def test_an_unknown_level_is_an_error(monkeypatch):
    monkeypatch.setenv("COUPLEDICT_SIMD", "avx1024")
    with pytest.raises(ValueError, match=r"Expected COUPLEDICT_SIMD to be 'auto' or .*'baseline'.*got 'avx1024'"):
        coupledict.sparse_encode(np.ones((1, 2)), np.eye(2))


def test_auto_is_the_fastest(monkeypatch):
    monkeypatch.setenv("COUPLEDICT_SIMD", "auto")
    assert coupledict.build_info()["simd"] == coupledict.build_info()["simd_available"][-1]
