"""Results are written whole or not at all."""

from __future__ import annotations

import resource
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.output import check_writable, write_file, write_files


@contextmanager
def full_disk(most: int) -> Generator[None]:
    """No file may become longer than `most` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def content(directory: Path) -> dict[str, bytes]:
    """All files below a directory, and its folders."""
    return {
        str(p.relative_to(directory)): b"" if p.is_dir() else p.read_bytes()
        for p in directory.rglob("*")
    }


def test_a_file_is_replaced_and_a_link_stays_one(tmp_path: Path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_file(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(content(tmp_path)) == ["file", "link"]


def test_a_device_stays_one():
    write_file(Path("/dev/null"), b"new")
    assert Path("/dev/null").is_char_device()


def no_place(tmp_path: Path, name: str) -> Path:
    """A path with files, folders and links around it."""
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    return tmp_path / name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none/x", "No such file or directory"),
        ("file/x", "Not a directory"),
        ("folder", "Is a directory"),
        ("circle", "Too many levels of symbolic links"),
        ("circle/x", "Too many levels of symbolic links"),
        ("a" * 300, "File name too long"),
    ],
)
def test_a_place_without_a_file_is_refused_before_and_when_writing(
    tmp_path: Path, name: str, why: str
):
    path = no_place(tmp_path, name)
    before = sorted(p.name for p in tmp_path.iterdir())
    for refuse in (lambda: check_writable([path]), lambda: write_file(path, b"new")):
        with pytest.raises(InputError) as error:
            refuse()
        assert str(error.value) == f"{path}: error: can't write the file: {why}"
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_places_that_can_be_written(tmp_path: Path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("not-yet")
    names = ("new", "old", "link")
    check_writable([Path("/dev/null"), *(tmp_path / name for name in names)])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "old"]
    for name in names:
        write_file(tmp_path / name, b"new")
    assert (tmp_path / "not-yet").read_bytes() == b"new"


@pytest.mark.parametrize("before", [{}, {"file": b"old"}])
def test_a_full_disk_leaves_a_file_as_it_was(tmp_path: Path, before: dict[str, bytes]):
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    with full_disk(10), pytest.raises(InputError, match=r"file: error: can't write the file: "):
        write_file(tmp_path / "file", bytes(100))
    assert content(tmp_path) == before


def test_a_full_disk_leaves_a_directory_as_it_was(tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_bytes(b"old")
    before = content(tmp_path)
    files = {"a": b"new", "deep/b": b"new", "deep/er/c": bytes(100)}
    with full_disk(10), pytest.raises(InputError, match=r"out/deep/er/c: error: can't write: "):
        write_files(tmp_path / "out", files)
    assert content(tmp_path) == before
    write_files(tmp_path / "out", files)
    assert content(tmp_path / "out") == files | {"deep": b"", "deep/er": b""}


def test_a_folder_in_the_way_is_seen_before_anything_is_replaced(tmp_path: Path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(InputError, match=r"b: error: can't write: Is a directory"):
        write_files(tmp_path, {"a": b"new", "b": b"new"})
    assert (tmp_path / "a").read_bytes() == b"old"
