"""Which tests run in one worker, one after the other, and which begin first.

The fixtures of a file are made once when all of it runs in one worker, and so is what several files share: a browser,
a Dask cluster. Long ones begin first, so that short ones fill the gaps at the end. (The marks of `--dist loadgroup`
would do, but pytest-xdist 3.8 writes them where pytest 9 does not look.)
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

#: Files of one group share what is dear.
GROUPS = {
    "test_distributed.py": "a cluster",
    "test_distributed_faults.py": "a cluster",
    "test_report_browser.py": "a browser",
    "test_explorer_page.py": "a browser",
    "test_serve_browser.py": "a browser",
    "test_site_browser.py": "a browser",
}
#: Files whose tests share nothing; each may run anywhere.
APART = ("test_examples.py", "test_torture.py", "test_cli.py", "test_documentation.py")
#: What begins first.
LONG = (
    "a browser",
    "a cluster",
    "test_kernels.py",
    "test_torture.py",
    "test_cli.py",
    "test_examples.py",
    "test_out_of_core.py",
    "test_experiments.py",
    "test_classification.py",
    "test_reference_updates.py",
    "test_documentation.py",
)


def scope(nodeid: str) -> str:
    """Return what a test is handed out with."""
    name = nodeid.partition("::")[0].rpartition("/")[2]
    return nodeid if name in APART else GROUPS.get(name, name)


def place(nodeid: str) -> int:
    """Return where a test stands in line; tests of the same place stay in their order."""
    names = [scope(nodeid), nodeid.partition("::")[0].rpartition("/")[2]]
    return min((LONG.index(name) for name in names if name in LONG), default=len(LONG))


class Sharing(LoadScopeScheduling):
    """Hands out groups, files and single tests, in the order in which they were collected."""

    def __init__(self, config, log=None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """Take back the tests of a worker that died, but for the one it died of: it would end the next one, too."""
        for unit in self.assigned_work[node].values():
            for nodeid, completed in unit.items():
                if not completed:
                    unit[nodeid] = True
                    super().remove_node(node)
                    return nodeid
        return super().remove_node(node)
