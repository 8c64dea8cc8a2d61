"""Every benchmark has the same shape and the same options, which are told without any of its peers."""

import ast
import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted(file for file in (ROOT / "benchmarks").glob("*.py") if not file.name.startswith("_"))


@pytest.fixture(scope="module")
def shape():
    spec = importlib.util.spec_from_file_location("_main", ROOT / "benchmarks" / "_main.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parsed(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def call_of_main(tree):
    (call,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "main"
    ]
    return call


@pytest.mark.parametrize("file", BENCHMARKS, ids=lambda file: file.stem)
def test_it_has_the_shape_and_the_options_of_all(file, shape):
    tree = parsed(file)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"cases", "run", "report"} <= functions
    call = call_of_main(tree)
    assert [argument.id for argument in call.args] == ["cases", "run", "report"]
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    options = {name: ast.literal_eval(given[name]) for name in ("data", "repeats")}
    parser = shape.make_parser(ast.get_docstring(tree), **options)
    text = parser.format_help()
    assert all(option in text for option in ("--data", "--output", "--repeats", "--quick"))


@pytest.mark.parametrize("file", BENCHMARKS, ids=lambda file: file.stem)
def test_its_first_line_is_a_sentence(file):
    first = ast.get_docstring(parsed(file)).splitlines()[0]
    assert first.endswith(".")
    assert len(first) <= 120


def test_none_has_a_parser_of_its_own():
    files = [file for file in (ROOT / "benchmarks").glob("*.py") if file.name != "_main.py"]
    assert files
    assert [file.name for file in files if "ArgumentParser(" in file.read_text(encoding="utf-8")] == []


def cases(options):
    options.note("A peer is left out.")
    return {"one": 1, "two": 2}


def run(case, options):
    return {"squares": [case**2] * options.repeats, ("a", "pair"): float("nan")}


def report(results, options):
    return f"{len(results)} cases"


def test_report_and_results_are_written(shape, tmp_path, capsys):
    shape.main(cases, run, report, data=None, repeats=(2, "runs"), arguments=["--output", str(tmp_path)])
    text = (tmp_path / "test_benchmarks.md").read_text(encoding="utf-8")
    assert text in capsys.readouterr().out
    assert text.startswith("# Every benchmark has the same shape")
    assert "A peer is left out." in text
    assert "2 cases" in text
    found = json.loads((tmp_path / "test_benchmarks.json").read_text(encoding="utf-8"))
    assert found["results"]["two"] == {"squares": [4, 4], "a, pair": None}


def test_quick_says_that_its_figures_mean_nothing(shape, tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--quick"]
    shape.main(cases, run, report, data=None, repeats=(3, "runs"), quick={"repeats": 1}, arguments=arguments)
    assert shape.QUICK in capsys.readouterr().out
    found = json.loads((tmp_path / "test_benchmarks.json").read_text(encoding="utf-8"))
    assert found["results"]["one"]["squares"] == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "somewhere"], "makes its data itself"),
        (["--repeats", "2"], "nothing is drawn"),
        (["--repeats", "0"], "at least 1"),
    ],
)
def test_what_has_no_meaning_is_refused(arguments, message, shape, capsys):
    with pytest.raises(SystemExit):
        shape.main(cases, run, report, data=None, repeats=(0, "nothing is drawn"), arguments=arguments)
    assert message in capsys.readouterr().err


def test_tables_are_markdown(shape):
    assert shape.table(["", "time"], [["a|b", "1 s"]]) == "|      | time |\n| ---- | ---: |\n| a\\|b |  1 s |"
