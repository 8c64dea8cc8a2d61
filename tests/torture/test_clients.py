"""The proof of hostile clients and of kills in short, and that it can fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import clients
import pytest

from support import extras

# The server is a program of its own, which says what it lacks in a sentence.
extras.need("PIL", "starlette", "uvicorn", "python_multipart", "anyio", "h11")
TORTURE = Path(clients.__file__).parent


def prove(count, fault=""):
    """Run the proof in a process of its own, on a server with a fault."""
    lines = [
        "import sys, json",
        f"sys.path.insert(0, {str(TORTURE)!r})",
        "import clients",
        f"clients.SERVE[2] = {fault!r} + clients.SERVE[2]",
        f"clients.PATIENCE_SECONDS = {20 if fault else 120}",
        f"print(json.dumps(clients.run({count}, 1)))",
    ]
    return subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)


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
    ),
    "uploads that stay": (
        "from types import SimpleNamespace\nfrom coupledict.serve import _jobs\n"
        "_jobs.shutil = SimpleNamespace(rmtree=lambda *given, **options: None)\n",
        "no upload was left",
    ),
    "a server that waits for ever": (
        "from coupledict.serve import _connections\n_connections.SILENCE = 1e6\n",
        "had left all clients that send nothing more",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_server_is_noticed(fault):
    code, sentence = FAULTS[fault]
    done = prove(60, code)
    assert done.returncode == 1
    assert sentence in done.stderr


def test_a_server_that_leaves_its_folder_is_noticed(tmp_path, rng, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    keep = "from coupledict.serve import _folder\n_folder._remove = lambda folder, lock: None\n"
    monkeypatch.setattr(clients, "SERVE", [*clients.SERVE[:2], keep + clients.SERVE[2], *clients.SERVE[3:]])

    def kill_some():
        for _ in range(4):
            clients.one_kill(folder, rng, clients.Counter())

    with pytest.raises(AssertionError, match=r"left \[|did not remove"):
        kill_some()
