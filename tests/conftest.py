from __future__ import annotations

import signal
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import settings

import coupledict
from coupledict.foundation.block_sizes import SIZES

pytest.register_assert_rewrite("support")  # before they are imported: their assertions say what they found

from support.browsing import browser, open_file  # noqa: E402, F401  (fixtures for all)
from support.extras import pytest_make_collect_report, pytest_runtest_makereport  # noqa: E402, F401  (hooks for all)

try:
    from support import sharing
except ImportError:  # without pytest-xdist, everything runs here
    sharing = None

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")

collect_ignore = ["foreign"]  # scikit-learn's tests, which run_foreign.py runs


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return sharing.Sharing(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items):
    if sharing is not None:
        items.sort(key=lambda item: sharing.place(item.nodeid))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A Dask cluster, one a run; tests that take workers from it give them back."""
    from support.dask_cluster import Cluster

    with Cluster(tmp_path_factory.mktemp("dask") / "cluster") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kinds(tmp_path_factory):
    """A file of every kind, by name; they are for reading."""
    from _models import make_kinds

    return {kind.name: kind for kind in make_kinds(tmp_path_factory.mktemp("models"))}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def sizes():
    """Change sizes of blocks until the test ends: ``sizes(block_rows=20)``."""
    with ExitStack() as changes:
        yield lambda **numbers: changes.enter_context(SIZES.changed(**numbers))


@pytest.fixture
def hears_interrupts():
    """This process hears SIGINT, and so do those that it starts.

    A job in the background starts with the signal ignored, and all its children inherit that; a handler of our own is
    the default in a program that we start.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=coupledict.build_info()["simd_available"])
def level(request, monkeypatch):
    """Every instruction set that this machine has, forced in turn."""
    monkeypatch.setenv("COUPLEDICT_SIMD", request.param)
    return request.param
