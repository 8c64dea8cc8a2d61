import contextlib
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import warnings

import numpy as np
import pytest

import coupledict
from coupledict.cli._reproduce import may_replace
from support import extras
from support.command import COMMAND, call, environment, refused, run
from support.programs import end, patient, python, run_python, started
from support.small_experiments import small_experiments
from support.waiting import wait_until


def test_without_arguments_the_commands_are_listed():
    done = run()
    assert "reproduce" in done.stdout + done.stderr
    assert "demo" in done.stdout + done.stderr


def test_the_version_is_told():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"coupledict {coupledict.build_info()['version']} (")


def test_an_unknown_command_is_one_error_and_exit_code_2():
    done = run("reproduse")
    assert done.returncode == 2
    assert "reproduse" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("given", ["option", "variable"])
def test_a_data_folder_without_images_is_one_sentence_and_exit_code_1(tmp_path, given, monkeypatch):
    extras.need("skimage", "PIL", "matplotlib")
    output = tmp_path / "out"
    monkeypatch.delenv("COUPLEDICT_DATA", raising=False)
    if given == "option":
        done = call("reproduce", "--data", tmp_path / "nothing", "--output", output)
    else:
        monkeypatch.setenv("COUPLEDICT_DATA", str(tmp_path / "nothing"))
        done = call("reproduce", "--output", output)
    assert re.match(r"Expected the Lytro pairs .* found none; correct --data", refused(done, code=1))
    assert not output.exists() or not list(output.iterdir())


def test_an_output_that_is_a_file_is_one_sentence_and_exit_code_1(tmp_path):
    file = tmp_path / "out"
    file.write_text("mine")
    assert "got the file" in refused(run("reproduce", "--quick", "--output", file), code=1)
    assert file.read_text() == "mine"


@pytest.mark.slow
def test_an_interrupt_leaves_no_half_written_files(tmp_path):
    extras.need("skimage", "PIL", "matplotlib")
    output = tmp_path / "out"
    command = python(COMMAND, "reproduce", "--output", output, "--threads", 1)
    with started(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        wait_until(output.exists, "the first thing was done")  # with minutes to go
        assert end(process, signal.SIGINT) == 130
        errors = process.stderr.read()
    assert errors.strip() == "Stopped."
    assert list(output.iterdir()) == []


@pytest.mark.slow
def test_the_demo_writes_pictures_and_a_report_and_says_what_to_try_next(tmp_path):
    extras.need("skimage", "PIL", "matplotlib")
    with small_experiments():
        done = call("demo", "--output", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    names = {file.name for file in (tmp_path / "demo").iterdir()}
    assert {"prediction.png", "fusion.png", "pairs.png", "report.html", "results.json"} <= names
    assert "Next: open" in done.stdout
    results = json.loads((tmp_path / "demo" / "results.json").read_text())
    assert results["quick"] is True
    before, after = (float(text) for text in re.findall(r"RMS error ([0-9.]+)\)", done.stdout))
    ridge = float(re.findall(r"Ridge regression on the same patches has ([0-9.]+)", done.stdout)[0])
    assert after < 1.02 * ridge < 0.7 * before
    right = float(re.findall(r"([0-9.]+)% of the pixels are from the photograph in focus", done.stdout)[0])
    assert right > 95


COMMANDS = [
    "learn",
    "encode",
    "predict",
    "show",
    "fuse",
    "upscale",
    "fill",
    "stain",
    "widen",
    "reproduce",
    "demo",
    "info",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command):
    done = call(command, "--help")
    assert done.returncode == 0
    examples = re.split(r"Examples?:\n", done.stdout)[1].splitlines()
    assert examples
    assert all(line.startswith(f"    coupledict {command}") for line in examples)
    for option in ("--json", "--debug", *([] if command == "info" else ["--force"])):
        assert option in done.stdout
    assert "..." not in [
        line.split()[-1] for line in call("--help").stdout.splitlines() if line.split()[:1] == [command]
    ]


def test_the_help_tells_what_exit_codes_mean():
    text = " ".join(call("--help").stdout.split())
    for meaning in ("0 done", "1 failed", "2 wrong usage", "3 an output already exists", "130 stopped"):
        assert meaning in text


def test_help_and_completion_do_not_wait_for_heavy_packages():
    heavy = "{'numpy', 'scipy', 'sklearn', 'rich', 'matplotlib', 'PIL', 'starlette', 'uvicorn'}"
    program = f"import sys, coupledict, coupledict.cli; print(sorted({heavy} & set(sys.modules)))"
    done = run_python(program, env=environment())
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "found"),
    [("coupledict en", "encode"), ("coupledict learn --upd", "--update"), ("coupledict learn --update k", "ksvd")],
)
def test_shells_complete_commands_options_and_values(words, found):
    settings = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = run(_COUPLEDICT_COMPLETE="complete_bash", **settings)
    assert done.stdout.split() == [found]


