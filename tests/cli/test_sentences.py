"""What commands say when something is wrong: sentences with names and options, and the exit codes that --help tells."""

import errno
import os
import pickle
import re

import numpy as np
import pytest

from coupledict import CoupledDictionaryLearning
from coupledict.cli import _app
from coupledict.cli._app import app
from support import extras
from support.command import call, refused

OURS = re.compile(r"\[Errno|unsafely|allow_pickle|force=True|missing='nan'|Traceback|0x[0-9a-f]{6}")


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    """Files that are right, and files that are not what commands expect."""
    monkeypatch.chdir(tmp_path)
    views = [rng.standard_normal((30, 4)) for _ in range(2)]
    np.save("x.npy", views[0])
    np.save("y.npy", views[1])
    CoupledDictionaryLearning(6, n_nonzero_coefs=2, max_iter=2, predictor="dictionary").fit(views).save(
        "model.safetensors"
    )
    os.mkdir("folder")
    with open("pickled.npy", "wb") as file:
        pickle.dump([1, 2], file)
    np.save("objects.npy", np.array([[{}, 1]], dtype=object))
    np.savez("objects.npz", x=np.array([[{}, 1]], dtype=object))
    np.savez("words.npz", x=np.array([["a", "b"]]))
    np.savez("missing.npz", x=np.where(rng.random((30, 4)) < 0.3, np.nan, views[0]), y=views[1])
    for name in ("garbage.npy", "garbage.npz", "garbage.png", "garbage.wav", "garbage.safetensors"):
        with open(name, "wb") as file:
            file.write(b"no such format" * 9)
    with open("cut.npy", "wb") as file, open("x.npy", "rb") as whole:
        file.write(whole.read()[:-60])
    return tmp_path


UNREADABLE = {
    "learn, absent": ["learn", "no.npy", "-o", "m"],
    "learn, garbage": ["learn", "garbage.npy", "-o", "m"],
    "learn, pickled": ["learn", "pickled.npy", "-o", "m"],
    "learn, objects": ["learn", "objects.npy", "-o", "m"],
    "learn, packed objects": ["learn", "objects.npz", "-o", "m"],
    "learn, words": ["learn", "words.npz", "-o", "m"],
    "learn, packed garbage": ["learn", "garbage.npz", "-o", "m"],
    "learn, cut": ["learn", "cut.npy", "-o", "m"],
    "learn, with holes": ["learn", "missing.npz", "-o", "m"],
    "encode, absent model": ["encode", "no", "x.npy", "y.npy", "-o", "c.npz"],
    "encode, folder": ["encode", "folder", "x.npy", "y.npy", "-o", "c.npz"],
    "encode, garbage": ["encode", "garbage.safetensors", "x.npy", "y.npy", "-o", "c.npz"],
    "encode, folder as a view": ["encode", "model.safetensors", "folder", "y.npy", "-o", "c.npz"],
    "predict, absent": ["predict", "model.safetensors", "none", "no.npy", "--view", "0", "-o", "p.npy"],
    "show, absent": ["show", "no"],
    "show, folder": ["show", "folder"],
    "show, garbage": ["show", "garbage.safetensors"],
    "fuse, absent": ["fuse", "no.png", "not.png", "-o", "f.png"],
    "fuse, garbage": ["fuse", "garbage.png", "garbage.png", "garbage.wav", "-o", "f.png"],
    "upscale, absent": ["upscale", "no.png", "-o", "f.png"],
    "upscale, folder": ["upscale", "folder", "-o", "f.png"],
    "upscale, absent model": ["upscale", "garbage.png", "--model", "no", "-o", "f.png"],
    "fill, absent": ["fill", "no.png", "-o", "f.png"],
    "stain, absent": ["stain", "no.png", "--target", "no.png", "-o", "f.png"],
    "widen, absent": ["widen", "no.wav", "-o", "f.wav"],
    "widen, folder": ["widen", "folder", "-o", "f.wav"],
    "widen, garbage": ["widen", "garbage.wav", "-o", "f.wav"],
    "widen, folder of no speech": ["widen", "garbage.wav", "--train", "folder", "-o", "f.wav"],
}

