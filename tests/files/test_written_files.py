"""Every writer: nothing but regular files is replaced, names that were taken meanwhile are kept, privacy is kept."""

import errno
import os
import secrets
import socket
import stat
import sys
import threading

import numpy as np
import pytest

import coupledict
from coupledict import DictionaryLearning
from coupledict.audio._files import write_blocks
from coupledict.experiments import reproduction
from coupledict.files import whole, write_model
from coupledict.images._files import Picture, write_image
from coupledict.report import write_report
from support.command import call, refused
from support.learners import plain

without_pipes = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes or sockets among files")
without_modes = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no owners and modes of this kind")
without_links = pytest.mark.skipif(sys.platform == "win32", reason="Windows refuses to rename to a name that is taken")


def learner():
    X = np.random.default_rng(0).standard_normal((30, 4))
    return X, DictionaryLearning(6, n_nonzero_coefs=2, max_iter=2, random_state=0)


def save(path):
    X, model = learner()
    model.fit(X).save(path)


def check_point(path):
    X, model = learner()
    model.fit(X, checkpoint=path)


def image(path):
    write_image(path, Picture(np.zeros((3, 4), np.uint8)), force=True)


def report(path):
    pair = [np.eye(4), np.eye(4)]
    write_report(path, {"version": "0.1.0"}, {"together": pair, "separate": pair}, {})


def experiment(path):
    folder = path.parent / "made"
    folder.mkdir(exist_ok=True)
    (folder / path.name).write_bytes(b"figures")
    whole.move_files(folder, path.parent, replace=True)


WRITERS = {
    "save": (save, ".safetensors"),
    "checkpoint": (check_point, ".safetensors"),
    "write_model": (lambda path: write_model(path, {}, {}), ".safetensors"),
    "picture": (image, ".png"),
    "deep picture": (lambda path: write_image(path, Picture(np.zeros((3, 4, 3), np.uint16)), force=True), ".png"),
    "tiff": (image, ".tif"),
    "sound": (lambda path: write_blocks(path, [np.zeros((8, 1))], 16_000, 1, "PCM_16"), ".wav"),
    "report": (report, ".html"),
    "experiments": (experiment, ".html"),
}


@pytest.fixture(params=WRITERS)
def writer(request):
    return WRITERS[request.param]


@pytest.fixture
def files(tmp_path, rng):
    """Inputs of every command, and a model."""
    picture = rng.integers(0, 256, (24, 24, 3), np.uint8)
    for name in ("a.png", "b.png"):
        image_of = Picture(np.roll(picture, len(name), axis=0))
        write_image(tmp_path / name, image_of)
    tile = np.rint(255 * np.exp(-rng.exponential(0.6, (30, 20, 2)) @ [[0.65, 0.70, 0.29], [0.21, 0.95, 0.22]]))
    write_image(tmp_path / "tile.png", Picture(tile.astype(np.uint8)))
    holes = np.full((24, 24), 255, np.uint8)
    holes[4:8, 4:8] = 0
    write_image(tmp_path / "holes.png", Picture(holes))
    write_blocks(tmp_path / "speech.wav", [0.1 * rng.standard_normal((9000, 1))], 8000, 1, "PCM_16")
    views = rng.standard_normal((2, 40, 4))
    for name, view in zip(("x.npy", "y.npy"), views, strict=True):
        np.save(tmp_path / name, view)
    plain(6, n_nonzero_coefs=2, max_iter=2).fit(list(views)).save(tmp_path / "model")
    return tmp_path


COMMANDS = {
    "learn": (["learn", "x.npy", "y.npy", "-T", "2", "--iterations", "2", "-o"], "m.safetensors"),
    "encode to npz": (["encode", "model", "x.npy", "y.npy", "-o"], "c.npz"),
    "encode to npy": (["encode", "model", "x.npy", "y.npy", "-o"], "c.npy"),
    "predict": (["predict", "model", "none", "y.npy", "--view", "0", "-o"], "p.npy"),
    "show atoms": (["show", "model", "--atoms"], "atoms.png"),
    "show page": (["show", "model", "--html"], "atoms.html"),
    "fuse": (["fuse", "a.png", "b.png", "--register", "never", "-o"], "fused.png"),
    "fuse, its map": (["fuse", "a.png", "b.png", "--register", "never", "-o", "fused.png", "--map"], "map.png"),
    "upscale": (["upscale", "a.png", "--scale", "2", "--degradation", "none", "-o"], "large.png"),
    "fill": (["fill", "a.png", "--mask", "holes.png", "-o"], "whole.png"),
    "stain": (["stain", "tile.png", "--target", "tile.png", "-o"], "normal.png"),
    "stain, its model": (
        ["stain", "tile.png", "--target", "tile.png", "-o", "normal.png", "--save-model"],
        "look.safetensors",
    ),
    "widen": (["widen", "speech.wav", "-o"], "wide.wav"),
}


