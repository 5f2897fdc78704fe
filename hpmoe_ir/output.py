"""Writing results: all of them, or nothing and what was there before stays."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from hpmoe_ir.diagnostics import InputError


def write_file(path: Path, data: bytes) -> None:
    """Writes a file, or leaves what was there. Devices and pipes are written to directly.

    Raises InputError where that is not possible.
    """
    write_together({path: data})


def write_together(files: Mapping[Path, bytes]) -> None:
    """Writes files of any folders as `write_file` does; the devices and pipes once all others are.

    Raises InputError where that is not possible.
    """
    path = Path()
    try:
        direct = {p: data for p, data in files.items() if p.exists() and not p.is_file()}
        _write_all({p: data for p, data in files.items() if p not in direct})
        for path, data in direct.items():
            path.write_bytes(data)
    except OSError as e:
        raise InputError(f"can't write the file: {e.strerror}", str(e.filename or path)) from e


def check_places(paths: Iterable[Path]) -> None:
    """Refuses files that can't be written in their folders, before a command takes long for them.

    Raises InputError with the message of `write_together`.
    """
    for path in paths:
        try:
            with os.scandir(_place(path).parent):
                pass
        except OSError as e:
            raise InputError(f"can't write the file: {e.strerror}", str(path)) from e


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Writes files, by their names below `directory`, which is made where there is none.

    All are written under other names first. Where that fails, the other names and new folders are
    removed again. Raises InputError.
    """
    made: list[Path] = []
    try:
        for name in files:
            _make_folder((directory / name).parent, made)
        _write_all({directory / name: data for name, data in files.items()})
    except BaseException as e:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        if isinstance(e, OSError):
            raise InputError(f"can't write: {e.strerror}", str(e.filename or directory)) from e
        raise


def _make_folder(folder: Path, made: list[Path]) -> None:
    """Makes a folder and those around it, and notes each that was not there."""
    if folder.is_dir():
        return
    if folder.exists():
        raise NotADirectoryError(20, "Not a directory", str(folder))
    _make_folder(folder.parent, made)
    folder.mkdir()
    made.append(folder)


def _place(name: Path) -> Path:
    """Where a file is, or will be: a link stays one. Raises OSError where no file can be."""
    with suppress(FileNotFoundError):
        # A name that is too long, or links in a circle.
        name.stat()
    path = name.resolve()
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(name))
    return path


def _write_all(files: Mapping[Path, bytes]) -> None:
    """Replaces files by complete new ones, once all of them have been written."""
    mask = os.umask(0)
    os.umask(mask)
    written: dict[Path, Path] = {}
    try:
        for name, data in files.items():
            path = _place(name)
            try:
                handle, other = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
                written[Path(other)] = path
                with os.fdopen(handle, "wb") as stream:
                    stream.write(data)
            except OSError as e:
                raise OSError(e.errno, e.strerror, str(name)) from e
            os.chmod(other, path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~mask)
        for other, path in list(written.items()):
            os.replace(other, path)
            del written[other]
    finally:
        for other in written:
            with suppress(OSError):
                other.unlink()
