"""The kinds of cases: which command, which input, how it is mutated."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.frontends.mindir import mindir_format
from hpmoe_ir.lowering.task_table import HEADER
from text_fuzz.mutate import flip, mutate
from text_fuzz.seeds import Seeds
from text_fuzz.watch import PREVIOUS, Case

Kind: TypeAlias = Callable[[Seeds, Random], Case]

PASSES_OF = {
    "moe": (
        "convert-moe-to-comm", "derive-backward", "derive-backward{recompute=swiglu,up,dispatch}",
        "derive-backward{accumulate=true}", "lower-moe",
        "lower-moe{granularity=expert row_chunks=2}",
        "derive-backward,lower-moe", "cse", "canonicalize",
    ),
    "comm": (
        "convert-comm-to-tile", "convert-comm-to-tile{row_chunks=2 put_chunks=2 task_cols=16}",
    ),
    "tile": (
        "insert-dependencies", "insert-dependencies{granularity=expert}", "elide-dependencies",
        "insert-dependencies,elide-dependencies", "plan-memory", "assign-queues",
        "insert-dependencies,elide-dependencies,plan-memory,assign-queues,allocate-events",
        "annotate-costs", "substitute-kernel{kernel=copy_rows by=swiglu}",
        "assign-queues{policy=operator-order rotate=false}",
    ),
    "queue": ("allocate-events", "verify-queues", "verify-queues", "expand-tasks",
              "expand-tasks{limit=4}", "annotate-costs",
              "plan-memory", "allocate-events,plan-memory"),
}  # fmt: skip

TARGETS = ("ascendc", "task-table", "host")


def _output(rng: Random, name: str) -> tuple[dict[str, bytes], str]:
    """Files that are there before, and the output's name."""
    return ({name: PREVIOUS} if rng.random() < 0.5 else {}), name


def _opt(kind: str, text: bytes, origin: str, rng: Random, args: list[str], **more: Any) -> Case:
    before, output = _output(rng, "out.mlir")
    files = {"in.mlir": text, **before, **more.pop("files", {})}
    # A pass that needs another machine or an option says so without a place in the text.
    return Case(
        kind, "hpmoe-opt", ("in.mlir", *args, "-o", output), files, origin, output,
        place=more.pop("place", r"in\.mlir(:\d+:\d+)?: error: "), **more,
    )  # fmt: skip


def ir(level: str) -> Kind:
    """Mutated IR of a level, verified only, through passes, or to a target."""

    def case(seeds: Seeds, rng: Random) -> Case:
        name, text = rng.choice(seeds.ir[level])
        data, changes = mutate(text, rng, seeds.texts(level))
        args: list[str] = []
        if rng.random() < 0.7:
            args += ["-p", rng.choice(PASSES_OF[level])]
        if rng.random() < (0.5 if level == "queue" else 0.05):
            args += ["-t", rng.choice(TARGETS)]
        elif rng.random() < 0.2:
            args.append("--print-op-generic")
        return _opt(level, data, f"{name} {changes}", rng, args)

    return case


def pipeline(seeds: Seeds, rng: Random) -> Case:
    """Mutated passes and targets on good IR."""
    level = rng.choice(("moe", "tile", "queue"))
    name = f"small:{level}"
    text = next(t for n, t in seeds.ir[level] if n == name)
    others = [*seeds.pipelines, *PASSES_OF[level]]
    passes, changes = mutate(rng.choice(others), rng, others)
    args = ["-p", passes.decode("utf-8", "replace").replace("\0", "")]
    if rng.random() < 0.3:
        target, more = mutate(rng.choice(('ascendc{program="small"}', "mlir{print-debuginfo=true}",
                                          "task-table", "host{program=small}")), rng)  # fmt: skip
        args = ["-t", target.decode("utf-8", "replace").replace("\0", "")]
        changes = more
    elif rng.random() < 0.2:
        args[1] = rng.choice(PASSES_OF[level])
        args += rng.choice((["--split-input-file"], ["--no-implicit-module"], ["-f", "mlir"],
                            ["--allow-unregistered-dialect"],
                            ["--print-between-passes"]))  # fmt: skip
    long = {"-p": "--passes", "-t": "--target"}[args[0]]
    args = [f"{long}={args[1]}", *args[2:]]
    return _opt("pipeline", text.encode(), f"{name} {changes}", rng, args, place="")


