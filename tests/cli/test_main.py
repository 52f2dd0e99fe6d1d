"""The command as a whole: help, version, exit codes, errors in one line."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import l5kit as package
from l5kit._compiling import ADVICE, COMPILING, CompilationWatch

COMMANDS = (
    *("demo", "synth", "info", "validate", "mask", "chop", "export", "render", "record", "view"),
    *("config", "warmup", "bench", "train-rl", "download", "manifest", "verify", "artifact", "checkpoint", "reproduce"),
    *("compare", "drive", "edit"),
)
CTRL_C = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
SCRIPT = Path(sys.executable).with_name("l5kit")


def installed(*arguments, **environment):
    """Run the installed script in a separate process."""
    return subprocess.run(
        [str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.process
def test_the_installed_script_knows_its_version():
    done = installed("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"l5kit {package.__version__}\n", "")


@pytest.mark.process
@pytest.mark.parametrize("module", ["l5kit", "l5kit.cli"])
def test_the_package_runs_as_a_module(module):
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"l5kit {package.__version__}\n")


@pytest.mark.process
@pytest.mark.parametrize("words", [["--version"], ["--versio"], ["simulat", "city"], ["--debug", "nosuch"]])
def test_what_names_no_command_imports_none(words):
    source = (
        f"import sys; sys.argv[1:] = {words}\nfrom l5kit.cli.main import run\n"
        "try: run()\nexcept SystemExit: pass\n"
        "print(*sorted(name for name in sys.modules if name.startswith('l5kit.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "l5kit.cli.main l5kit.cli.output l5kit.cli.reporting"


@pytest.mark.process
def test_a_wrong_name_is_answered_with_the_nearest_of_all():
    done = installed("simulat", "city")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "error: no such command 'simulat' (did you mean 'simulate'?); l5kit --help shows how to call it\n"
    )


def test_help_names_all_commands(l5kit):
    done = l5kit("--help")
    assert done.exit_code == 0
    for command in COMMANDS:
        assert command in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_an_example_of_it(l5kit, command):
    done = l5kit(command, "--help")
    assert done.exit_code == 0
    assert f"l5kit {command}" in done.stdout.partition("Examples:")[2]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["nothing"], id="no such command"),
        pytest.param(["info"], id="no path"),
        pytest.param(["info", ".", "--colour"], id="no such option"),
        pytest.param(["render", ".", "--out", "x.jpg"], id="no such kind of picture"),
        pytest.param(["render", ".", "--out", "x.png", "--frames", "0:5"], id="several frames in a png"),
        pytest.param(["render", ".", "--out", "x.gif", "--frame", "5"], id="one frame in a gif"),
        pytest.param(["render", ".", "--out", "x.gif", "--frames", "5"], id="no range of frames"),
        pytest.param(["render", ".", "--out", "x.gif", "--frames", "5:9:0"], id="a step of 0"),
        pytest.param(["render", ".", "--out", "x.png", "--size", "640"], id="no size"),
        pytest.param(["render", ".", "--out", "x.png", "--size", "0x9"], id="an empty picture"),
        pytest.param(["render", ".", "--out", "x.png", "--map-type", "none"], id="no such map"),
        pytest.param(["synth", "x", "--scenes", "many"], id="no number"),
    ],
)
def test_a_wrong_call_ends_with_2_and_says_so_on_stderr(l5kit, arguments):
    done = l5kit(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(" --help shows how to call it")


@pytest.mark.parametrize("command", ["info", "validate", "mask"])
def test_a_missing_dataset_is_one_line_on_stderr(l5kit, command, tmp_path):
    done = l5kit(command, tmp_path / "nothing", "--json")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: no dataset at")
    assert done.stderr.count("\n") == 1


@pytest.mark.process
@pytest.mark.parametrize("arguments", [["--debug", "info", "nothing"], ["info", "nothing", "--debug"]], ids=str)
def test_debug_shows_the_traceback(arguments):
    done = installed(*arguments)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "DatasetNotFoundError" in done.stderr


@pytest.mark.process
def test_without_debug_there_is_no_traceback():
    done = installed("info", "nothing")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_debug_after_two_dashes_is_a_value(l5kit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = l5kit("info", "--", "--debug")
    assert done.exit_code == 1
    assert "no dataset at '--debug'" in done.stderr


def failing(error):
    def fail(*_, **__):
        raise error

    return fail


def test_an_unexpected_error_is_one_line_too(l5kit, monkeypatch):
    monkeypatch.setattr("l5kit.cli.info.find_all_logs", failing(ZeroDivisionError("first\nsecond")))
    done = l5kit("info", ".")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ZeroDivisionError: first second (unexpected; --debug shows")
    assert done.stderr.count("\n") == 1


def test_a_call_without_words_gets_the_help(l5kit):
    done = l5kit()
    assert "Usage: l5kit" in done.output
    assert "error: " not in done.output


def test_a_wrong_value_and_a_wrong_file_look_alike(l5kit, tmp_path):
    calls = (["synth", "x", "--scenes", "many"], ["info", tmp_path / "nothing"])
    lines = [l5kit(*call).stderr.splitlines() for call in calls]
    assert [len(each) for each in lines] == [1, 1]
    assert all(line.startswith("error: ") for (line,) in lines)


def test_help_breaks_its_paragraphs_where_lines_are_full(l5kit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ([], ["bench"], ["train"]):
        lines = [line.strip() for line in l5kit(*command, "--help").stdout.partition("╭")[0].splitlines()]
        for line, following in itertools.pairwise(lines[2:]):
            if line and following:
                assert len(line) + len(following.split()[0]) > 70, line


def test_an_interruption_is_one_line_and_ends_with_130(l5kit, monkeypatch):
    monkeypatch.setattr("l5kit.cli.info.find_all_logs", failing(KeyboardInterrupt()))
    done = l5kit("info", ".")
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize(("ending", "status"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_an_error_in_the_way_out_of_an_ended_command_hides_nothing(l5kit, monkeypatch, ending, status):
    def end(*_, **__):
        try:
            raise ending
        finally:
            os.close(-1)  # which is an OSError: a bad file descriptor

    monkeypatch.setattr("l5kit.cli.info.find_all_logs", end)
    done = l5kit("info", ".")
    told = {130: "interrupted\n", 143: "terminated\n"}[status]
    assert (done.exit_code, done.stdout, done.stderr) == (status, "", told)


def test_an_error_that_answers_an_interruption_on_purpose_is_told(l5kit, monkeypatch):
    def end(*_, **__):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise OSError("no") from None

    monkeypatch.setattr("l5kit.cli.info.find_all_logs", end)
    assert l5kit("info", ".").exit_code == 1


def start_module(*arguments, cwd=None, **environment):
    """Start the command in a separate process that Ctrl+C reaches."""
    return subprocess.Popen(
        [sys.executable, "-m", "l5kit.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=os.environ | environment,
    )


@pytest.mark.process
def test_a_reader_that_leaves_ends_the_command_without_a_word(city):
    process = start_module("info", city)
    process.stdout.close()  # as head does
    assert (process.stderr.read(), process.wait(timeout=120)) == ("", 1)
    process.stderr.close()


@pytest.mark.process
@pytest.mark.parametrize("source", [CTRL_C, f"exec({CTRL_C!r})"], ids=["a module", "text that is executed"])
def test_an_interruption_while_libraries_are_imported_is_one_line_too(tmp_path, source):
    """A numba that interrupts its own import replaces a person's Ctrl+C."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(source)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = start_module("info", ".", PYTHONPATH=path)
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")


