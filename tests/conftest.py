from __future__ import annotations

import signal

import numpy as np
import pytest
from browsing import browser, open_file  # noqa: F401  (fixtures for all)
from hypothesis import settings

import coupledict

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")

LEVELS = coupledict.build_info()["simd_available"]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def hears_interrupts():
    """This process hears SIGINT, and so do those that it starts.

    A job in the background starts with the signal ignored, and all its children inherit that; a handler of our own is
    the default in a program that we start.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    """Every instruction set that this machine has, forced in turn."""
    monkeypatch.setenv("COUPLEDICT_SIMD", request.param)
    return request.param