@pytest.fixture(params=COMMANDS)
def ordered(request, files, monkeypatch):
    """A command, and the file that it is to write."""
    arguments, output = COMMANDS[request.param]
    monkeypatch.chdir(files)
    return [*arguments, output], files / output


# What is no regular file


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # the name of a socket may have some hundred characters at most


@without_pipes
@pytest.mark.parametrize(("make", "kind"), [(make_pipe, "pipe"), (make_socket, "socket")])
def test_pipes_and_sockets_are_not_replaced(writer, tmp_path, monkeypatch, make, kind):
    monkeypatch.chdir(tmp_path)
    write, suffix = writer
    target = tmp_path / f"out{suffix}"
    make(target)
    before = os.stat(target)
    with pytest.raises(OSError, match=f"Expected a file to write, or a new name for one, got the {kind} '.*out"):
        write(target)
    assert os.stat(target).st_ino == before.st_ino
    assert stat.S_IFMT(os.stat(target).st_mode) == stat.S_IFMT(before.st_mode)


@without_pipes
def test_a_link_to_a_pipe_is_a_pipe(writer, tmp_path):
    write, suffix = writer
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / f"out{suffix}").symlink_to(tmp_path / "pipe")
    with pytest.raises(OSError, match="got the pipe"):
        write(tmp_path / f"out{suffix}")
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_read_only_files_are_not_replaced_by_administrators_either(writer, tmp_path):
    write, suffix = writer
    target = tmp_path / f"out{suffix}"
    target.write_bytes(b"precious")
    target.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        write(target)
    assert target.read_bytes() == b"precious"
    target.chmod(0o644)
    write(target)
    assert target.read_bytes() != b"precious"


@without_pipes
def test_commands_refuse_a_pipe_before_they_begin(ordered, monkeypatch):
    command, target = ordered
    os.mkfifo(target)
    for how in ([], ["--force"]):
        assert "got the pipe" in refused(call(*command, *how), code=1)
    assert stat.S_ISFIFO(os.stat(target).st_mode)


# Names that were taken meanwhile


def made_meanwhile(target, monkeypatch):
    """Let somebody else make a file at the last moment."""
    name = "rename" if os.name == "nt" else "link"
    take = getattr(os, name)

    def late(temporary, place):
        if place == target and not target.exists():
            target.write_bytes(b"of somebody else")
        take(temporary, place)

    monkeypatch.setattr(os, name, late)


def test_a_name_that_was_taken_meanwhile_is_kept(ordered, monkeypatch):
    command, target = ordered
    made_meanwhile(target, monkeypatch)
    sentence = refused(call(*command), code=3)
    assert target.name in sentence
    assert target.read_bytes() == b"of somebody else"
    assert not [file for file in os.listdir() if file.startswith(".coupledict-")]
    if command[0] == "learn":  # hours of work are not thrown away
        kept = sentence.split("the model is in '")[1].removesuffix("'.")
        assert [len(atoms) for atoms in coupledict.load(kept).components_] == [10, 10]  # a quarter of the samples
        os.unlink(kept)
    assert call(*command, "--force").returncode == 0
    assert target.read_bytes() != b"of somebody else"


@pytest.mark.parametrize("links", [True, False])
def test_of_many_writers_to_one_new_name_one_succeeds(tmp_path, monkeypatch, links):
    if not links:

        def refuse(*names, **how):
            raise OSError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(os, "link", refuse)
    for attempt in range(20):
        target, ends, ready = tmp_path / f"out-{attempt}", [], threading.Barrier(4)

        def write(number, target=target, ends=ends, ready=ready):
            try:
                with whole.new_file(target, replace=False) as file:
                    file.write(b"%d" % number * 1000)
                    ready.wait(60)
                ends.append(number)
            except FileExistsError:
                pass

        threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ends) == 1
        assert target.read_bytes() == b"%d" % ends[0] * 1000
    assert len(os.listdir(tmp_path)) == 20


