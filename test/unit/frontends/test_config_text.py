"""The text of configuration files: broken, repeated, too large."""

from pathlib import Path

import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.config_text import MAX_JSON_BYTES, MAX_YAML_BYTES, load_config

FAULTS = Path(__file__).parents[2] / "data" / "configs" / "faults"
DEEP = 200_000


def chain(levels: int) -> str:
    """Mappings in mappings by alias, each of which has one more level."""
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, levels))]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "name, content, place, message",
    [
        ("c.json", '{\n "a": }', ":2:7", "not JSON: Expecting value"),
        ("c.json", "[1]", "", "the file: expected a mapping, found [1]"),
        ("c.json", "", ":1:1", "not JSON: Expecting value"),
        ("c.yaml", "a: [1\nb: 2", ":2:2", "not YAML: expected ',' or ']', but got ':'"),
        ("c.yaml", "", "", "the file: expected a mapping, found null"),
        ("c.yaml", "a: 1\n---\nb: 2", ":2:1", "not YAML: but found another document"),
        (
            "c.yaml",
            "a: !!python/name:os.system",
            ":1:4",
            "not YAML: could not determine a "
            "constructor for the tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        (
            "c.yaml",
            "a: \0",
            "",
            "not YAML: unacceptable character #x0000: special characters are not allowed in "
            '"<unicode string>", position 3',
        ),
        ("c.toml", "", "", "expected a .json, .yaml or .yml file"),
        # Repeated fields.
        ("c.json", '{"a": 1,\n "a": 2}', ":2:2", "a: expected the field once, found it twice"),
        (
            "c.json",
            '{"t": {"a": 1, "b": {"a": 1},\n"a": 2}}',
            ":2:1",
            "a: expected the field once, found it twice",
        ),
        ("c.json", '{"a": 1, "\\u0061": 1}', ":1:10", "a: expected the field once, found it twice"),
        (
            "c.json",
            '[{"b": 1}, {"b": 1, "b": 1}]',
            ":1:21",
            "b: expected the field once, found it twice",
        ),
        (
            "c.json",
            '{"x": "a:", "a": "x", "a": ":"}',
            ":1:23",
            "a: expected the field once, found it twice",
        ),
        ("c.yaml", "a: 1\nb: 2\na: 1", ":3:1", "a: expected the field once, found it twice"),
        ("c.yaml", "m:\n  a: 1\n  'a': 1", ":3:3", "a: expected the field once, found it twice"),
        (
            "c.yaml",
            "m: {a: 1, b: {a: 1, a: 2}}",
            ":1:21",
            "a: expected the field once, found it twice",
        ),
        (
            "c.yaml",
            "- {b: 1}\n- {b: 1, b: 1}",
            ":2:10",
            "b: expected the field once, found it twice",
        ),
        # Bombs.
        ("c.json", "[" * DEEP, ":1:101", "expected at most 100 levels, found more"),
        ("c.json", '{"a":' * DEEP, ":1:501", "expected at most 100 levels, found more"),
        (
            "c.json",
            f'{{"a": {"9" * 5000}}}',
            "",
            "not a JSON configuration: Exceeds the limit "
            "(4300 digits) for integer string conversion: value has 5000 digits; use "
            "sys.set_int_max_str_digits() to increase the limit",
        ),
        ("c.yaml", "[" * 5000, "", "expected at most 100 levels, found more"),
        ("c.yaml", chain(101), ":100:6", "expected at most 100 levels, found more"),
        ("c.yaml", "a: &a [*a]", ":1:4", "expected no alias of what it is part of, found one"),
        (
            "c.yaml",
            "a: &a {b: {c: *a}}",
            ":1:4",
            "expected no alias of what it is part of, found one",
        ),
        (
            "c.json",
            " " * (MAX_JSON_BYTES + 1),
            "",
            "expected a configuration of at most 4194304 bytes, found more",
        ),
        (
            "c.yaml",
            "#" * (MAX_YAML_BYTES + 1),
            "",
            "expected a configuration of at most 262144 bytes, found more",
        ),
    ],
    ids=range(27),
)
def test_files_are_refused(tmp_path: Path, name: str, content: str, place: str, message: str):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError) as e:
        load_config(path)
    assert str(e.value) == f"{path}{place}: error: {message}"


def bomb(line: str) -> str:
    """Twelve lines, each of which stands for ten times as many values as the one before."""
    return "\n".join(
        [
            "a0: &a0 {x: 1}",
            *(line.replace("N", str(i)).replace("M", str(i - 1)) for i in range(1, 12)),
        ]
    )


@pytest.mark.parametrize(
    "content",
    [
        (FAULTS / "alias-bomb.yaml").read_text(),
        bomb("aN: &aN {" + ", ".join(f"k{i}: *aM" for i in range(10)) + "}"),
        bomb("aN: &aN\n  <<: [" + ", ".join(["*aM"] * 10) + "]"),
        bomb("aN: &aN {? [" + ", ".join(["*aM"] * 10) + "] : 1}"),
        bomb("aN: &aN [[*aM, *aM, *aM, *aM], [*aM, *aM, *aM, *aM, *aM, *aM]]"),
        bomb("aN: &aN !!set {" + ", ".join(f"? [{i}, *aM]" for i in range(10)) + "}"),
    ],
    ids=["lists", "mappings", "merges", "keys", "nested", "sets"],
)
def test_aliases_that_stand_for_too_much_are_refused(tmp_path: Path, content: str):
    path = tmp_path / "bomb.yaml"
    path.write_text(content)
    with pytest.raises(InputError) as e:
        load_config(path)
    assert e.value.message == "expected at most 200000 values, aliases written out, found more"


def test_aliases_and_merges_of_training_files_are_read(tmp_path: Path):
    path = tmp_path / "c.yaml"
    path.write_text("a: &a {b: 1}\nc: *a\nd: {<<: *a, e: 2}\nf: &f 3\ng: [*f, *f]")
    assert load_config(path) == {
        "a": {"b": 1},
        "c": {"b": 1},
        "d": {"b": 1, "e": 2},
        "f": 3,
        "g": [3, 3],
    }


def test_missing_files_are_refused(tmp_path: Path):
    with pytest.raises(InputError) as e:
        load_config(tmp_path / "none.json")
    assert str(e.value) == (
        f"{tmp_path / 'none.json'}: error: can't read it: No such file or directory"
    )


def test_folders_and_devices_are_refused(tmp_path: Path):
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    for name in ("folder.json", "zero.yaml"):
        with pytest.raises(InputError) as e:
            load_config(tmp_path / name)
        assert e.value.message == "expected a file, found none"


def test_binary_files_are_refused(tmp_path: Path):
    path = tmp_path / "c.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError) as e:
        load_config(path)
    assert str(e.value) == f"{path}: error: expected text, found bytes that are not UTF-8"