def test_completion_is_printed_for_a_shell():
    done = run(_COUPLEDICT_COMPLETE="source_bash")
    assert "complete" in done.stdout
    assert "_COUPLEDICT_COMPLETE" in done.stdout


# Errors


def test_an_error_is_json_where_json_was_asked_for(tmp_path):
    done = call("show", tmp_path / "nothing", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    reported = json.loads(done.stderr)
    assert (reported["exit_code"], reported["kind"]) == (1, "FileNotFoundError")
    done = call("show", "--json")
    assert json.loads(done.stderr)["exit_code"] == done.returncode == 2


def test_a_traceback_is_shown_only_when_asked_for(tmp_path):
    assert "Traceback" not in call("show", tmp_path / "nothing").stderr
    done = call("show", tmp_path / "nothing", "--debug")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-1].startswith("Error: ")


def test_our_own_faults_have_a_code_of_their_own(monkeypatch):
    def fail(name):
        raise KeyError("surprise")

    monkeypatch.setattr(importlib.metadata, "version", fail)
    done = call("info")
    assert done.returncode == 70
    assert done.stderr == (
        "Error: This is a fault in coupledict (KeyError: 'surprise'); please report it with what --debug shows.\n"
    )


def test_warnings_are_sentences_or_part_of_the_json(monkeypatch):
    version = importlib.metadata.version

    def warn(name):
        if name == "numpy":
            warnings.warn("Mind the gap.", stacklevel=1)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", warn)
    assert call("info").stderr == "Warning: Mind the gap.\n"
    done = call("info", "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["warnings"] == ["Mind the gap."]


# Folders of results


def test_results_go_only_to_folders_that_are_empty_or_of_a_quick_run(tmp_path):
    assert not may_replace(tmp_path / "new", force=False)
    (tmp_path / ".partial-x").mkdir()
    assert not may_replace(tmp_path, force=False)
    file = tmp_path / "results.json"
    for text in ("{}", "[1]", "no json", '{"quick": false, "pairs": {}}', '{"quick": true}'):
        file.write_text(text)
        with pytest.raises(FileExistsError, match="holds other files"):
            may_replace(tmp_path, force=False)
        assert may_replace(tmp_path, force=True)
    file.write_text('{"quick": true, "pairs": {}}')
    assert may_replace(tmp_path, force=False)
    refused(call("demo", "-o", file, "--force"), code=1)


@pytest.mark.parametrize("command", ["reproduce", "demo"])
def test_a_folder_of_other_things_is_left_alone(tmp_path, command):
    (tmp_path / "mine.txt").write_text("mine")
    assert "--force" in refused(call(command, "--output", tmp_path), code=3)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


# A terminal


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_and_nowhere_else(tmp_path, rng):
    pty = pytest.importorskip("pty")
    np.save(tmp_path / "x.npy", rng.standard_normal((500, 16)))
    arguments = ["learn", tmp_path / "x.npy", "-o", tmp_path / "m", "-T", "2", "--force"]
    ours, theirs = pty.openpty()
    variables = environment(TERM="xterm", COLUMNS="120", NO_COLOR="")
    with started(python(COMMAND, *arguments), stdout=subprocess.PIPE, stderr=theirs, env=variables) as process:
        os.close(theirs)
        shown = b""
        with patient(process, "the model was learned"):
            with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
                while part := os.read(ours, 4096):
                    shown += part
            out = process.stdout.read()
            assert process.wait() == 0
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert re.search(r"%\s+\d:\d\d:\d\d\s+left", text)
    assert re.search(r"learning\s.*100%.*nonzeros 2\.00, RMS error", text)
    assert out.startswith("Learned 64 atoms")
    assert call(*arguments).stderr == ""