@without_links
def test_without_links_a_failed_rename_leaves_the_name_free(tmp_path, monkeypatch):
    def refuse(*names, **how):
        raise OSError(errno.ENOTSUP, "not here")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="not here"), whole.new_file(tmp_path / "out", replace=False) as file:
        file.write(b"x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["codes", "codes.zarr"])
def test_codes_do_not_replace_what_was_made_meanwhile(files, monkeypatch, name):
    monkeypatch.chdir(files)
    rename = os.rename

    def late(temporary, target):
        if target.name == name:
            target.mkdir()
            (target / "precious").write_text("of somebody else")
        rename(temporary, target)

    monkeypatch.setattr(os, "rename", late)
    refused(call("encode", "model", "x.npy", "y.npy", "-o", name), code=3)
    assert os.listdir(name) == ["precious"]
    assert not [file for file in os.listdir() if file.startswith(".coupledict-")]


def test_a_checkpoint_that_somebody_else_made_meanwhile_is_kept(tmp_path, monkeypatch):
    X, model = learner()
    path = tmp_path / "fit.safetensors"
    made_meanwhile(path, monkeypatch)
    with pytest.raises(FileExistsError, match="Could not write the checkpoint of iteration 1"):
        model.fit(X, checkpoint=path)
    assert path.read_bytes() == b"of somebody else"


def test_results_of_experiments_are_moved_all_or_none(tmp_path):
    made, target = tmp_path / "made", tmp_path / "target"
    made.mkdir()
    target.mkdir()
    for name in ("a.png", "b.png", "c.png"):
        (made / name).write_text("new")
    (target / "b.png").write_text("old")
    with pytest.raises(FileExistsError, match=r"b\.png"):
        whole.move_files(made, target, replace=False)
    assert os.listdir(target) == ["b.png"]
    whole.move_files(made, target, replace=True)
    assert {file.name: file.read_text() for file in target.iterdir()} == dict.fromkeys(
        ("a.png", "b.png", "c.png"), "new"
    )
    assert reproduction.move_files is whole.move_files


# Permissions


@without_modes
def test_a_file_that_replaces_a_private_one_is_private_all_the_time(tmp_path):
    target = tmp_path / "model"
    target.write_bytes(b"old")
    target.chmod(0o600)
    with whole.new_file(target) as file:
        file.write(b"new")
        (temporary,) = (path for path in tmp_path.iterdir() if path != target)
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_bytes() == b"new"


@without_modes
@pytest.mark.parametrize("mode", [0o640, 0o664, 0o755])
def test_a_file_keeps_its_permissions_and_its_owner(writer, tmp_path, mode):
    write, suffix = writer
    target = tmp_path / f"out{suffix}"
    target.write_bytes(b"old")
    if os.geteuid() == 0:  # others cannot give files away
        os.chown(target, 4321, 1234)
    target.chmod(mode)
    before = target.stat()
    write(target)
    assert target.read_bytes() != b"old"
    after = target.stat()
    assert stat.S_IMODE(after.st_mode) == mode
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


def test_a_new_file_has_the_permissions_that_new_files_have(writer, tmp_path):
    write, suffix = writer
    plain = tmp_path / secrets.token_hex(4)
    plain.write_bytes(b"")
    write(tmp_path / f"out{suffix}")
    assert (tmp_path / f"out{suffix}").stat().st_mode == plain.stat().st_mode


# Files that others have open, which Windows does not let anybody replace


def open_for(attempts, monkeypatch):
    """Let this be Windows, with a scanner that has a file open for some attempts to replace it."""
    replace, left = os.replace, [PermissionError(errno.EACCES, "it is open")] * attempts

    def refuse(*names):
        if left:
            raise left.pop()
        replace(*names)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(whole.time, "sleep", lambda seconds: None)


def test_a_file_that_a_scanner_has_open_is_replaced_when_it_is_closed(tmp_path, monkeypatch):
    target = tmp_path / "model"
    target.write_bytes(b"old")
    open_for(len(whole.PAUSES), monkeypatch)
    whole.write_file(target, [b"new"])
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["model"]


def test_a_file_that_stays_open_is_kept(tmp_path, monkeypatch):
    target = tmp_path / "model"
    target.write_bytes(b"old")
    open_for(len(whole.PAUSES) + 1, monkeypatch)
    with pytest.raises(PermissionError, match=r"got '.*model', which another program, or an array .* has open"):
        whole.write_file(target, [b"new"])
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.skipif(sys.platform != "win32", reason="only Windows refuses to replace files that are open")
def test_windows_keeps_a_file_that_is_mapped(tmp_path):
    target = tmp_path / "x.npy"
    np.save(target, np.arange(5.0))
    mapped = np.load(target, mmap_mode="r")
    with pytest.raises(PermissionError, match="has open; close that or give another name"):
        whole.write_file(target, [b"new"])
    assert mapped[4] == 4
    del mapped
    whole.write_file(target, [b"new"])
    assert target.read_bytes() == b"new"
