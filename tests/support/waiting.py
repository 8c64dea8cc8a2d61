"""Waiting for states instead of moments: as long as it takes on a machine that is busy, but not for ever."""

from __future__ import annotations

import os
import signal
import time

PATIENCE = 90  # seconds; what takes longer has failed. Three waits fit into the limit of a test


def wait_until(condition, what, seconds=PATIENCE):
    """Wait until a condition holds; return what it gave."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        time.sleep(0.01)
    return value


def exit_code(child):
    """Wait for a child that was forked, and return how it ended; it is killed when it hangs."""
    try:
        _, status = wait_until(lambda: found if (found := os.waitpid(child, os.WNOHANG))[0] else None, "a child ended")
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return os.waitstatus_to_exitcode(status)


def count_threads():
    """Return how many threads this process has, those included of which Python knows nothing."""
    return len(os.listdir("/proc/self/task"))


def wait_for_threads(most, count=count_threads):
    """Wait for threads that are about to end: the system needs a moment to take them away."""
    wait_until(lambda: count() <= most, "the threads had ended")
