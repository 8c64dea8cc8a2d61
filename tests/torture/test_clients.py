"""The proof of hostile clients and of kills in short, and that it can fail."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import clients
import pytest

from support import extras
from support.programs import run_python
from support.waiting import PATIENCE

pytestmark = pytest.mark.slow

# The server is a program of its own, which says what it lacks in a sentence.
extras.need("PIL", "starlette", "uvicorn", "python_multipart", "anyio", "h11")
TORTURE = Path(clients.__file__).parent


# A server that leaves silent clients sooner than it usually does.
HASTY = "from coupledict.serve import _connections\n_connections.SILENCE = 3.0\n"


def prove(count, fault="", patience=PATIENCE):
    """Run the proof in a process of its own, on a server with a fault."""
    lines = [
        "import json, sys",
        f"sys.path.insert(0, {str(TORTURE)!r})",
        "import clients",
        f"clients.SERVE = {HASTY + fault!r} + clients.SERVE",
        f"clients.PATIENCE_SECONDS = {patience}",
        f"print(json.dumps(clients.run({count}, 1)))",
    ]
    return run_python("\n".join(lines), seconds=200)


def test_hostile_clients_and_kills():
    done = prove(60)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["clients"] == 60
    assert figures["stayed until the server left them"] > 5


FAULTS = {
    "a noisy server": (
        "import sys\nsys.stderr.write('noise')\n",
        "AssertionError: noise",
        PATIENCE,
    ),
    "uploads that stay": (
        "from types import SimpleNamespace\nfrom coupledict.serve import _jobs\n"
        "_jobs.shutil = SimpleNamespace(rmtree=lambda *given, **options: None)\n",
        "no upload was left",
        20,
    ),
    "a server that waits for ever": (
        "_connections.SILENCE = 1e6\n",
        "had left all clients that send nothing more",
        10,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_server_is_noticed(fault):
    code, sentence, patience = FAULTS[fault]
    done = prove(60, code, patience)
    assert done.returncode == 1
    assert sentence in done.stderr


def test_a_server_that_leaves_its_folder_is_noticed(tmp_path, rng, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    keep = "from coupledict.serve import _folder\n_folder._remove = lambda folder, lock: None\n"
    monkeypatch.setattr(clients, "SERVE", keep + clients.SERVE)
    with pytest.raises(AssertionError, match=r"SIGHUP left \["):
        clients.one_kill(folder, rng, clients.Counter(), number=signal.SIGHUP, early=False)