def machine(seeds: Seeds, rng: Random) -> Case:
    """A mutated machine description."""
    name = rng.choice(list(seeds.machines))
    data, changes = mutate(seeds.machines[name], rng, list(seeds.machines.values()))
    passes = rng.choice(("lower-moe", "derive-backward,lower-moe"))
    args = ["-p", passes + '{machine="my.toml"}', *rng.choice(([], [], ["-t", "ascendc"]))]
    return _opt("machine", seeds.graph.encode(), f"{name} {changes}", rng, args, place="",
                files={"my.toml": data})  # fmt: skip


def config(seeds: Seeds, rng: Random) -> Case:
    """A mutated model configuration."""
    name = rng.choice(list(seeds.configs))
    data, changes = mutate(seeds.configs[name], rng, list(seeds.configs.values()))
    before, output = _output(rng, "out.mlir")
    args = ["import", "--config", name, "-o", output]
    if rng.random() < 0.3:
        args += ["--tokens", "64"]
    files = {name: data, **before}
    return Case("config", "hpmoe", tuple(args), files, f"{name} {changes}", output)


OPTIONS = (
    "import --preset deepseek-v3-tiny", "import --preset mixtral-8x7b --ranks 4 --tokens 100",
    "import --config deepseek.json --top-k 2 --hidden 64 --width 32 --experts 8 --capacity 60",
    "import --config mindformers.yaml --dtype f16", "run graph.mlir --level moe --routing zipf:1.2",
    "compile --preset deepseek-v3-tiny --ranks 2 --tokens 8 --direction both --recompute swiglu,up",
    "run --preset deepseek-v3-tiny --level moe --ranks 2 --tokens 3,4 --routing balanced --seed 3",
    "run graph.mlir --level comm --tokens 4 --launches 2 --interleavings 2 --routing one-expert",
    "run graph.mlir --level tile --direction both --passes lower-moe{row_chunks=2}",
    "compile graph.mlir --passes derive-backward,lower-moe{granularity=expert}",
    "import --mindspore mindformers-moelayer-ep1.mindir --ranks 2",
)  # fmt: skip


def options(seeds: Seeds, rng: Random) -> Case:
    """Mutated options of `hpmoe` on good files."""
    data, changes = mutate(rng.choice(OPTIONS), rng, OPTIONS)
    words = data.decode("utf-8", "replace").replace("\0", "").split(" ")
    files = {n: t.encode() for n, t in seeds.configs.items()} | {"graph.mlir": seeds.graph.encode()}
    files |= seeds.mindir
    output = ""
    if not any(w in words for w in ("run", "-o")):
        before, output = _output(rng, "out")
        if words[0] != "compile":
            files |= before
        words += ["-o", output]
    # Nothing here may run MindSpore or a compiler.
    words = [w for w in words if not ("code".startswith(w) and w) and not "--check".startswith(w)]
    for word in ("--launches", "--interleavings"):
        # Any number is right here, however long it takes.
        if word in words[:-1] and words[words.index(word) + 1].lstrip("-").isdigit():
            words[words.index(word) + 1] = str(int(words[words.index(word) + 1][:9]) % 4 - 1)
    if "run" in words and "--level" not in words:
        words += ["--level", "moe"]
    return Case("options", "hpmoe", tuple(words), files, changes, output)


def graph(seeds: Seeds, rng: Random) -> Case:
    """A mutated graph through `hpmoe compile`, or run on a level."""
    name, text = rng.choice(seeds.ir["moe"])
    data, changes = mutate(text, rng, seeds.texts("moe"))
    output = ""
    args = ["run", "graph.mlir", "--level", rng.choice(("moe", "comm", "tile", "queue"))]
    files = {"graph.mlir": data}
    if rng.random() < 0.4:
        output = "out"
        args = ["compile", "graph.mlir", "-o", output]
        if rng.random() < 0.5:
            files |= {f"{output}/{n}": PREVIOUS for n in ("manifest.json", "moe.mlir", "mine.txt")}
    if rng.random() < 0.3:
        args += ["--direction", "both"]
    return Case("graph", "hpmoe", tuple(args), files, f"{name} {changes}", output)


