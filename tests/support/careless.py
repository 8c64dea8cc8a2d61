"""A disk on which files get their names before they are whole."""

from __future__ import annotations

import os
import time


def rename_early(patch, seconds):
    """Let new names come before the contents, which take some seconds, as long as the patch holds."""

    def link(source, target):
        with open(source, "rb") as file:
            content = file.read()
        with open(target, "wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            time.sleep(seconds)
            file.write(content[len(content) // 2 :])

    def replace(source, target):
        link(source, target)
        os.unlink(source)

    patch.setattr(os, "link", link)
    patch.setattr(os, "replace", replace)
