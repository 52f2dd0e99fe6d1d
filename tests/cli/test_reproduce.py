"""``l5kit reproduce``: rows of the table of learned drivers, in a clone."""

import sys

import pytest

from l5kit.cli import reproduce as command

SCRIPT = """
import beside

def main(arguments):
    print(arguments)
    return beside.STATUS
"""


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone whose script prints its arguments and exits with status 1."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "learned_drivers.py").write_text(SCRIPT)
    (folder / "beside.py").write_text("STATUS = 1\n")
    monkeypatch.setattr(command, "find_clone", lambda: tmp_path)
    yield tmp_path
    sys.modules.pop("beside", None)


def test_the_script_of_the_clone_runs_the_row_and_its_status_is_that_of_the_command(l5kit, clone):
    path = list(sys.path)
    done = l5kit("reproduce", "rules", "--seed", "2", "--quick", "--work", "here", "--workers", "2")
    assert done.exit_code == 1
    expected = ["--reproduce", "rules", "--seed", "2", "--quick", "--work", "here", "--workers", "2"]
    assert done.stdout == f"{expected}\n"
    assert sys.path == path
    done = l5kit("reproduce", "--list", "--other-towns")
    assert done.stdout == f"{['--list', '--other-towns', '--work', 'learned-drivers', '--workers', '1']}\n"


@pytest.mark.parametrize("arguments", [(), ("rules", "--list")], ids=["neither", "both"])
def test_a_row_or_the_list_is_asked_for(l5kit, clone, arguments):
    done = l5kit("reproduce", *arguments)
    assert done.exit_code == 2
    assert "name one row, or give --list alone" in done.stderr


def test_without_a_clone_it_says_to_clone(l5kit, clone, monkeypatch):
    for found in (None, clone / "nothing"):
        monkeypatch.setattr(command, "find_clone", lambda found=found: found)
        done = l5kit("reproduce", "rules")
        assert done.exit_code == 1
        assert done.stderr.startswith("error: reproduce needs a clone")
        assert "git clone https://github.com/l5kit/l5kit" in done.stderr
