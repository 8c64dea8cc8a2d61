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
    "distributed/test_cluster.py": "a cluster",
    "distributed/test_faults.py": "a cluster",
    "report/test_page_in_browser.py": "a browser",
    "report/test_explorer_page.py": "a browser",
    "serve/test_browser.py": "a browser",
    "project/test_site_browser.py": "a browser",
}
#: Files whose tests share nothing; each may run anywhere.
APART = ("project/test_examples.py", "torture/test_proofs.py", "cli/test_commands.py", "project/test_documentation.py")
#: What begins first.
LONG = (
    "a cluster",
    "a browser",
    "project/test_readme.py",
    "torture/test_clients.py",
    "torture/test_proofs.py",
    "project/test_documentation.py",
    "project/test_examples.py",
    "serve/test_browser_tasks.py",
    "cli/test_commands.py",
    "experiments/test_experiments.py",
    "classification/test_representation_classifier.py",
    "classification/test_classifier.py",
    "files/test_hostile_parameters.py",
    "learning/test_checkpoint.py",
    "kernels/test_codes.py",
    "data/test_out_of_core.py",
)


def file(nodeid: str) -> str:
    """Return the file of a test, as seen from the folder of tests."""
    return nodeid.partition("::")[0].removeprefix("tests/")


def scope(nodeid: str) -> str:
    """Return what a test is handed out with."""
    name = file(nodeid)
    return nodeid if name in APART else GROUPS.get(name, name)


def place(nodeid: str) -> int:
    """Return where a test stands in line; tests of the same place stay in their order."""
    names = [scope(nodeid), file(nodeid)]
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