def compiled(seeds: Seeds, rng: Random) -> Case:
    """A mutated file of a compiled layer."""
    files = dict(seeds.compiled)
    small = [n for n in files if not n.endswith((".h", "table.bin"))]
    name = rng.choice((*["manifest.json"] * 3, *["queue.mlir", "tile.mlir", "graph.mlir"], *small))
    if rng.random() < 0.1:
        name = rng.choice(list(files))
        del files[name]
        changes = "missing"
    else:
        files[name], changes = mutate(files[name].decode(), rng, [files["moe.mlir"].decode()])
    args = ["run", "dir", "--level", rng.choice(("moe", "comm", "tile", "tile", "queue"))]
    if rng.random() < 0.3:
        args += ["--direction", "both"]
    placed = {f"dir/{n}": data for n, data in files.items()}
    return Case("compiled", "hpmoe", tuple(args), placed, f"{name} {changes}")


def table(seeds: Seeds, rng: Random) -> Case:
    """A mutated task table, mostly with a checksum that fits, run by the generated code."""
    name = next(n for n in seeds.compiled if n.endswith("/table.bin"))
    data = bytearray(seeds.compiled[name])
    changes = "words"
    if rng.random() < 0.3:
        data = bytearray(flip(bytes(data), rng))
        changes = "flip"
    else:
        for _ in range(rng.choice((1, 1, 2, 8))):
            i = 4 * (rng.randrange(16) if rng.random() < 0.4 else rng.randrange(len(data) // 4))
            old = int.from_bytes(data[i : i + 4], "little")
            new = rng.choice((0, 1, old + 1, old - 1, 2**31 - 1, 2**31, 2**32 - 1, old << 24,
                              rng.getrandbits(32), old ^ (1 << rng.randrange(32))))  # fmt: skip
            data[i : i + 4] = (new % 2**32).to_bytes(4, "little")
    header = 4 * len(HEADER)
    if rng.random() < 0.85 and len(data) >= header:
        place = 4 * HEADER.index("checksum")
        data[place : place + 4] = zlib.crc32(bytes(data[header:])).to_bytes(4, "little")
        place = 4 * HEADER.index("bytes")
        data[place : place + 4] = len(data).to_bytes(4, "little")
        changes += "+checksum"
    files = {f"dir/{n}": d for n, d in seeds.compiled.items()} | {f"dir/{name}": bytes(data)}
    return Case("table", "hpmoe", ("run", "dir", "--tokens", "2"), files, changes)


def _fields(message: Any, rng: Random) -> tuple[Any, Any]:
    """A random message inside a protobuf message, and one of its fields that is set."""
    while True:
        there = message.ListFields()
        if not there:
            return message, None
        descriptor, value = rng.choice(there)
        if descriptor.message_type is None or rng.random() < 0.1:
            return message, descriptor
        message = rng.choice(list(value)) if descriptor.is_repeated else value


def mindir(seeds: Seeds, rng: Random) -> Case:
    """A mutated MINDIR graph: bytes, or fields of the message."""
    name = rng.choice(list(seeds.mindir))
    data = seeds.mindir[name]
    if rng.random() < 0.3:
        data, changes = flip(data, rng), "flip"
    else:
        model = mindir_format().ModelProto()
        model.ParseFromString(data)
        names: list[str] = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            message, descriptor = _fields(model.graph if rng.random() < 0.8 else model, rng)
            if descriptor is None:
                continue
            names.append(descriptor.name)
            _change_field(message, descriptor, model, rng)
        data, changes = model.SerializeToString(), "+".join(names)
    before, output = _output(rng, "out.mlir")
    args = ["import", "--mindspore", "graph.mindir", "-o", output]
    if rng.random() < 0.2:
        args += ["--ranks", "2"]
    files = {"graph.mindir": data, **before}
    return Case("mindir", "hpmoe", tuple(args), files, f"{name} {changes}", output)


def _change_field(message: Any, descriptor: Any, model: Any, rng: Random) -> None:
    value: Any = getattr(message, descriptor.name)
    if descriptor.message_type is not None or rng.random() < 0.3:
        if not descriptor.is_repeated or rng.random() < 0.2:
            message.ClearField(descriptor.name)
        elif rng.random() < 0.5:
            del value[rng.randrange(len(value))]
        else:
            value.append(rng.choice(list(value)))
        return
    old: Any = value[0] if descriptor.is_repeated else value
    other: Any = _other_value(old, model, rng)
    try:
        if descriptor.is_repeated:
            value[rng.randrange(len(value))] = other
        else:
            setattr(message, descriptor.name, other)
    except ValueError:
        message.ClearField(descriptor.name)


def _other_value(old: Any, model: Any, rng: Random) -> Any:
    """Another value of a field: odd, near the old one, or of another field."""
    match old:
        case str():
            nodes = list(model.graph.node)
            node = rng.choice(nodes) if nodes else None
            names = [] if node is None else [*node.input, *node.output]
            return rng.choice((*names, "", "\u00e9", "a" * 9999))
        case bytes():
            return rng.choice((b"", b"\xff\xfe", old[:-1], old * 2, flip(old, rng)))
        case float():
            return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e300))
        case _:
            return rng.choice((0, 1, -1, 2, 3, 5, 7, 2**31 - 1, old + 1, old - 1, 2**62))


