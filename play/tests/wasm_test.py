"""The playground without a server of ours: the files of `make play-wasm`, in a real browser."""

from __future__ import annotations

import os
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from browser import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(os.environ.get("PLAY_WASM", Path(__file__).parents[2] / "target" / "play-wasm"))
#: Maximum time in seconds from opening the page to the first trace.
FIRST_PACKET = 5
MAX_BYTES = 10 << 20

pytestmark = pytest.mark.skipif(
    not (FOLDER / "alfirk_play.wasm").exists(),
    reason=f"no {FOLDER}: make play-wasm CHECK=1 builds and checks it",
)


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(FOLDER))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


def _run(browser: Browser) -> None:
    before = browser.value("document.body.dataset.run ?? ''")
    browser.value("document.querySelector('#run').click()")
    browser.wait(f"document.body.dataset.run && document.body.dataset.run !== '{before}'")


def _type(browser: Browser, editor: str, text: str) -> None:
    """Replace the text of an editor by typing, as one input."""
    browser.value(f"document.querySelector('#{editor} .cm-content').focus()")
    browser.key("a", ctrl=True)
    browser.insert(text)


def the_first_packet_is_traced_in_time(browser: Browser, page: str) -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MAX_BYTES
    begin = time.monotonic()
    browser.open(page)
    _run(browser)
    browser.wait("document.querySelector('#trace .step')")
    seconds = time.monotonic() - begin
    assert seconds < FIRST_PACKET, f"{seconds:.2f} s"
    assert browser.text("#verdict") == "test passed"
    assert browser.troubles == []
    assert all(url.startswith((page, "about:", "data:", "blob:")) for url in browser.loaded), browser.loaded
    # The language server, the graph, and the library's files.
    browser.wait("document.body.dataset.checked === '0'")
    browser.value("document.activeElement.blur()")
    browser.key("g")
    browser.wait("document.querySelector('#graph .now, #graph .lit')")


def programs_beyond_the_limit_of_time_are_stopped(browser: Browser, page: str) -> None:
    # Each packet is recirculated until the switch finds that this is endless.
    program = """#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> value; }
struct headers_t { h_t h; }
struct metadata_t { }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { sm.egress_spec = 2; }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { recirculate_preserving_field_list(0); }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
    browser.open(page)
    _type(browser, "program", program)
    _type(browser, "test", "packet 0 01\n" * 500)
    _run(browser)
    assert browser.text("#hint") == "this took longer than 10 s and was stopped"
    # The next request starts another engine.
    _type(browser, "program", program.replace("recirculate_preserving_field_list(0);", ""))
    _type(browser, "test", "packet 0 01\n")
    _run(browser)
    assert "port 0 → port 2" in browser.text("#packets").replace("\n", " ")
