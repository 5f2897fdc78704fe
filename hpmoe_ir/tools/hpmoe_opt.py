"""`hpmoe-opt`: reads IR, runs passes, writes IR or the output of another target.

Results go to standard output or to the file of `-o`, everything else to standard error. For invalid
input, it prints one message, exits with status 1 and writes no output.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, NoReturn

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from hpmoe_ir.diagnostics import (
    InputError,
    RefusedError,
    crashes_named,
    location_of,
    one_line,
    pass_named,
    verify_module,
)
from hpmoe_ir.driver.source import STANDARD_INPUT, input_name, parse_module, read_input
from hpmoe_ir.driver.specs import find, parse_one, passes_in
from hpmoe_ir.extensions import extension_universe
from hpmoe_ir.lowering.binary_target import BinaryTarget
from hpmoe_ir.output import write_file
from hpmoe_ir.passes.analysis.pass_kinds import expanded
from hpmoe_ir.tools.command_line import refuse_repeated_options, run_tool
from hpmoe_ir.universe import TARGETS

SEPARATOR = b"// -----"


class HpmoeOptMain(xDSLOptMain):
    """xDSL's optimizer driver with this package's diagnostics and binary targets."""

    version_format = "hpmoe-opt built from xdsl version {xdsl_version}"

    target: Target

    def __init__(self, args: Sequence[str] | None = None):
        # For an unknown target, the base class would exit with status 2 and a long list.
        target_only = argparse.ArgumentParser(add_help=False)
        target_only.add_argument("-t", "--target", default="mlir")
        text = target_only.parse_known_args(args)[0].target
        known = extension_universe().all_targets
        self.target = find("target", parse_one("target", text), known, {"mlir": None, **TARGETS})
        super().__init__("Runs passes over the IR of an MoE layer", args)
        for option in ("verify_diagnostics", "parsing_diagnostics", "shrink"):
            if getattr(self.args, option):
                flag = option.replace("_", "-")
                raise InputError(
                    f"hpmoe-opt has no --{flag}: it writes each diagnostic in one line on standard "
                    "error, with exit status 1"
                )
        if self.target.name == "mlir":
            self.target = dataclasses.replace(
                self.target,
                **{
                    "print_generic_format": self.args.print_op_generic,
                    "print_properties_as_attributes": self.args.print_no_properties,
                    "print_debuginfo": self.args.print_debuginfo,
                    "syntax_highlight": self.args.syntax_highlight,
                },
            )

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        refuse_repeated_options(arg_parser)
        super().register_all_arguments(arg_parser)

        def error(message: str) -> NoReturn:
            raise InputError(message)

        # Status 1 and one line, as for other invalid input, instead of status 2 and the usage.
        arg_parser.error = error
        arg_parser.add_argument(
            "--traceback",
            action="store_true",
            help="show where in this program an unexpected error came from",
        )

    def setup_pipeline(self) -> None:
        self.pipeline = PassPipeline(tuple(expanded(passes_in(self.args.passes))))

    def run(self) -> None:
        """Processes all pieces of the input and writes the result; writes nothing on errors."""
        results: list[bytes] = []
        errors: list[str] = []
        for text, first_line in self._pieces():
            try:
                results.append(self._process(text, first_line))
            except InputError as error:
                errors.append(str(error))
        if errors:
            raise SeveralErrors(errors)
        self._write((SEPARATOR + b"\n").join(results))

    def get_input_name(self) -> str:
        return input_name(Path(self.args.input_file or STANDARD_INPUT))

    def _pieces(self) -> list[tuple[bytes, int]]:
        """Returns the pieces of the input (--split-input-file) with their first line numbers."""
        data = read_input(Path(self.args.input_file or STANDARD_INPUT))
        if not self.args.split_input_file:
            return [(data, 1)]
        pieces: list[tuple[bytes, int]] = []
        line = 1
        for piece in data.split(SEPARATOR):
            pieces.append((piece, line))
            line += piece.count(b"\n")
        return pieces

    def _process(self, text: bytes, first_line: int) -> bytes:
        """Runs the pipeline on one piece of the input and returns the output of the target."""
        module = self._parse(text, first_line)
        self._verify(module)
        for module_pass in self.pipeline.passes:
            self._apply(module_pass, module)
        try:
            if isinstance(self.target, BinaryTarget):
                return self.target.encode(self.ctx, module)
            output = StringIO()
            self.target.emit(self.ctx, module, output)
        except DiagnosticException as error:
            raise self._failed(f"target {self.target.name}", module, error) from error
        return output.getvalue().encode()

    def _parse(self, text: bytes, first_line: int) -> ModuleOp:
        if self.args.frontend is None:
            return parse_module(
                self.ctx,
                text,
                self.get_input_name(),
                first_line=first_line,
                implicit_module=not self.args.no_implicit_module,
            )
        module = self.parse_chunk(BytesIO(text), self.args.frontend)
        assert module is not None, "a frontend makes a module or raises"
        return module

    def _verify(self, module: ModuleOp, after: str = "") -> None:
        if not self.args.disable_verify:
            verify_module(module, after, self.get_input_name())

    def _apply(self, module_pass: ModulePass, module: ModuleOp) -> None:
        start = time.perf_counter()
        try:
            with crashes_named(pass_named(module_pass)):
                module_pass.apply(self.ctx, module)
        except DiagnosticException as error:
            raise self._failed(module_pass.name, module, error) from error
        if self.args.time_passes:
            print(f"{module_pass.name}: {time.perf_counter() - start:.3f} s", file=sys.stderr)
        self._verify(module, module_pass.name)
        if self.args.print_between_passes:
            print(f"// IR after {module_pass.name}", file=sys.stderr)
            Printer(stream=sys.stderr).print_op(module)
            print(file=sys.stderr)

    def _failed(self, what: str, module: ModuleOp, error: DiagnosticException) -> InputError:
        op = error.op if isinstance(error, RefusedError) else module
        message = one_line(str(error))
        if not message.startswith(what):
            message = f"{what}: {message}"
        return InputError(message, location_of(op) or self.get_input_name())

    def _write(self, result: bytes) -> None:
        if self.args.output_file in (None, "-"):
            stream: IO[bytes] = sys.stdout.buffer
            stream.write(result)
            stream.flush()
            return
        write_file(Path(self.args.output_file), result)


class SeveralErrors(InputError):
    """The errors of several pieces of an input, one on each line."""

    def __init__(self, errors: Sequence[str]):
        Exception.__init__(self, "\n".join(errors))


def main(args: Sequence[str] | None = None) -> None:
    """Entry point; prints a message and exits with status 1 for invalid input."""
    words = list(sys.argv[1:] if args is None else args)

    def run() -> int:
        HpmoeOptMain(words).run()
        return 0

    if status := run_tool(words, run):
        sys.exit(status)


if __name__ == "__main__":
    main()
