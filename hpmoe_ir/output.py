"""Atomic writing of result files, and temporary directories that no killed process leaves."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hpmoe_ir.diagnostics import InputError


def write_file(path: Path, data: bytes) -> None:
    """Writes a file atomically; devices and pipes are written to directly.

    Raises InputError if the file can't be written; an old file then stays as it was.
    """
    write_together({path: data})


def write_together(files: Mapping[Path, bytes]) -> None:
    """Writes files of any folders, all or none, and after them the devices and pipes.

    Raises InputError if one can't be written.
    """
    path = Path()
    try:
        direct = {p: data for p, data in files.items() if p.exists() and not p.is_file()}
        _write_all({p: data for p, data in files.items() if p not in direct})
        for path, data in direct.items():
            path.write_bytes(data)
    except OSError as e:
        raise InputError(f"can't write the file: {e.strerror}", str(e.filename or path)) from e


def check_writable(paths: Iterable[Path]) -> None:
    """Checks before a long computation that files can be created at `paths`.

    Raises InputError with the same message as `write_together` for a missing folder, a path that
    is a directory, a name that is too long or a cycle of links.
    """
    for path in paths:
        try:
            with os.scandir(_resolved(path).parent):
                pass
        except OSError as e:
            raise InputError(f"can't write the file: {e.strerror}", str(path)) from e


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Writes files by their names below `directory`, which is created if missing.

    All files are written under temporary names first. If that fails, the temporary files and the
    new folders are removed. Raises InputError.
    """
    created: list[Path] = []
    try:
        for name in files:
            _make_folder((directory / name).parent, created)
        _write_all({directory / name: data for name, data in files.items()})
    except BaseException as e:
        for folder in reversed(created):
            with suppress(OSError):
                folder.rmdir()
        if isinstance(e, OSError):
            raise InputError(f"can't write: {e.strerror}", str(e.filename or directory)) from e
        raise


SCRATCH = "scratch-"
"""First part of the names of temporary directories and of their lock file."""


@contextmanager
def scratch_directory(parent: Path) -> Generator[Path]:
    """Creates a temporary directory in `parent` and removes it at the end.

    Its process holds a lock on it. Directories whose lock is free were left by processes that were
    killed, and are removed. Files are made in a scratch directory and then renamed within the file
    system, so that other processes see them whole or not at all. Raises OSError.
    """
    with _locked(parent / f"{SCRATCH}lock"):
        for left in parent.glob(f"{SCRATCH}*/"):
            with suppress(OSError), _locked(left / "lock", wait=False):
                shutil.rmtree(left)
        directory = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=parent))
        own = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(own, fcntl.LOCK_EX)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(own)


@contextmanager
def _locked(path: Path, wait: bool = True) -> Generator[None]:
    """Holds the lock of a file, which is created if missing.

    Raises BlockingIOError if another process has the lock and `wait` is false.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def _make_folder(folder: Path, created: list[Path]) -> None:
    """Creates `folder` and its missing parents, and appends each new one to `created`."""
    if folder.is_dir():
        return
    if folder.exists():
        raise NotADirectoryError(20, "Not a directory", str(folder))
    _make_folder(folder.parent, created)
    folder.mkdir()
    created.append(folder)


def _resolved(name: Path) -> Path:
    """Returns the path of the file behind all links. Raises OSError if no file can exist there."""
    with suppress(FileNotFoundError):
        # Raises OSError for a name that is too long or a cycle of links.
        name.stat()
    path = name.resolve()
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(name))
    return path


def _write_all(files: Mapping[Path, bytes]) -> None:
    """Writes all files under temporary names, then renames each over its target."""
    mask = os.umask(0)
    os.umask(mask)
    written: dict[Path, Path] = {}
    try:
        for name, data in files.items():
            path = _resolved(name)
            try:
                handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
                written[Path(temporary)] = path
                with os.fdopen(handle, "wb") as stream:
                    stream.write(data)
            except OSError as e:
                raise OSError(e.errno, e.strerror, str(name)) from e
            os.chmod(temporary, path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~mask)
        for temporary, path in list(written.items()):
            os.replace(temporary, path)
            del written[temporary]
    finally:
        for temporary in written:
            with suppress(OSError):
                temporary.unlink()
