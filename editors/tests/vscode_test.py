"""The extension's manifest and grammar are valid for VS Code, and the grammar has P4's keywords."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "vscode"


def _json(name: str) -> Any:
    return json.loads((EXTENSION / name).read_text())


def _patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (node[key] for key in ("match", "begin", "end") if key in node)
        for value in node.values():
            yield from _patterns(value)
    elif isinstance(node, list):
        for value in node:
            yield from _patterns(value)


def _scope(text: str) -> str | None:
    """Return the scope of the first pattern that matches at the beginning of a text, as VS Code does."""
    grammar = _json("syntaxes/p4.tmLanguage.json")
    for include in grammar["patterns"]:
        entry = grammar["repository"][include["include"].removeprefix("#")]
        rules = [entry] if "match" in entry or "begin" in entry else entry["patterns"]
        for rule in rules:
            if re.match(rule.get("match") or rule["begin"], text):
                return str(rule.get("name") or rule["captures"]["1"]["name"])
    return None


def files_named_in_the_manifest_exist() -> None:
    manifest = _json("package.json")
    assert (EXTENSION / manifest["main"]).is_file()
    language, _ = manifest["contributes"]["languages"]
    assert _json(language["configuration"])["comments"]["lineComment"] == "//"
    (grammar,) = manifest["contributes"]["grammars"]
    assert _json(grammar["path"])["scopeName"] == grammar["scopeName"]


def every_pattern_of_the_grammar_compiles() -> None:
    patterns = list(_patterns(_json("syntaxes/p4.tmLanguage.json")))
    assert len(patterns) > 15
    for pattern in patterns:
        re.compile(pattern)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("// words", "comment.line.double-slash.p4"),
        ("#include <core.p4>", "meta.preprocessor.p4"),
        ('@name("x")', "storage.modifier.annotation.p4"),
        ("8w0xff", "constant.numeric.p4"),
        ("control c(", "storage.type.p4"),
        ("transition", "keyword.control.p4"),
        ("bit<9>", "support.type.p4"),
        ("headers_t hdr", "support.type.p4"),
        ("mark_to_drop(x)", "entity.name.function.p4"),
        ("&&& 1", "keyword.operator.p4"),
    ],
)
def samples_get_the_expected_scopes(text: str, scope: str) -> None:
    assert _scope(text) == scope


def _fields(struct: str, path: str) -> set[str]:
    """Return the attributes of a configuration: the fields of a Rust type, in camel case."""
    source = (ROOT / "debug" / "src" / path).read_text()
    fields = re.findall(r"^    pub (\w+):", source.split(f"pub struct {struct} {{")[1].split("\n}")[0], re.M)
    return {re.sub(r"_(\w)", lambda letter: letter[1].upper(), field) for field in fields}


def launch_and_attach_attributes_match_those_of_the_debugger() -> None:
    (debugger,) = _json("package.json")["contributes"]["debuggers"]
    requests = debugger["configurationAttributes"]
    launch, attach = (set(requests[request]["properties"]) for request in ("launch", "attach"))
    # Editors set `noDebug` themselves; the extension starts the command of `run`.
    assert launch == _fields("Launch", "server.rs") - {"noDebug"} | {"run"}
    # `alfirk debug` connects to the address, and compiles the program with these flags.
    own = {"address", "arch", "includeDirs", "defines"}
    assert attach == _fields("Attach", "server/live.rs") - {"compiled"} | own


def tables_have_lenses_except_in_comments_and_strings() -> None:
    source = (EXTENSION / "extension.js").read_text()
    (function,) = re.findall(r"^function tables\(.*?^}$", source, re.M | re.S)
    text = 'table a { }\n// table b {\n/* table c {\n*/ @x("table d {") control table_x { table  e\n{ }'
    with Browser() as browser:
        found = browser.value(f"({function})({json.dumps(text)})")
    expected = [(name, text.index(declared)) for name, declared in (("a", "table a"), ("e", "table  e"))]
    assert [(table["name"], table["offset"]) for table in found] == expected


def commands_of_the_manifest_are_registered() -> None:
    source = (EXTENSION / "extension.js").read_text()
    for command in _json("package.json")["contributes"]["commands"]:
        assert f'registerCommand("{command["command"]}"' in source


def manifest_settings_match_the_settings_of_the_server() -> None:
    settings = (ROOT / "lsp" / "src" / "settings.rs").read_text()
    fields = re.findall(r"pub (\w+): ", settings)
    taken = {re.sub(r"_(\w)", lambda m: m[1].upper(), field) for field in fields}
    properties = _json("package.json")["contributes"]["configuration"]["properties"]
    offered = {name.removeprefix("alfirk.") for name in properties}
    assert offered == taken | {"command"}
