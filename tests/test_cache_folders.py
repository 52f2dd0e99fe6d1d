"""Cache folders of kernels and data for users with hardly any writable folder."""

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
from numba import njit
from numba.core import config
from numba.core.dispatcher import Dispatcher

import l5kit
from l5kit import _cache_folders
from l5kit._cache_folders import KERNELS_ENV_KEY, keep_kernels_somewhere, temporary_cache_folder, usual_cache_folder
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.user_cache import CACHE_DIR_ENV_KEY, cache_folder, hold_lock, key_of


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("place", [os.path.join(os.devnull, "cache"), "~/.cache"], ids=["a file", "no home"])
def test_a_usual_folder_that_cannot_be_is_none(monkeypatch, place):
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda program, appauthor: os.path.join(place, program))
    assert usual_cache_folder("l5kit") is None


def test_the_usual_folder_is_that_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda program, appauthor: str(tmp_path / "new" / program))
    assert usual_cache_folder("numba") == tmp_path / "new" / "numba"
    assert not (tmp_path / "new").exists()


def test_the_temporary_folder_is_the_same_and_of_one_user_alone(temporary):
    folder = temporary_cache_folder()
    assert folder == temporary_cache_folder()
    assert folder.parent == temporary
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kind", ["open to all", "a link", "a file"])
def test_temporary_folders_that_others_may_have_made_are_not_used(temporary, kind):
    folder = temporary_cache_folder()
    folder.rmdir()
    if kind == "open to all":
        folder.mkdir()
        folder.chmod(0o777)
    elif kind == "a link":
        (temporary / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(temporary / "elsewhere")
    else:
        folder.touch()
    other = temporary_cache_folder()
    if kind == "a file":
        assert other is None
    else:
        assert other.is_dir()
        assert other not in (folder, temporary / "elsewhere")


def test_l5kit_keeps_what_it_keeps_in_a_temporary_folder_where_there_is_no_home(temporary, monkeypatch):
    monkeypatch.delenv(CACHE_DIR_ENV_KEY, raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda program, appauthor: f"~/.cache/{program}")
    assert cache_folder().parent == temporary


def test_digests_are_found_where_nothing_can_be_kept(monkeypatch, tmp_path):
    monkeypatch.delenv(CACHE_DIR_ENV_KEY, raising=False)
    monkeypatch.setattr("l5kit.data.user_cache.usual_cache_folder", lambda program: None)
    monkeypatch.setattr("l5kit.data.user_cache.temporary_cache_folder", lambda: None)
    (tmp_path / "a.txt").write_text("a")
    assert dataset_digest(tmp_path, cache=True) == dataset_digest(tmp_path, cache=False)
    with hold_lock(cache_folder() / "x.lock") as problem:
        assert problem


@pytest.fixture
def nowhere(monkeypatch):
    """A process that can keep kernels nowhere."""
    monkeypatch.setenv(KERNELS_ENV_KEY, "")
    monkeypatch.setattr(_cache_folders, "_can_be_written", lambda folder: False)
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setattr(Dispatcher, "enable_caching", Dispatcher.enable_caching)  # put back at the end


def test_kernels_are_kept_in_a_temporary_folder_with_one_warning(nowhere, temporary, monkeypatch):
    with pytest.warns(RuntimeWarning, match=f"kept in {temporary}.* Set {KERNELS_ENV_KEY}"):
        keep_kernels_somewhere()
    assert os.environ[KERNELS_ENV_KEY] == config.CACHE_DIR
    assert Path(config.CACHE_DIR).is_relative_to(temporary)


def test_kernels_are_compiled_without_any_folder(nowhere, monkeypatch):
    monkeypatch.setattr(_cache_folders, "temporary_cache_folder", lambda: None)
    with pytest.warns(RuntimeWarning, match="each process compiles its own"):
        keep_kernels_somewhere()

    @njit(cache=True)
    def add_one(x):
        return x + 1

    assert add_one(1) == 2
    assert add_one.stats.cache_path is None


def test_nothing_is_changed_where_kernels_can_be_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(_cache_folders, "usual_cache_folder", lambda program: pytest.fail("asked for no reason"))
    monkeypatch.setenv(KERNELS_ENV_KEY, str(tmp_path / "kernels"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keep_kernels_somewhere()
    assert os.environ[KERNELS_ENV_KEY] == str(tmp_path / "kernels")


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="permissions of folders are those of POSIX")
def test_the_command_starts_in_a_read_only_installation_without_a_home(tmp_path):
    as_user = []
    if os.getuid() == 0:  # who ignores permissions unless capabilities are dropped
        as_user = [shutil.which("setpriv") or "", "--bounding-set=-all", "--inh-caps=-all"]
        if subprocess.run([*as_user, "true"], capture_output=True, check=False).returncode:
            pytest.skip("the superuser needs setpriv of util-linux to give up its rights")
    site, working, temporary = tmp_path / "site", tmp_path / "working", tmp_path / "temporary"
    ignored = shutil.ignore_patterns("*.nbi", "*.nbc", "page")  # Python's own caches make it start at once
    shutil.copytree(Path(l5kit.__file__).parent, site / "l5kit", ignore=ignored)
    working.mkdir()
    temporary.mkdir()
    folders = [site, working, *(path for path in site.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    no_home = os.path.join(os.devnull, "home")
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "TMPDIR": str(temporary), "HOME": no_home}
    try:
        command = [*as_user, sys.executable, "-m", "l5kit", "--help"]
        done = subprocess.run(command, cwd=working, env=variables, capture_output=True, text=True, check=False)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout
    assert done.stderr.count("Warning") == 1
    assert str(temporary) in done.stderr
    assert not list(working.iterdir())


def test_keys_are_digits_of_the_sha256_also_of_names_that_are_no_text():
    assert key_of("abc") == "ba7816bf8f01cfea"
    assert key_of("abc", 64) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    odd = [key_of(name) for name in (os.fsdecode(b"\xff"), os.fsdecode(b"\xfe"), "\ud800")]
    assert len(set(odd)) == 3