@pytest.mark.process
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_command_at_work_that_is_interrupted_leaves_nothing_behind(tmp_path, workers):
    process = start_module("synth", "city", "--scenes", "500", "--workers", workers, cwd=tmp_path)
    end = time.monotonic() + 120
    while not list(tmp_path.rglob("scenes")) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout) == (130, "")
    assert [line for line in stderr.splitlines() if not line.startswith("note: compiling")] == ["interrupted"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.process
def test_compilation_is_told_once_where_it_happens(city, tmp_path):
    """Also where standard error is no terminal, and never on standard output."""
    runs = []
    for _ in range(2):
        process = start_module("mask", city, "--json", NUMBA_CACHE_DIR=str(tmp_path))
        stdout, stderr = process.communicate(timeout=300)
        assert process.returncode == 0
        json.loads(stdout)
        runs.append(stderr.splitlines())
    ((line,), nothing) = runs
    assert line == f"note: {COMPILING}, {ADVICE}"
    assert nothing == []


def test_warming_up_is_not_advised_to_those_who_do_it(l5kit, city, monkeypatch):
    class TellingWatch(CompilationWatch):
        def __init__(self, on_first):
            super().__init__()
            on_first()

    monkeypatch.setattr("l5kit.cli.reporting.CompilationWatch", TellingWatch)
    assert l5kit("warmup", "--json").stderr.splitlines()[0] == f"note: {COMPILING}"
    assert l5kit("info", city, "--json").stderr.splitlines()[0] == f"note: {COMPILING}, {ADVICE}"


def test_a_warning_is_one_line_and_leaves_the_warnings_module_as_it_was(l5kit, monkeypatch):
    def warn(*_, **__):
        warnings.warn("the first\nand the second line", RuntimeWarning, stacklevel=2)
        raise FileNotFoundError("gone")

    monkeypatch.setattr("l5kit.cli.info.find_all_logs", warn)
    before = warnings.showwarning
    done = l5kit("info", ".")
    assert done.stderr == "warning: the first and the second line\nerror: gone\n"
    assert warnings.showwarning is before


@pytest.mark.process
def test_the_shell_completes_commands():
    done = installed(_L5KIT_COMPLETE="complete_bash", COMP_WORDS="l5kit va", COMP_CWORD="1")
    assert "validate" in done.stdout.split()


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_completion_is_printed(shell):
    """The shell is given by name, since typer would otherwise look for the one that runs the tests."""
    done = installed("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "_L5KIT_COMPLETE=complete_" + shell in done.stdout


@pytest.mark.process
def test_help_loads_no_torch():
    code = "import sys, l5kit.cli.main as main; main.make_app(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
