"""`hpmoe calibrate`: writes a machine file with the rates that a profile of msprof identifies."""

from __future__ import annotations

import argparse


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    """Adds the command to the parser of `hpmoe`."""
    parser = commands.add_parser(
        "calibrate",
        help="fit the rates of a machine to a profile of msprof",
        description="Fits the rates of a machine description to the operators of a profile that "
        "msprof has exported, and names the rates that it can't identify. A profile whose columns "
        "contradict each other is refused.",
    )
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="op_summary_*.csv or kernel_details.csv, or the directory with it and, for the links, "
        "msprof_*.json or trace_view.json",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE.toml", help="machine file to write"
    )
    parser.add_argument(
        "--machine",
        metavar="NAME",
        help="description with the sizes and all other rates, by default ascend-a3",
    )
    parser.add_argument(
        "--sample",
        action="store_true",
        help="write to the directory TRACE, which must not exist, a profile of the operators that "
        "identify most rates, as the model times them on --machine, and fit that",
    )
    parser.add_argument("--seed", type=int, default=0, help="order of the operators of --sample")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from pathlib import Path

    from hpmoe_ir.calibration.consistency import check_rows
    from hpmoe_ir.calibration.fit import calibrate
    from hpmoe_ir.calibration.machine_file import machine_file, report_lines
    from hpmoe_ir.calibration.profile_files import read_profile
    from hpmoe_ir.calibration.sample_trace import sample_trace
    from hpmoe_ir.diagnostics import InputError
    from hpmoe_ir.machines.machine import MachineError, load_machine, machine_names
    from hpmoe_ir.options.machine import DEFAULT_MACHINE
    from hpmoe_ir.output import check_writable, write_file, write_files

    output, trace = Path(args.output), Path(args.trace)
    if output.suffix != ".toml":
        raise InputError(f"-o: expected a file that ends in .toml, found '{args.output}'")
    check_writable([output])
    name = args.machine or DEFAULT_MACHINE
    if name not in machine_names():
        known = ", ".join(machine_names())
        raise InputError(f"--machine: expected one of {known}, found '{name}'")
    try:
        base = load_machine(name)
    except MachineError as e:
        raise InputError(f"--machine: {e}") from e
    if args.sample:
        if trace.exists():
            raise InputError("--sample: the directory exists already", args.trace)
        sample = sample_trace(base, args.seed)
        files = {
            "op_summary_sample.csv": sample.op_summary,
            "msprof_sample.json": sample.trace_view,
        }
        write_files(trace, files)
        print(f"{'seed':<9} {args.seed}")
    profile = read_profile(trace)
    check_rows(profile.rows, profile.file)
    calibration = calibrate(profile.rows, profile.timeline, base)
    if not calibration.estimates:
        raise InputError(
            "no rate follows from these operators; see docs/calibrating.md", args.trace
        )
    write_file(output, machine_file(output.stem, name, trace.name, calibration))
    print(f"{'profile':<9} {len(profile.rows)} rows of {profile.file}")
    for line in report_lines(base, calibration):
        print(line)
    print(f"{'written':<9} {output}")
    return 0
