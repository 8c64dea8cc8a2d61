import numpy as np
from PIL import Image
from skimage import data

from support.command import call as run
from support.command import refused
from support.outputs import pixels_of


def test_a_picture_is_enlarged_and_keeps_its_alpha(tmp_path):
    small = data.coffee()[100:160, 200:290]
    alpha = np.tile(np.linspace(0, 255, 90).astype(np.uint8), (60, 1))
    Image.fromarray(np.dstack([small, alpha])).save(tmp_path / "small.png")
    done = run("upscale", tmp_path / "small.png", "-o", tmp_path / "large.png", "--scale", "3")
    assert done.returncode == 0, done.stderr
    assert "270 x 180 pixels" in done.stdout
    large = pixels_of(tmp_path / "large.png")
    assert large.shape == (180, 270, 4)
    assert np.abs(large[90, ::27, 3].astype(int) - np.linspace(0, 255, 270)[::27]).max() < 4


def test_a_model_is_learned_kept_and_used_again(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("coffee", "chelsea"):
        Image.fromarray(getattr(data, name)()[:120, :120]).save(folder / f"{name}.png")
    Image.fromarray(data.camera()[200:260, 200:260]).save(tmp_path / "small.png")
    model, first, second = tmp_path / "m.safetensors", tmp_path / "a.png", tmp_path / "b.png"
    done = run("upscale", tmp_path / "small.png", "-o", first, "--train", folder, "--coupled", "--save-model", model)
    assert done.returncode == 0, done.stderr
    done = run("upscale", tmp_path / "small.png", "-o", second, "--model", model)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(pixels_of(first), pixels_of(second))
    assert "--scale 2" in refused(
        run("upscale", tmp_path / "small.png", "-o", first, "--model", model, "--scale", "3", "--force")
    )


def test_bad_requests_to_enlarge_are_one_sentence_each(tmp_path):
    small, out = tmp_path / "small.png", tmp_path / "out.png"
    Image.fromarray(data.camera()[:40, :40]).save(small)
    (tmp_path / "fake.safetensors").write_text("not a model")
    (tmp_path / "empty").mkdir()
    assert "'--scale'" in refused(run("upscale", small, "-o", out, "--scale", "5"), code=2)
    assert "truncated" in refused(run("upscale", small, "-o", out, "--model", tmp_path / "fake.safetensors"))
    assert "found none" in refused(run("upscale", small, "-o", out, "--train", tmp_path / "empty"))
    assert "found none" in refused(run("upscale", small, "-o", out, "--train", tmp_path / "absent"))
    both = ("--train", tmp_path / "empty", "--model", tmp_path / "fake.safetensors")
    assert "got both" in refused(run("upscale", small, "-o", out, *both))
    assert "--train" in refused(run("upscale", small, "-o", out, "--save-model", tmp_path / "m"))
    assert "--train" in refused(run("upscale", small, "-o", out, "--coupled"))
    assert not out.exists()
