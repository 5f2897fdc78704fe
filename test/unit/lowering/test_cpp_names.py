"""Names of the IR in generated C++: those that do not compile are refused before, by name."""

from __future__ import annotations

import re
import subprocess

import pytest
from xdsl.utils.exceptions import DiagnosticException

from hpmoe_ir.dialects.symbol_names import GENERATED_TYPES, KERNEL_NAMES, is_reserved
from hpmoe_ir.driver.compiler import compile_module
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.lowering.plan.c_names import is_c_name
from hpmoe_ir.lowering.plan.names import TASK_LOCALS
from hpmoe_ir.lowering.plan.program import plan_program
from hpmoe_ir.lowering.program import lowered_program
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.run.execution import DEVICE_INCLUDE
from hpmoe_ir.runtime.cpu_build import INCLUDE_DIR, find_compiler

LAYER = LayerConfig("small", hidden=32, width=16, experts=4, top_k=2, ranks=2, tokens=12)

PROGRAM = """
queue.program @{program} ranks 1 machine "ascend-a3" counters at 4096 {{
  tile.buffer @{argument} input : !tile.buffer<32x48xbf16>
  tile.buffer @out output : !tile.buffer<32x48xbf16>
  tile.tasks @{family} ({coordinate}) in (2) on aiv
    kernel "copy_rows"
    reads @{argument}[block({coordinate} by 16), :]
    writes @out[block({coordinate} by 16), :]
  queue.order aic {{
    [] times 24
  }}
  queue.order aiv {{
    [@{family}[0, 1]],
    [] times 47
  }}
}}
"""


def refusal(**names: str) -> str:
    """What is said of a program with some other names; empty where it is lowered."""
    given = {"program": "layer", "argument": "x", "family": "copy", "coordinate": "i"} | names
    module = parse_module(make_context(), PROGRAM.format(**given).encode(), "p.mlir")
    try:
        plan_program(lowered_program(module, "test"))
    except DiagnosticException as error:
        return str(error)
    return ""


TAKEN = "where '{}' is taken or reserved"
OWN = "the generated code has a '{}' of its own"
LIBRARY = "as '{}' of a library is one already"
KEYWORD = "expected an identifier that is no keyword, found '{}'"


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("program", "std", TAKEN),
        ("program", "hpmoe", TAKEN),
        ("program", "AscendC", TAKEN),
        ("program", "uint32_t", TAKEN),
        ("program", "NULL", TAKEN),
        ("program", "_Layer", TAKEN),
        ("program", "my__layer", TAKEN),
        ("program", "Arguments", OWN),
        ("program", "printf", LIBRARY),
        ("program", "malloc", LIBRARY),
        ("program", "write", LIBRARY),
        ("program", "sqrtf", LIBRARY),
        ("program", "pthread_create", LIBRARY),
        ("program", "aclrtMalloc", LIBRARY),
        ("program", "aclshmem_malloc", LIBRARY),
        ("program", "time_t", LIBRARY),
        ("program", "co_await", KEYWORD),
        ("argument", "NULL", TAKEN),
        ("argument", "GM_ADDR", TAKEN),
        ("argument", "half", TAKEN),
        ("argument", "int32_t", TAKEN),
        ("argument", "ASCEND_IS_AIC", TAKEN),
        ("argument", "requires", KEYWORD),
        ("argument", "layer_arguments", OWN),
        ("argument", "AicTasks", OWN),
        ("argument", "env", OWN),
        ("argument", "write", ""),
        ("argument", "W13", ""),
        ("coordinate", "bfloat16_t", TAKEN),
        ("coordinate", "EOF", TAKEN),
        ("coordinate", "hpmoe", TAKEN),
        ("coordinate", "point", OWN),
        ("coordinate", "read0", OWN),
        ("coordinate", "n", ""),
        ("family", "NULL", TAKEN),
        ("family", "EOF", TAKEN),
        ("family", "size_index", "the generated code has a 'SizeIndex' of its own"),
        ("family", "std", ""),
    ],
)
def test_a_name_is_refused(kind: str, name: str, message: str):
    said = refusal(**{kind: name})
    assert (message.format(name) in said) if message else not said, said