def routing(seeds: Seeds, rng: Random) -> Case:
    """A mutated file of a routing: arrays, headers of arrays, bytes."""
    arrays: dict[str, Any] = dict(seeds.routing)
    changes: list[str] = []
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choice(list(arrays))
        array = arrays.pop(key)
        change = rng.randrange(9)
        changes.append(f"{key}:{change}")
        match change:
            case 0:
                pass
            case 1:
                arrays[
                    rng.choice((key + "0", "ids.-1", "ids.9", "x", "ids.01", "ids", "\u00e9"))
                ] = array
            case 2:
                type = rng.choice(("f2", "f4", "f8", "i1", "u1", "i8", "u8", "c8", "?", "U3", "S2",
                                   "M8[s]", ">i4", ">f4"))  # fmt: skip
                arrays[key] = array.astype(type) if array.dtype.kind in "if" else array
            case 3:
                shape = rng.choice(((-1,), (1, -1), (2, 6), (3, 4), (12, 1), (1, 1, 12), (6, 2, 1)))
                arrays[key] = array.reshape(shape)
            case 4:
                rows, columns = rng.randrange(7), rng.randrange(3)
                arrays[key] = array[:rows, :columns] if array.ndim == 2 else array[:rows]
            case 5 | 6:
                copy = array.copy().reshape(-1)
                number = rng.choice((-1, 0, 1, 4, 99, 2**31 - 1, np.nan, np.inf, -0.0))
                if copy.size and (copy.dtype.kind == "f" or np.isfinite(number)):
                    copy[rng.randrange(copy.size)] = min(number, 65504)
                arrays[key] = copy.reshape(array.shape)
            case 7:
                odd = (np.array(3), np.zeros((0, 2), np.int32), np.zeros((9, 2), np.int32))
                arrays[key] = rng.choice((*odd, np.array([]), np.zeros((6, 2, 0))))
            case _:
                arrays[key] = np.array([object(), None], dtype=object)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    data = stream.getvalue()
    match rng.randrange(8):
        case 0:
            data = flip(data, rng)
            changes.append("flip")
        case 1:
            changes.append("header")
            data = _forged(rng)
        case _:
            pass
    files = {"graph.mlir": seeds.graph.encode(), "r.npz": data}
    args = ("run", "graph.mlir", "--level", "moe", "--routing", "r.npz")
    return Case("routing", "hpmoe", args, files, " ".join(changes))


