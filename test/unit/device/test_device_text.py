"""What device code must not have although g++ takes it: host functions, loose cache accesses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpmoe_ir.driver.compiler import compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass

DEVICE_DIR = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device"
HEADERS = sorted((DEVICE_DIR / "hpmoe").rglob("*.h"))
LAYER = LayerConfig("small", hidden=64, width=32, experts=4, top_k=2, ranks=2, tokens=32)

IGNORED = re.compile(r"//[^\n]*|\"[^\"\n]*\"|^[ ]*#(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
LAMBDA = re.compile(
    r"(?:[(,=]|\breturn)\s*(\[[\w\s,&=*]*\]\s*(?:\((?:[^()]|\([^()]*\))*\))?)(?!\s*__aicore__)\s*[{\w]"
)
TEMPLATE = re.compile(r"\btemplate\s*<[^<>]*(?:<[^<>]*>[^<>]*)*>")
CONTAINER = re.compile(r"\b(?:namespace|struct|class|enum|union)\b|^\s*extern\s*$")


def host_functions(text: str) -> Iterator[str]:
    """Heads of the functions and lambdas of a C++ text that lack `__aicore__`."""
    text = IGNORED.sub("", text)
    for match in LAMBDA.finditer(text):
        yield " ".join(match.group(1).split())
    in_container: list[bool] = [True]
    begin = 0
    for match in re.finditer(r"[{};]", text):
        if match.group() == "{":
            head = " ".join(text[begin : match.start()].split())
            head = re.sub(r"\b(?:public|private|protected):", "", head).strip()
            named = TEMPLATE.sub("", head)
            container = in_container[-1] and "(" not in named and bool(CONTAINER.search(named))
            # A head goes on after the braces of an initialiser, of a member or a parameter.
            function = "(" in head and "=" not in head.split("(")[0] and head[0] not in ",)"
            if in_container[-1] and not container and function and "__aicore__" not in head:
                yield head
            in_container.append(container)
        elif match.group() == "}":
            in_container.pop()
        begin = match.end()
    assert in_container == [True], "braces do not match"


CACHE = re.compile(
    r"DataCacheCleanAndInvalid|\bdcci\b|DataCachePreload|GlobalTensor<|"
    r"\bGlobal\([^;]*\)\s*\.\s*(?:Get|Set)Value"
)


def cache_accesses(header: str, text: str) -> list[str]:
    """What only `hpmoe/cache.h` may do, elsewhere: cache maintenance, scalar global accesses."""
    found = CACHE.findall(IGNORED.sub("", text))
    if header == "cache.h":
        return []
    # The function that makes all tensors of global memory.
    return [f for f in found if (header, f) != ("local.h", "GlobalTensor<")]


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    """The generated sources of both directions."""
    compiled = compile_module(
        make_context(), layer_module(LAYER), LowerMoePass(), backward=DeriveBackwardPass()
    )
    return {name: kernel.source for name, kernel in compiled.kernels.items()}


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.stem)
def test_all_functions_of_the_headers_are_device_functions(header: Path):
    assert list(host_functions(header.read_text())) == []


def test_all_functions_of_generated_sources_are_device_functions(sources: dict[str, str]):
    assert len(sources) == 2
    for text in sources.values():
        assert list(host_functions(text)) == []


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.stem)
def test_each_missing_qualifier_is_noticed(header: Path):
    text = header.read_text()
    for match in re.finditer(r"__aicore__ ", text):
        changed = text[: match.start()] + text[match.end() :]
        assert len(list(host_functions(changed))) == 1, text[match.start() : match.start() + 80]


def test_a_missing_qualifier_in_generated_source_is_noticed(sources: dict[str, str]):
    for text in sources.values():
        for match in re.finditer(r"__aicore__ ", text):
            changed = text[: match.start()] + text[match.end() :]
            assert len(list(host_functions(changed))) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("auto f = [&](uint32_t i) { Use(i); };", "[&](uint32_t i)"),
        ("auto f = [=, &b](int32_t (*g)(T), T t) mutable {};", "[=, &b](int32_t (*g)(T), T t)"),
        ("return [] { };", "[]"),
        ("namespace a { inline int F(int x) { return x; } }", "inline int F(int x)"),
        ("struct S { bool Ok() const { return ok; } bool ok; };", "bool Ok() const"),
        ("template <class T> void F(T) {}", "template <class T> void F(T)"),
    ],
)
def test_host_functions_are_found(text: str, found: str):
    assert list(host_functions(text)) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "constexpr T k = {F(1), F(2)};",
        "values[i](1); words[index] = {1};",
        "auto f = [&](uint32_t i) __aicore__ { Use(i); };",
        "class A { public: __aicore__ inline A(int a) : a_(a), b_{a, 1}, c_(a) {} int a_; };",
        "void Declared(int x);",
    ],
)
def test_other_text_is_no_host_function(text: str):
    assert list(host_functions(text)) == []


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.stem)
def test_only_one_header_accesses_the_data_cache(header: Path):
    assert cache_accesses(header.name, header.read_text()) == []


def test_generated_sources_do_not_access_the_data_cache(sources: dict[str, str]):
    assert [cache_accesses("", text) for text in sources.values()] == [[], []]


@pytest.mark.parametrize(
    "text",
    [
        "AscendC::DataCacheCleanAndInvalid<int32_t, kLine, kOut>(line);",
        "dcci(address, SINGLE_CACHE_LINE);",
        "const int32_t word = Global(words, 1).GetValue(0);",
        "Global(words + i,\n       n)\n    .SetValue(0, 1);",
        "AscendC::GlobalTensor<int32_t> line;",
    ],
)
def test_an_access_of_the_data_cache_is_noticed(text: str):
    assert len(cache_accesses("env.h", text)) == 1
    assert cache_accesses("cache.h", text) == []
