"""The IR in docstrings is IR: operations exist, examples parse, passes show a pair."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from importlib import import_module

import pytest
from xdsl.irdl import IRDLOperation

from hpmoe_ir.dialects.queue import Queue
from hpmoe_ir.dialects.tile import Tile
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.policies.registry import built_in_policies
from hpmoe_ir.universe import DIALECTS, PASSES

NAMES = {
    item.name
    for load in DIALECTS.values()
    for dialect in (load(),)
    for item in (*dialect.operations, *dialect.attributes)
} | {"moe.forward"}  # names the function whose gradients another one computes


def blocks(text: str) -> list[str]:
    """The fenced blocks of a docstring that are no Python."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", inspect.cleandoc(text), re.MULTILINE | re.DOTALL)
    return [block for kind, block in found if kind in ("", "mlir")]


def named(block: str) -> set[str]:
    """Names of operations and attributes in a block."""
    dialects = "|".join(DIALECTS)
    return set(re.findall(rf"(?<![\w.@])(?:{dialects})\.\w+", block))


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_shows_ir_before_and_after(name: str):
    text = inspect.getdoc(PASSES[name]) or ""
    text = inspect.getdoc(PASSES[name]()) or text
    shown = blocks(text)
    assert len(shown) >= 2, "expected IR before and after"
    assert re.search(r"^becomes", text, re.MULTILINE)
    assert "Needs" in text, "expected what the pass needs"
    for block in shown:
        assert named(block) <= NAMES


@pytest.mark.parametrize("name", PASSES)
def test_an_option_says_what_it_is(name: str):
    """Each option is documented where it is declared, which is one place."""
    module_pass = PASSES[name]()
    documented = [n for cls in module_pass.__mro__[:-1] for n in documented_fields(cls)]
    wanted = [f.name for f in dataclasses.fields(module_pass)]
    assert sorted(n for n in documented if n in wanted) == sorted(wanted)


@pytest.mark.parametrize("policy", built_in_policies().values(), ids=lambda policy: policy.name)
def test_an_option_of_a_policy_says_what_it_is(policy: type[Policy]):
    documented = [n for cls in policy.__mro__[:-1] for n in documented_fields(cls)]
    assert {f.name for f in dataclasses.fields(policy)} <= set(documented)


def documented_fields(cls: type) -> set[str]:
    """Annotated names in the body of a class that a docstring follows."""
    if not cls.__module__.startswith("hpmoe_ir."):
        return set()
    tree = ast.parse(inspect.getsource(import_module(cls.__module__)))
    body = next(
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    )
    return {
        node.target.id
        for node, after in zip(body, body[1:], strict=False)  # noqa: RUF007
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }


OPERATIONS = [op for dialect in (Tile, Queue) for op in dialect.operations]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: op.name)
def test_an_example_of_an_operation_parses(operation: type[IRDLOperation]):
    shown = blocks(operation.__doc__ or "")
    assert shown, "expected an example"
    for block in shown:
        assert operation.name in named(block)
        text = block.replace("...", "")
        parse_module(make_context(), text.encode(), operation.name)


@pytest.mark.parametrize("dialect", ["tile", "queue", "queue.task"])
def test_examples_of_a_dialect_use_its_operations(dialect: str):
    shown = blocks(import_module(f"hpmoe_ir.dialects.{dialect}").__doc__ or "")
    assert shown
    for block in shown:
        assert named(block) <= NAMES


def test_the_example_of_the_tile_dialect_is_whole():
    (text,) = blocks(import_module("hpmoe_ir.dialects.tile").__doc__ or "")
    module = parse_module(make_context(), text.encode(), "tile")
    with_options = text.replace(
        'kernel "grouped_matmul"',
        'kernel "grouped_matmul" {tile_m = 16, tile_n = 16, tile_k = 16, transpose_rhs = 0}',
    )
    module = parse_module(make_context(), with_options.encode(), "tile")
    module.verify()
