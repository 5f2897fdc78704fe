"""Runs a case in this process or in one of its own, and says what is wrong with how it ended."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from hpmoe_ir.tools import hpmoe, hpmoe_opt

Main: TypeAlias = Callable[[Sequence[str]], None]

MAINS: dict[str, Main] = {"hpmoe": hpmoe.main, "hpmoe-opt": hpmoe_opt.main}

SECONDS = 10.0
"""Processor seconds of a case that count as a hang, however loaded the machine is."""

MEMORY = 1 << 30
"""Bytes of address space that a case may add."""

MESSAGE = re.compile(r"(?P<place>[^\n]*?: )?error: \S")
PREVIOUS = b"what was here before\n"


class Hang(BaseException):
    """The time of a case is over. No handler of the commands takes it."""


@dataclass(frozen=True)
class Case:
    """A command with the files that it finds."""

    kind: str
    tool: str
    args: tuple[str, ...]
    files: Mapping[str, bytes]
    origin: str
    """Seed file and mutations, for people."""
    output: str = ""
    """File or directory that the command writes; in `files` where it exists before."""
    more_outputs: tuple[str, ...] = ()
    """Further ones: the command writes all of them or none."""
    place: str = ""
    """What the location of each message must match, if there is one to tell."""
    path: str = ""
    """Directory with installed packages that the command finds."""
    file_limit: int | None = None
    """Most bytes of a file that can be written: a full disk."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """All that the command writes."""
        return (*((self.output,) if self.output else ()), *self.more_outputs)


@dataclass
class Ending:
    """How a case ended."""

    status: int | None
    stdout: bytes
    stderr: str
    problems: list[str] = field(default_factory=list[str])


def lay_out(case: Case, directory: Path) -> None:
    """Writes the files of a case into an empty directory."""
    for entry in directory.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for name, data in case.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def run_here(case: Case, directory: Path) -> Ending:
    """Runs a case in this process, without the commands' last handler of exceptions."""
    lay_out(case, directory)
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    stderr = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    ending = Ending(None, b"", "")
    keep = sys.path[:], os.getcwd(), resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGPROF, _over)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        os.chdir(directory)
        if case.path:
            sys.path.insert(0, str(directory / case.path))
        if case.file_limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (case.file_limit, keep[2][1]))
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            MAINS[case.tool](
                [*case.args, "--traceback"]
                if case.tool == "hpmoe-opt"
                else ["--traceback", *case.args]
            )
    except SystemExit as exit:
        ending.status = exit.code if isinstance(exit.code, int) else 0 if exit.code is None else -1
    except Hang as hang:
        ending.problems.append(f"hang: more than {SECONDS:g} s of work\n{_frames(hang)}")
    except BaseException as error:
        ending.problems.append(f"traceback: {_frames(error)}")
    else:
        ending.status = 0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, keep[2])
        os.chdir(keep[1])
        sys.path[:] = keep[0]
    ending.stdout = stdout.detach().getvalue()
    ending.stderr = stderr.detach().getvalue().decode()
    if not ending.problems:
        ending.problems += problems_of(case, ending, directory)
    return ending


def run_forked(case: Case, directory: Path) -> Ending:
    """Runs a case in a copy of this process, so that what it loads and starts is gone with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        ending = run_here(case, directory)
        with os.fdopen(writing, "wb") as stream:
            pickle.dump(ending, stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not data:
        return Ending(None, b"", "", [f"the process ended with status {status}"])
    ending = pickle.loads(data)
    assert isinstance(ending, Ending), "what the copy has sent"
    return ending


def run_apart(case: Case, directory: Path) -> Ending:
    """Runs a case as the console script would, with the last handler of exceptions."""
    lay_out(case, directory)
    module = f"hpmoe_ir.tools.{case.tool.replace('-', '_')}"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    if case.path:
        env["PYTHONPATH"] = f"{directory / case.path}{os.pathsep}{env['PYTHONPATH']}"
    command = [sys.executable, "-m", module, *case.args]
    most = resource.RLIM_INFINITY if case.file_limit is None else case.file_limit
    work = int(6 * SECONDS)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (work, work + 1))

    done = subprocess.run(
        command, cwd=directory, env=env, capture_output=True, check=False, preexec_fn=limit
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return Ending(None, b"", "", [f"hang: more than {work} s of work"])
    ending = Ending(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))
    ending.problems += problems_of(case, ending, directory)
    return ending


def problems_of(case: Case, ending: Ending, directory: Path) -> list[str]:
    """What is wrong with how a case ended: status, message, files."""
    problems: list[str] = []
    found = {
        str(p.relative_to(directory)): p.read_bytes()
        for p in directory.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }

    def is_output(name: str) -> bool:
        return any(name == output or name.startswith(f"{output}/") for output in case.outputs)

    changed = [n for n, data in case.files.items() if found.get(n) != data]
    added = sorted(set(found) - set(case.files))
    if ending.status == 0:
        changed = [n for n in changed if not is_output(n)]
        added = [n for n in added if not is_output(n)]
        problems += [
            f"status 0, and nothing in {output}"
            for output in case.outputs
            if found.get(output, PREVIOUS) == PREVIOUS and not os.path.isdir(directory / output)
        ]
    elif ending.status == 1:
        problems += _message_problems(case, ending)
    else:
        problems.append(f"status {ending.status}")
    if warning := re.search(r"\w+Warning: .*", ending.stderr):
        problems.append(f"a warning of Python: {warning.group()}")
    if changed:
        problems.append(f"status {ending.status}, and changed {', '.join(changed[:3])}")
    if added:
        problems.append(f"status {ending.status}, and left {', '.join(added[:3])}")
    for output in case.outputs if ending.status else ():
        before = any(n == output or n.startswith(f"{output}/") for n in case.files)
        if os.path.isdir(directory / output) and not before:
            problems.append(f"status {ending.status}, and left the folder {output}")
    return problems


def _message_problems(case: Case, ending: Ending) -> list[str]:
    lines = [l for l in ending.stderr.splitlines() if not l.startswith(("note: ", "  "))]
    if "Traceback" in ending.stderr:
        return ["traceback on standard error"]
    if "error: unexpected " in ending.stderr:
        return [f"an unexpected error: {ending.stderr[:300]}"]
    if not any(lines):
        return ["status 1 without a message"]
    problems: list[str] = []
    if ending.stdout and case.tool == "hpmoe-opt":
        problems.append("status 1 with a result on standard output")
    match = MESSAGE.match(lines[-1])
    if match is None:
        problems.append(f"no message: {lines[-1][:300]!r}")
    elif case.place and not re.match(case.place, lines[-1]):
        problems.append(f"no place: {lines[-1][:300]!r}")
    elif len(lines[-1]) > 3000:
        problems.append(f"a message of {len(lines[-1])} characters: {lines[-1][:200]!r}")
    return problems


def _over(number: int, frame: FrameType | None) -> None:
    raise Hang


def _frames(error: BaseException) -> str:
    """Kind and message of an exception, and where it came from, innermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "hpmoe_ir" in f.filename or f is frames[-1]][-4:]
    places = " < ".join(
        f"{'/'.join(Path(f.filename).parts[-2:])}:{f.lineno} {f.name}" for f in reversed(own)
    )
    return f"{type(error).__name__}: {str(error)[:200]}\n      {places}"


def limit_memory() -> None:
    """Keeps this process from using more than MEMORY from now on."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * resource.getpagesize()
    resource.setrlimit(
        resource.RLIMIT_AS, (now + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1])
    )
