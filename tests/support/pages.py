"""Pages that are run as they are written: their blocks in order, in one folder, with what they say that they print.

A page is Markdown. Blocks of the kind ``python`` are executed, one after the other, with the names of those before.
Blocks of the kinds ``console`` (commands behind a dollar, their output below) and ``bash`` are given to a shell. What
a print prints is in the comment behind it, or in the comment lines below it.
"""

from __future__ import annotations

import ast
import io
import os
import re
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

from support import programs

#: What tells a reader that a block needs files or a cluster of their own.
OWN = re.compile(r"\byour\s+own\b", re.IGNORECASE)
#: Commands that are not run: those that build, install or publish, and those that do not end by themselves or not soon.
NOT_RUN = re.compile(r"(make|pip|python -m (pip|venv)|git|cd|dask|source|\. |coupledict (serve|reproduce|demo)\b)")
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")


class Block(NamedTuple):
    """A block of a page, and whether the paragraph before it tells the reader to bring something."""

    kind: str
    text: str
    line: int
    own: bool


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in order, those within list items included."""
    found, lines = [], page.read_text().splitlines()
    before, start, kind, indent = "", None, "", ""
    for number, line in enumerate(lines, 1):
        fence = re.match(r"( *)```(.*)$", line)
        if fence and start is None:
            start, indent, kind = number, fence[1], fence[2].strip()
        elif fence:
            text = "".join(f"{each.removeprefix(indent)}\n" for each in lines[start : number - 1])
            found.append(Block(kind, text, start + 1, bool(OWN.search(before))))
            start = None
        elif start is None and line.strip():
            follows = number > 1 and lines[number - 2].strip() and not lines[number - 2].lstrip().startswith("```")
            before = f"{before}\n{line}" if follows else line
    return found


def agree(said: str, printed: str) -> bool:
    """Tell whether what is printed ends what the comment says, numbers within two units of their last place."""
    said_numbers, printed_numbers = NUMBER.findall(said.split(": ")[-1]), NUMBER.findall(printed.split(": ")[-1])
    if not printed_numbers:
        return said.endswith(printed)
    if len(said_numbers) != len(printed_numbers):
        return False
    if any(word not in re.findall(r"[A-Za-z_]+", said) for word in re.findall(r"[A-Za-z_]+", printed)):
        return False
    for claim, value in zip(said_numbers, printed_numbers, strict=True):
        unit = 10.0 ** -len(claim.partition(".")[2]) if "." in claim else 0.0
        if abs(float(claim.replace(",", "")) - float(value.replace(",", ""))) > 2.01 * unit:
            return False
    return True


def is_shown(shown: str, printed: str) -> bool:
    """Tell whether a line is the one that the page shows; three dots stand for what differs from run to run."""
    if "..." in shown:
        return re.fullmatch(".+".join(map(re.escape, shown.split("..."))), printed) is not None
    return agree(shown, printed)


class Print(NamedTuple):
    """A call of print in a block: where it is, and what comments say that it prints."""

    first: int
    last: int
    behind: str | None
    below: list[str]


def prints(code: str) -> list[Print]:
    """Return the calls of print in a block."""
    behind, alone = {}, {}
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("#").strip()
            (alone if token.line.lstrip().startswith("#") else behind)[token.start[0]] = text
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            below, line = [], node.end_lineno + 1
            while line in alone:
                below.append(alone[line])
                line += 1
            found.append(Print(node.lineno, node.end_lineno, behind.get(node.end_lineno), below))
    return found


def faults_of_print(said: Print, printed: list[str]) -> list[str]:
    """Return what is wrong with what comments say about the lines that one call of print has printed."""
    where = f"line {said.first} of the block prints {printed}"
    if not printed:
        return [] if said.behind or said.below else [f"line {said.first} of the block never prints"]
    if said.behind is not None:
        claims = [said.behind] * len(printed)
    elif len(said.below) == len(printed):
        claims = said.below
    elif len(printed) == 1 and said.below:
        claims = [" ".join(said.below)]
    else:
        return [f"{where}, and the page shows {said.below or 'nothing'}"]
    return [f"{where}, and the page says {claim!r}" for claim, line in zip(claims, printed, strict=True)
            if not agree(claim, line)]  # fmt: skip


def run_python(block: Block, names: dict, name: str) -> list[str]:
    """Execute a block with the names of those before; return what is wrong with what it says that it prints."""
    printed: dict[int, list[str]] = {}
    calls = prints(block.text)

    def show(*values, **options):
        text = io.StringIO()
        print(*values, **options, file=text)
        frame = sys._getframe(1)
        if frame.f_code.co_filename == name:
            for number, call in enumerate(calls):
                if call.first <= frame.f_lineno <= call.last:
                    printed.setdefault(number, []).extend(text.getvalue().splitlines())

    names["print"] = show
    exec(compile(block.text, name, "exec"), names)
    return [
        f"{name}: {fault}"
        for number, call in enumerate(calls)
        for fault in faults_of_print(call, printed.get(number, []))
    ]


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """Return each command of a block, and the lines that follow it as its output."""
    found: list[tuple[str, list[str]]] = []
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        if block.kind == "console" and not line.startswith("$ "):
            if found and line.strip():
                found[-1][1].append(line.strip())
        elif line.strip() and not line.startswith("#"):
            found.append((line.removeprefix("$ ").partition("  #")[0].strip(), []))
    return found


def run_shell(block: Block, name: str) -> list[str]:
    """Run the commands of a block in a shell; return what is wrong with what they print."""
    faults = []
    folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    for command, shown in commands(block):
        if NOT_RUN.match(command):
            continue
        done = programs.run(["bash", "-c", command], seconds=200, env=environment)
        if done.returncode:
            faults.append(f"{name}: {command} ended with {done.returncode}: {done.stderr}")
            continue
        printed = [line.strip() for line in done.stdout.splitlines()]
        if shown and not (len(shown) == len(printed) and all(map(is_shown, shown, printed))):
            faults.append(f"{name}: {command} prints {printed}, and the page shows {shown}")
    return faults


def run(page: Path, names: dict, bring) -> list[str]:
    """Run a page; `bring` makes what a reader has to bring for a block, and returns the block to run."""
    faults = []
    for block in blocks(page):
        name = f"{page.name}, line {block.line}"
        if block.own:
            block = bring(block)
        if block.kind == "python":
            faults += run_python(block, names, name)
        elif block.kind in ("console", "bash"):
            faults += run_shell(block, name)
    return faults