def test_a_long_name_is_no_name_of_a_file():
    assert "has at most 128 characters, found 129" in refusal(program="p" * 129)
    assert refusal(program="p" * 128) == ""


def headers() -> str:
    """All headers of device code."""
    own = sorted((DEVICE_INCLUDE / "hpmoe").glob("*.h"))
    includes = ["kernel_operator.h", "shmem.h", *(f"hpmoe/{path.name}" for path in own)]
    return "".join(f'#include "{name}"\n' for name in includes)


def compiler(source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the compiler on a text that includes the headers of the CPU model."""
    include = [f"-I{INCLUDE_DIR}", f"-I{DEVICE_INCLUDE}"]
    command = [*find_compiler(), "-std=c++17", "-x", "c++", "-", *include, *options]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False)


def identifiers() -> list[str]:
    """All identifiers in what the preprocessor makes of the headers, and its macros."""
    text = compiler(headers(), "-E", "-P").stdout + compiler(headers(), "-E", "-dM").stdout
    return sorted(set(re.findall(r"\b[A-Za-z_]\w*\b", text)))


def test_every_macro_is_reserved():
    macros = re.findall(r"#define (\w+)", compiler(headers(), "-E", "-dM").stdout)
    assert len(macros) > 500
    assert [name for name in macros if not is_reserved(name)] == []


DECLARATIONS = {
    "kernel": 'extern "C" void {name}(GM_ADDR x, GM_ADDR y, uint32_t z);',
    "argument": (
        "namespace {{ struct S{i} {{ GM_ADDR {name}; }}; void f{i}(GM_ADDR {name}, uint32_t z_) {{ "
        "const hpmoe::Env env({name}, {name}, {name}, z_, z_); const S{i} args{{{name}}}; "
        "if ASCEND_IS_AIV {{ AscendC::PipeBarrier<PIPE_ALL>(); }} static_cast<void>(args); }} }}"
    ),
    "coordinate": (
        "namespace {{ void g{i}(const hpmoe::Env& env, uint32_t point) {{ "
        "const uint32_t {name} = point; const hpmoe::Rows rows0 = env.TokenChunk({name}, 2); "
        "const hpmoe::Tile<bfloat16_t> read0 = "
        "hpmoe::Slice(env.Workspace<bfloat16_t>(1), 3, rows0, 0, 4); "
        "static_cast<void>(read0); }} }}"
    ),
}


@pytest.mark.parametrize("kind", DECLARATIONS)
def test_the_compiler_accepts_all_other_names(kind: str):
    """Every identifier of the headers that is not refused by us can be declared."""
    own = KERNEL_NAMES | GENERATED_TYPES | TASK_LOCALS | {"read0", "rows0"}
    names = [n for n in identifiers() if not is_reserved(n) and n not in own]
    if kind == "kernel":
        names = [n for n in names if not is_c_name(n)]
    assert len(names) > 1000
    lines = (DECLARATIONS[kind].format(name=n, i=i) for i, n in enumerate(names))
    text = "\n".join([headers() + '#line 1 "declared"', *lines, ""])
    said = compiler(text, "-fsyntax-only", "-fmax-errors=0").stderr
    wrong = {int(n) for n in re.findall(r"^declared:(\d+):.*error", said, re.MULTILINE)}
    assert [names[n - 1] for n in sorted(wrong)] == []


def test_a_name_that_is_not_refused_by_us_fails():
    """The check above can fail."""
    said = compiler(headers() + 'extern "C" void std(GM_ADDR x);\n', "-fsyntax-only").stderr
    assert "error" in said


def test_buffers_of_values_are_renamed():
    """Names of values are hints: a graph with names of C++ compiles."""
    module = layer_module(LAYER)
    (function,) = module.ops
    hints = ["std", "GM_ADDR", "uint32_t", "co_yield", "Arguments"]
    for argument, hint in zip(function.regions[0].block.args, hints, strict=True):
        argument.name_hint = hint
    plan = compile_module(make_context(), module, LowerMoePass()).forward.plan
    expected = ("std_1", "gm_addr", "uint32_t_1", "co_yield_1", "Arguments_1", "out", "status")
    assert plan.arguments == expected
