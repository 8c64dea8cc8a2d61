import json
import re
import signal
import subprocess
import time

import pytest
from command import RUN, environment, refused, run

import coupledict


def test_without_arguments_the_commands_are_listed():
    done = run()
    assert "reproduce" in done.stdout + done.stderr
    assert "demo" in done.stdout + done.stderr


def test_the_version_is_told():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"coupledict {coupledict.build_info()['version']} (")


@pytest.mark.parametrize("command", ["reproduce", "demo"])
def test_every_command_has_help(command):
    done = run(command, "--help")
    assert done.returncode == 0
    assert "--output" in done.stdout


def test_an_unknown_command_is_one_error_and_exit_code_2():
    done = run("reproduse")
    assert done.returncode == 2
    assert "reproduse" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("given", ["option", "variable"])
def test_a_data_folder_without_images_is_one_sentence_and_exit_code_2(tmp_path, given):
    output = tmp_path / "out"
    if given == "option":
        done = run("reproduce", "--data", tmp_path / "nothing", "--output", output)
    else:
        done = run("reproduce", "--output", output, COUPLEDICT_DATA=str(tmp_path / "nothing"))
    assert re.match(r"Expected the Lytro pairs .* found none; correct --data", refused(done))
    assert not output.exists() or not list(output.iterdir())


def test_an_output_that_is_a_file_is_one_sentence_and_exit_code_2(tmp_path):
    file = tmp_path / "out"
    file.write_text("mine")
    refused(run("reproduce", "--quick", "--output", file))
    assert file.read_text() == "mine"


def test_an_interrupt_leaves_no_half_written_files(tmp_path):
    output = tmp_path / "out"
    process = subprocess.Popen(
        [*RUN, "reproduce", "--output", str(output), "--threads", "1"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stderr is not None
    while "paired atoms" not in process.stderr.readline():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1] == "Stopped."
    assert "Traceback" not in errors
    assert list(output.iterdir()) == []


def test_the_demo_writes_pictures_and_a_report_and_says_what_to_try_next(tmp_path):
    done = run("demo", "--output", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    names = {file.name for file in (tmp_path / "demo").iterdir()}
    assert {"prediction.png", "fusion.png", "pairs.png", "report.html", "results.json"} <= names
    assert "Next: open" in done.stdout
    results = json.loads((tmp_path / "demo" / "results.json").read_text())
    assert results["quick"] is True
    before, after = (float(text) for text in re.findall(r"RMS error ([0-9.]+)\)", done.stdout))
    assert after < 0.9 * before
    right = float(re.findall(r"([0-9.]+)% of the pixels are from the one in focus", done.stdout)[0])
    assert right > 95
