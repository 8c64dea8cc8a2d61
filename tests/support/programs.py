"""Programs that tests start: they hear every signal, end with whoever started them, and are not waited for for ever."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from support.waiting import PATIENCE

# A job in the background starts with some signals ignored, and what it starts inherits that. The last lines are for a
# test that hangs: its process ends without a farewell, and what it had started would go on (Linux: PR_SET_PDEATHSIG).
FRESH = """
import signal as _signal, sys as _sys
for _name in ("SIGHUP", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGALRM", "SIGXCPU"):
    if hasattr(_signal, _name):
        _signal.signal(getattr(_signal, _name), _signal.SIG_DFL)
_signal.signal(_signal.SIGINT, _signal.default_int_handler)
if _sys.platform == "linux":
    import ctypes as _ctypes
    _ctypes.CDLL(None).prctl(1, int(_signal.SIGKILL))
"""


def python(code: str, *arguments: object) -> list[str]:
    """Return the command that runs a program in a Python of its own."""
    return [sys.executable, "-c", FRESH + code, *map(str, arguments)]


def run(command: Sequence[object], seconds: float = PATIENCE, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; return its exit code and what it said."""
    words = [str(word) for word in command]
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False, **options)
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"").decode(errors="replace")[-2000:]
        raise AssertionError(f"waited {seconds} s in vain until {words[-1][:80]!r} ended; it said: {said}") from None


def run_python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own, to its end."""
    return run(python(code, *arguments), **options)


@contextmanager
def started(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a program, and end it when the block ends, however that comes."""
    process = subprocess.Popen([str(word) for word in command], text=True, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@contextmanager
def patient(process: subprocess.Popen[str], what: str, seconds: float = PATIENCE) -> Iterator[None]:
    """Wait for a program within the block, by reading or by `wait`; kill it, and say so, if that takes too long."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, give_up)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if late.is_set():
            raise AssertionError(f"waited {seconds} s in vain until {what}")


def end(process: subprocess.Popen[str], number: signal.Signals, seconds: float = PATIENCE) -> int:
    """Send a signal, and return how the program ended; what it prints meanwhile stays in its pipes."""
    process.send_signal(number)
    with patient(process, f"{signal.Signals(number).name} had ended the program", seconds):
        return process.wait()