#: What a command looks for before it reads; without it, it says so.
READERS = {**dict.fromkeys(("fuse", "upscale", "fill", "stain"), "PIL"), "widen": "soundfile"}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_a_sentence_of_our_own_and_exits_with_1(folder, case):
    command = UNREADABLE[case][0]
    if command in READERS:
        extras.need(READERS[command])
    before = sorted(os.listdir())
    sentence = refused(call(*UNREADABLE[case]), code=1)
    assert not OURS.search(sentence), sentence
    assert sentence.endswith(".")
    assert sentence[0].isupper() or sentence[0] == "'"
    assert sorted(os.listdir()) == before


def test_objects_are_told_from_damage(folder):
    assert "Python objects, which are not read" in refused(call("learn", "objects.npy", "-o", "m"))
    assert "Python objects, which are not read" in refused(call("learn", "objects.npz", "-o", "m"))
    for file in ("garbage.npy", "cut.npy", "pickled.npy"):
        assert "another kind of file or a damaged one" in refused(call("learn", file, "-o", "m"))
    assert "to hold real numbers" in refused(call("learn", "words.npz", "-o", "m"))


def test_sentences_name_options_where_the_library_names_parameters(folder):
    sentence = refused(call("learn", "missing.npz", "-o", "m"), code=1)
    assert "--missing" in sentence
    refusal = refused(call("predict", "model.safetensors", "none", "y.npy", "--view", "0", "-o", "x.npy"), code=3)
    assert "give another name, or --force to replace it" in refusal


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOENT, "Expected the file or folder 'some.npy', found none"),
        (errno.EISDIR, "Expected a file, got the folder 'some.npy'."),
        (errno.ENOTDIR, "Expected every parent of 'some.npy' to be a folder, got a file."),
        (errno.EACCES, "Permission to use 'some.npy'"),
        (errno.ENOSPC, "There is no space left on the disk for 'some.npy'"),
        (errno.EIO, "The system could not use 'some.npy': input/output error."),
    ],
)
def test_what_the_system_says_becomes_a_sentence(number, words):
    code, sentence = _app._explain(OSError(number, os.strerror(number), "some.npy"))
    assert (code, sentence[: len(words)]) == (1, words)
    assert _app._explain(OSError(number, os.strerror(number)))[1].endswith(".")


@pytest.mark.parametrize(
    "arguments",
    [
        ["learn", "x.npy", "-o", "q.bin"],
        ["learn", "x.npy", "-o", "m.npy"],
        ["learn", "x.npy", "-o", "m", "--checkpoint", "c.npz"],
        ["upscale", "a.png", "-o", "b.png", "--train", "folder", "--save-model", "m.png"],
        ["stain", "a.png", "--target", "a.png", "-o", "b.png", "--save-model", "m.npz"],
        ["widen", "a.wav", "-o", "b.wav", "--train", "folder", "--save-model", "m.wav"],
    ],
)
def test_models_do_not_get_the_ending_of_something_else(folder, arguments):
    before = sorted(os.listdir())
    assert "Expected the name of a model to end in .safetensors, got" in refused(call(*arguments), code=2)
    assert sorted(os.listdir()) == before


def test_values_have_names_of_one_kind_in_the_help():
    names = set()
    for command in app.registered_commands:
        said = call(command.callback.__name__.rstrip("_"), "--help").stdout
        options = said.split("Options:")[1].split("Example")[0]
        names |= set(re.findall(r"^  (?:-\w, )?--[\w-]+ ([^\s<]\S*)  ", options, flags=re.MULTILINE))
        assert not re.search(
            r"^  (-\w, )?--[\w-]+ <(path|int|float|str|text)", options, flags=re.MULTILINE | re.IGNORECASE
        )
        usage = said.splitlines()[0]
        assert not re.search(r"\{[a-z]", usage), usage
    assert names == {"FILE", "DIR", "N", "NUMBER", "TEXT", "VIEW", "SIZE", "PREFIX"}


def test_every_command_that_writes_takes_its_output_by_an_option(folder):
    for command in app.registered_commands:
        name = command.callback.__name__.rstrip("_")
        said = call(name, "--help").stdout
        assert ("-o, --output" in said) == (name not in ("show", "serve", "info")), name
