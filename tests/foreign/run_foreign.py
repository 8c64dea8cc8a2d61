"""Run scikit-learn's own tests of sparse coding and dictionary learning against coupledict.

``make check`` calls it; further arguments go to pytest. The tests are those of the installed scikit-learn. The names
that they import are replaced by adapters (``sklearn_names.py``), and what fails by design is listed with its reason
(``by_design.py``). A failure that is not listed is an error, and so is a listed test that passes or is gone.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest
import sklearn
from by_design import DIGESTS, FAILURES, SCIKIT_LEARN
from sklearn_names import REPLACED

HERE = Path(__file__).resolve().parent


class Foreign:
    """What pytest is told: other names, and what is expected to fail."""

    def __init__(self, failures=FAILURES, digests=DIGESTS, replaced=REPLACED):
        self.failures, self.digests, self.replaced = failures, digests, replaced
        self.unused = []

    def pytest_configure(self):
        for module, names in self.replaced.items():
            for name, ours in names.items():
                getattr(importlib.import_module(module), name)  # a name that is gone must be noticed
                setattr(importlib.import_module(module), name, ours)

    def pytest_collection_modifyitems(self, items):
        for failure in self.failures:
            for pattern in failure.tests:
                found = [item for item in items if fnmatchcase(item.name, pattern.replace("[", "[[]"))]
                if not found:
                    self.unused.append(pattern)
                raises = pytest.RaisesExc(failure.raises, match=failure.match)
                for item in found:
                    item.add_marker(pytest.mark.xfail(strict=True, raises=raises, reason=failure.reason))

    def pytest_terminal_summary(self, terminalreporter):
        def count(key):
            return len(terminalreporter.getreports(key))

        total = sum(map(count, ("passed", "failed", "xfailed", "error")))
        terminalreporter.write_line(
            f"scikit-learn's tests against coupledict: {count('passed')} of {total} pass, {count('xfailed')} fail by"
            f" design, {count('failed') + count('error')} differ from the list (tests/foreign/by_design.py)."
        )
        if changed := [name for name, digest in self.digests.items() if digest_of(name) != digest]:
            terminalreporter.write_line(
                f"Note: the list is about the tests of scikit-learn {SCIKIT_LEARN}, and {sklearn.__version__} is"
                f" installed, whose tests are others: {', '.join(changed)}."
            )
        for pattern in self.unused:
            terminalreporter.write_line(f"Listed, but no test has this name: {pattern}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if self.unused and session.exitstatus == pytest.ExitCode.OK and not session.config.option.keyword:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def digest_of(module):
    """Return the digest of the source of a module, which is not imported."""
    return hashlib.sha256(Path(find_spec(module).origin).read_bytes()).hexdigest()[:16]


def main(arguments):
    options = ["-c", str(HERE / "pytest.ini"), "--rootdir", str(HERE), "-p", "no:cacheprovider", "-q", "--tb=short"]
    return pytest.main([*options, *arguments, "--pyargs", *DIGESTS], plugins=[Foreign()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