def _forged(rng: Random) -> bytes:
    """A `.npz` file whose arrays have mutated headers and few bytes."""
    header = "{'descr': '<i4', 'fortran_order': False, 'shape': (6, 2), }"
    text, _ = mutate(header, rng)
    if rng.random() < 0.5:
        shape = rng.choice(
            ("(99999999999, 2)", "(-1, 2)", "(6, 99999999)", "(2**70,)", "6", "None")
        )
        text = header.replace("(6, 2)", shape).encode()
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", min(len(text), 65535)) + text + bytes(48)
    stream = io.BytesIO()
    with zipfile.ZipFile(
        stream, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as file:
        for rank in range(2):
            file.writestr(f"ids.{rank}.npy", data)
    return stream.getvalue()


ENTRY_POINTS = """[xdsl.universe]
mine = mine:UNIVERSE

[hpmoe_ir.kernels]
mine_swiglu = mine:KERNEL

[hpmoe_ir.interpreters]
mine = mine:Functions
"""

EXTENSION = """from dataclasses import replace

from xdsl.interpreter import InterpreterFunctions, register_impls
from xdsl.universe import Universe

from hpmoe_ir.kernels import find_kernel
from hpmoe_ir.passes.plan_memory import PlanMemoryPass

KERNEL = replace(find_kernel("swiglu"), name="mine_swiglu")
UNIVERSE = Universe(all_passes={"mine-pass": lambda: PlanMemoryPass})
NUMBER = 3


def function():
    return 1


@register_impls
class Functions(InterpreterFunctions):
    pass
"""


def extension(seeds: Seeds, rng: Random) -> Case:
    """Mutated settings of an installed extension, or its module."""
    points, module, changes = ENTRY_POINTS.encode(), EXTENSION.encode(), ""
    if rng.random() < 0.7:
        points, changes = mutate(ENTRY_POINTS, rng, [EXTENSION])
    else:
        module, changes = mutate(EXTENSION, rng, [ENTRY_POINTS])
    files = {
        "site/mine.py": module,
        "site/mine-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
        "site/mine-1.0.dist-info/entry_points.txt": points,
        "graph.mlir": seeds.graph.encode(),
    }
    before, output = _output(rng, "out.mlir")
    files |= before
    command = rng.choice((
        ("hpmoe-opt", ("graph.mlir", "-p", "lower-moe", "-o", output), output),
        ("hpmoe-opt", ("graph.mlir", "-p", "convert-moe-to-comm,convert-comm-to-tile,"
                       "substitute-kernel{kernel=swiglu by=mine_swiglu}", "-o", output), output),
        ("hpmoe", ("run", "graph.mlir", "--level", "moe"), ""),
        ("hpmoe", ("compile", "graph.mlir", "-o", "out"), "out"),
    ))  # fmt: skip
    tool, args, output = command
    return Case("extension", tool, args, files, changes, output, path="site")


def disk(seeds: Seeds, rng: Random) -> Case:
    """A disk that is full in the middle of a file, or a place that can't be written."""
    limit: int | None = rng.choice((0, 1, 100, 1000, 5000, 20000))
    output = rng.choice(("out", "out", "out/deep/er", "file/out", "full"))
    files: dict[str, bytes] = {"graph.mlir": seeds.graph.encode(), "file": PREVIOUS}
    files["full/mine.txt"] = PREVIOUS
    if rng.random() < 0.4:
        limit = None
    tool, args = rng.choice((
        ("hpmoe", ("compile", "graph.mlir")), ("hpmoe", ("import", "--preset", "deepseek-v3-tiny")),
        ("hpmoe-opt", ("graph.mlir", "-p", "lower-moe", "-t", rng.choice(("mlir", *TARGETS)))),
        ("hpmoe-opt", ("graph.mlir",)),
    ))  # fmt: skip
    compiles = args[0] == "compile"
    if output == "out" and rng.random() < 0.6:
        old = ("manifest.json", "queue.mlir", "layer/table.bin", "mine.txt")
        files |= {f"out/{n}": PREVIOUS for n in old} if compiles else {"out": PREVIOUS}
    return Case("disk", tool, (*args, "-o", output), files, f"limit {limit}", output,
                file_limit=limit)  # fmt: skip


KINDS: dict[str, tuple[Kind, int]] = {
    "moe": (ir("moe"), 18),
    "comm": (ir("comm"), 8),
    "tile": (ir("tile"), 20),
    "queue": (ir("queue"), 14),
    "pipeline": (pipeline, 8),
    "graph": (graph, 6),
    "compiled": (compiled, 5),
    "table": (table, 1),
    "config": (config, 6),
    "machine": (machine, 4),
    "mindir": (mindir, 6),
    "routing": (routing, 3),
    "options": (options, 3),
    "extension": (extension, 2),
    "disk": (disk, 1),
}
"""Each kind with its share of the cases."""


def make_case(seeds: Seeds, seed: int, number: int, kind: str = "") -> Case:
    """Case `number` of `seed`: the same arguments, the same case."""
    rng = Random(f"{seed}:{number}")
    drawn = rng.choices(list(KINDS), [share for _, share in KINDS.values()])[0]
    return KINDS[kind or drawn][0](seeds, rng)
