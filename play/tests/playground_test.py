"""The playground in a real browser: a program is written, a packet is sent, and its trace is read."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ALFIRK = os.environ.get("ALFIRK", str(ROOT / "target" / "debug" / "alfirk"))
PROGRAM = """#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { ethernet_t ethernet; }
struct metadata_t { }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action forward(bit<9> port) {
        hdr.ethernet.src = 0x020000000001;
        sm.egress_spec = port;
    }
    action refuse() { mark_to_drop(sm); }
    table stations {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; refuse; }
        default_action = refuse();
    }
    apply { stations.apply(); }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.ethernet); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """Serve the playground; return its address."""
    with subprocess.Popen([ALFIRK, "play"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(line.split()[0] for line in process.stdout if line.startswith("http://"))
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


def _type(browser: Browser, editor: str, text: str) -> None:
    """Replace the text of an editor by typing, as one input."""
    browser.value(f"document.querySelector('#{editor} .cm-content').focus()")
    browser.key("a", ctrl=True)
    browser.insert(text)


def _checked(browser: Browser, errors: int) -> None:
    browser.wait(f"document.body.dataset.checked === '{errors}'")


def _run(browser: Browser) -> None:
    before = browser.value("document.body.dataset.run ?? ''")
    browser.value("document.querySelector('#run').click()")
    browser.wait(f"document.body.dataset.run && document.body.dataset.run !== {json.dumps(before)}")


def _steps(browser: Browser) -> list[str]:
    return list(
        browser.value("[...document.querySelectorAll('#trace .step')].map((step) => step.textContent)")
    )


def _click(browser: Browser, selector: str) -> None:
    browser.value(f"document.querySelector({json.dumps(selector)}).click()")
    browser.drawn()


def _fill(browser: Browser, selector: str, text: str) -> None:
    found = f"document.querySelector({json.dumps(selector)})"
    browser.value(f"{found}.value = {json.dumps(text)}")
    browser.value(f"{found}.dispatchEvent(new Event('input', {{ bubbles: true }}))")
    browser.drawn()


def a_program_is_written_and_a_packet_is_traced(browser: Browser, page: str) -> None:
    browser.open(page)
    _type(browser, "program", PROGRAM)
    _checked(browser, 0)
    _type(browser, "test", "add stations hdr.ethernet.dst:02:00:00:00:00:05 forward(port:3)\n")
    # The packet is built by layers.
    _click(browser, "#add-packet")
    browser.wait(
        "document.querySelector('#packet-dialog').open && !document.querySelector('#packet-add').disabled"
    )
    layers = 'Ether(dst="02:00:00:00:00:05", src="02:00:00:00:00:09", type=0x1234)/Raw("hello")'
    _fill(browser, "#expression", layers)
    browser.wait("document.querySelector('#packet-note').textContent.startsWith('19 bytes')")
    browser.wait("!document.querySelector('#packet-add').disabled")
    _click(browser, "#packet-add")
    _run(browser)
    assert browser.text("#verdict") == "the test checks nothing"
    assert "port 0 → port 3" in browser.text("#packets").replace("\n", " ")
    steps = _steps(browser)
    assert steps[0].startswith("in port 0, 19 bytes")
    table = next(number for number, step in enumerate(steps) if step.startswith("table "))
    assert "hit entry 0: I.forward(port = 0x3)" in steps[table]
    assert any(step.startswith("ethernet.src: 0x20000000009 → 0x20000000001") for step in steps)
    # The keys select a step, and the editor lights its line.
    browser.value("document.activeElement.blur()")
    for _ in range(table):
        browser.key("ArrowRight")
    assert browser.text("#step-number") == f"step {table + 1} of {len(steps)}"
    assert "table stations" in browser.text("#program .lit")
    browser.key("End")
    assert "ethernet.src" in browser.text("#fields")
    # The bytes that differ are marked.
    browser.key("b")
    assert browser.value("document.querySelectorAll('#bytes-view .new').length") == 1
    assert browser.text("#bytes-view .new") == "01"
    assert "ethernet.src" in browser.text("#bytes-view .changes")
    assert browser.troubles == []
    assert all(url.startswith((page, "about:", "data:", "blob:")) for url in browser.loaded), browser.loaded


def the_way_of_a_packet_is_lit_in_the_graph(browser: Browser, page: str) -> None:
    browser.open(page)
    _type(browser, "program", PROGRAM)
    _type(
        browser,
        "test",
        "add stations hdr.ethernet.dst:02:00:00:00:00:05 forward(port:3)\n"
        "packet 0 020000000005 020000000009 1234\n",
    )
    _run(browser)
    browser.value("document.activeElement.blur()")
    browser.key("g")
    browser.wait("document.querySelector('#graph .node')")
    blocks = "[...document.querySelectorAll('#blocks button')]"
    assert browser.value(f"{blocks}.map((tab) => tab.textContent)") == ["parser", "ingress", "egress"]
    # The scrubber's step is at the table: its node is marked, the action and the edges of the way are lit.
    steps = _steps(browser)
    for _ in range(next(number for number, step in enumerate(steps) if step.startswith("table "))):
        browser.key("ArrowRight")
    assert browser.value(f"{blocks}.find((tab) => tab.ariaSelected === 'true').textContent") == "ingress"
    assert browser.value("document.querySelector('#graph .now title').textContent") == "I.stations"
    lit = "[...document.querySelectorAll('#graph .action.lit')].map((row) => row.textContent)"
    assert browser.value(lit) == ["forward"]
    assert browser.value("document.querySelectorAll('#graph .edge.lit').length") == 1
    # A node is chosen by keys: the state's step and its line.
    browser.value(f"{blocks}[0].click()")
    browser.value("document.querySelector('#graph .node.state').focus()")
    browser.key("ArrowDown")
    assert browser.value("document.activeElement.querySelector('title').textContent") == "accept"
    browser.key("ArrowUp")
    browser.key("Enter")
    assert browser.text("#step-number").startswith("step 2 of")
    assert "state start" in browser.text("#program .lit")
    assert browser.troubles == []


def errors_are_shown_while_typing(browser: Browser, page: str) -> None:
    browser.open(page)
    _type(browser, "program", PROGRAM.replace("sm.egress_spec = port", "sm.egress_spec = prt"))
    _checked(browser, 1)
    assert "13:26" in browser.text("#problems")
    _run(browser)
    assert "errors" in browser.text("#hint")
    _type(browser, "program", PROGRAM)
    _checked(browser, 0)
    assert browser.value("document.querySelector('#problems').hidden")


def an_entry_is_added_by_a_form_and_outputs_become_expectations(browser: Browser, page: str) -> None:
    browser.open(page)
    _type(browser, "program", PROGRAM)
    _checked(browser, 0)
    _type(browser, "test", "packet 2 020000000005 020000000009 1234\n")
    _click(browser, "#add-entry")
    browser.wait("document.querySelector('#entry-dialog').open")
    assert browser.value("document.querySelector('#entry-add').disabled")
    _fill(browser, "#keys input", "02:00:00:00:00:05")
    _fill(browser, "#parameters input", "7")
    _click(browser, "#entry-add")
    _run(browser)
    _click(browser, "#packets li button")
    browser.wait(
        "document.querySelector('#test').innerText.includes('expect 7 0200000000050200000000011234 $')"
    )
    browser.wait("document.querySelector('#verdict').textContent === 'test passed'")
    # After a reload, the session has its program and its test.
    address = browser.value("location.href")
    browser.open(address)
    assert "expect 7" in browser.text("#test")
    assert "stations" in browser.text("#program")


def every_example_opens(browser: Browser, page: str) -> None:
    browser.open(page)
    count = browser.value("document.querySelectorAll('#examples option').length")
    assert count > 40
    options = "[...document.querySelectorAll('#examples option')]"
    lab = f"{options}.find((one) => one.text === 'replicate, solved').value"
    browser.value(f"document.querySelector('#examples').value = {lab}")
    browser.value("document.querySelector('#examples').dispatchEvent(new Event('change'))")
    browser.wait("document.querySelector('#program').innerText.includes('control LabIngress')")
    _checked(browser, 0)
    _run(browser)
    assert browser.text("#verdict") == "test passed"
    # Each copy is under the packet; a step in an included file opens that file.
    assert browser.value("document.querySelectorAll('#trace h3').length") == 4
    included = (
        "[...document.querySelectorAll('#trace .step')].find((one) => one.textContent.includes('roce.p4'))"
    )
    browser.value(f"{included}.click()")
    browser.wait("document.querySelector('#tabs .library[aria-selected=true]')")
    browser.wait("document.querySelector('#program .lit')")


def both_themes_are_available(browser: Browser, page: str) -> None:
    browser.open(page)
    color = "getComputedStyle(document.body).backgroundColor"
    before = browser.value(color)
    _click(browser, "#theme")
    assert browser.value(color) != before
