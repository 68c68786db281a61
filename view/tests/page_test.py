"""The page shows the contents of its trace, in a real browser."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ALFIRK = os.environ.get("ALFIRK", str(ROOT / "target" / "debug" / "alfirk"))
MODULUS = 1 << 24


class Recorded:
    """A trace, read independently of the page."""

    def __init__(self, path: Path) -> None:
        self.path = path
        header, *events = (json.loads(line) for line in path.read_text().splitlines())
        self.names: list[str] = [node["name"] for node in header["nodes"]]
        self.events: list[dict[str, Any]] = events

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["e"] == kind]

    @property
    def begin(self) -> int:
        """Return the time when the source posts its message."""
        return int(next(note["t"] for note in self.of("note") if note["text"].startswith("post ")))

    def sent(self, kind: str, until: int) -> int:
        return sum(frame["k"] == kind and frame["t"] <= until for frame in self.of("tx"))

    def acks(self, switch: str, until: int) -> list[int]:
        """Return the AckPSN of every path of the only group."""
        paths: dict[int, int] = {}
        for event in self.of("mft"):
            if self.names[event["n"]] == switch and event["t"] <= until:
                paths.update({path["path"]: path["ack"] for path in event["paths"]})
        return [paths[path] for path in sorted(paths)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Make a run of two algorithms, with losses."""
    path = tmp_path_factory.mktemp("trace") / "run.jsonl"
    run = [ALFIRK, "run", "--size", "128KiB", "--loss", "0.02", "--seed", "3", "--algorithms", "alfirk,chain"]
    subprocess.run([*run, "--trace", str(path)], check=True, capture_output=True)
    return Recorded(path.with_suffix(".alfirk.jsonl"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@contextmanager
def _served(*command: str) -> Iterator[str]:
    """Return the page's address, as the command prints it."""
    with subprocess.Popen([ALFIRK, *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(line.split()[0] for line in process.stdout if line.startswith("http://"))
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def page(recorded: Recorded) -> Iterator[str]:
    traces = [str(recorded.path), str(recorded.path).replace(".alfirk.", ".chain.")]
    with _served("view", *traces, "--listen", "127.0.0.1:0") as address:
        yield address


def _facts(browser: Browser) -> dict[str, str]:
    """Return the lines of the panel."""
    pair = "(name) => [name.innerText, name.nextSibling.innerText]"
    script = f"[...document.querySelectorAll('#panel dt')].map({pair})"
    return dict(browser.value(script))


def _rows(browser: Browser, table: int = 0) -> list[list[str]]:
    """Return the cells of a table of the panel."""
    rows = f"document.querySelectorAll('#panel table')[{table}].tBodies[0].rows"
    return [
        list(row)
        for row in browser.value(f"[...{rows}].map((row) => [...row.cells].map((cell) => cell.innerText))")
    ]


def _texts(browser: Browser, selector: str) -> list[str]:
    """Return the text of each element that matches a selector."""
    found = f"document.querySelectorAll({json.dumps(selector)})"
    return list(browser.value(f"[...{found}].map((element) => element.textContent)"))


def _shown(text: str) -> int:
    """Read a time that the page shows, in nanoseconds."""
    return round(float(text.removesuffix(" us").replace(",", "")) * 1000)


def _now(browser: Browser) -> int:
    """Return the page's time in nanoseconds."""
    return int(browser.value("new URLSearchParams(location.hash.slice(1)).get('t')"))


def all_frames_of_the_trace_are_counted(browser: Browser, page: str, recorded: Recorded) -> None:
    browser.open(page)
    assert browser.value("document.body.dataset.frames") == str(len(recorded.of("tx")))
    browser.key("End")
    facts = _facts(browser)
    end = recorded.events[-1]["t"]
    for name, kind in (("data", "data"), ("ACK", "ack"), ("NAK", "nak"), ("CNP", "cnp"), ("other", "other")):
        assert facts[name].replace(",", "") == str(recorded.sent(kind, end)), name
    lost = [event for event in recorded.of("lost") if event["why"] == "loss"]
    assert lost
    assert facts["lost on a link"] == str(len(lost))


def frames_are_drawn_from_first_bit_to_last_bit(browser: Browser, page: str, recorded: Recorded) -> None:
    frames = recorded.of("tx")
    at = frames[len(frames) // 2]["t"]
    # 100 Gbit/s and 500 ns; FCS, preamble and gap are 24 bytes; a lost frame is shown for at least 2 us.
    lasts = {id(frame): (max(frame["len"], 60) + 24) * 0.08 + 500 for frame in frames}
    lost = {(event["t"], event["n"], event["p"]) for event in recorded.of("lost")}
    is_lost = [(frame["t"], frame["n"], frame["p"]) in lost for frame in frames]
    on_links = sum(
        frame["t"] <= at < frame["t"] + lasts[id(frame)] and not gone
        for frame, gone in zip(frames, is_lost, strict=True)
    )
    browser.open(f"{page}#t={at}")
    fade = browser.value(f"Math.max(({recorded.events[-1]['t']} - {recorded.begin}) / 100, 2000)")
    gone = sum(
        gone and frame["t"] <= at < frame["t"] + fade for frame, gone in zip(frames, is_lost, strict=True)
    )
    assert browser.value("document.body.dataset.inFlight") == str(on_links + gone)


def switch_panel_shows_the_mft_at_any_time(browser: Browser, page: str, recorded: Recorded) -> None:
    changes = [event for event in recorded.of("mft") if event["count"]]
    # Of several changes of a switch at one time, the page shows the last.
    last = {(event["t"], event["n"]): event for event in changes}
    changes = list(last.values())
    for event in (changes[len(changes) // 3], changes[len(changes) // 2], changes[-1]):
        switch = recorded.names[event["n"]]
        browser.open(f"{page}#t={event['t']}&node={switch}")
        rows = _rows(browser)
        assert [int(row[3]) for row in rows] == recorded.acks(switch, event["t"])
        feedback = event["feedback"]
        facts = _facts(browser)
        assert facts["minimum"] == str(feedback["minimum"])
        assert facts["sent by the source"] == str(feedback["sent"])
        for row in rows:
            assert (int(row[3]) + int(row[4])) % MODULUS == feedback["sent"]
        waits = f"A NAK of PSN {feedback['nak']} waits." if "nak" in feedback else "No NAK waits."
        assert waits in browser.text("#panel")


def keys_change_the_time(browser: Browser, page: str, recorded: Recorded) -> None:
    browser.open(page)
    assert _now(browser) == recorded.begin
    # As in reports, times count from the source's post.
    assert _shown(browser.text("#now")) == 0
    times = sorted(
        {event["t"] for event in recorded.events if event["e"] != "mft" and event["t"] > recorded.begin}
    )
    for expected in times[:3]:
        browser.key("ArrowRight")
        assert _now(browser) == expected
    browser.key("ArrowLeft")
    assert _now(browser) == times[1]
    browser.key("l")
    losses = [event["t"] for event in recorded.events if event["e"] == "lost" or event.get("k") == "nak"]
    assert _now(browser) == min(time for time in losses if time > times[1])
    browser.key("End")
    assert _now(browser) == recorded.events[-1]["t"]
    browser.key("Home")
    assert _now(browser) == recorded.begin
    browser.key("z")
    browser.key("Home")
    assert _now(browser) == 0
    assert _shown(browser.text("#now")) == -recorded.begin
    browser.key("z")


def playing_ends_at_pause_or_at_the_end(browser: Browser, page: str) -> None:
    browser.open(page)
    begin = browser.text("#now")
    browser.key(" ")
    browser.wait(f"document.getElementById('now').innerText !== {json.dumps(begin)}")
    assert browser.text("#play") == "pause"
    browser.key(" ")
    assert browser.text("#play") == "play"
    stopped = browser.text("#now")
    browser.drawn()
    assert browser.text("#now") == stopped
    for _ in range(20):
        browser.key("+")
    browser.key(" ")
    browser.wait("document.getElementById('play').innerText === 'play'")
    assert browser.value("document.getElementById('time').value") == "10000"


def views_themes_and_help_have_keys(browser: Browser, page: str) -> None:
    browser.open(f"{page}#theme=light")
    for key, view in (("2", "sequence"), ("3", "decisions"), ("1", "fabric")):
        browser.key(key)
        shown = browser.value(
            "[...document.querySelectorAll('main > section:not([hidden])')].map((view) => view.id)"
        )
        assert shown == [view]
    light = browser.value("getComputedStyle(document.body).backgroundColor")
    browser.key("d")
    assert browser.value("getComputedStyle(document.body).backgroundColor") != light
    browser.key("d")
    browser.key("?")
    assert browser.value("document.getElementById('help').open")
    browser.key("Escape")
    browser.key("n")
    assert browser.text("#panel h2") == "h1 (host)"
    browser.key("p")
    assert browser.text("#panel h2") == "c4 (switch)"
    browser.key("Escape")
    assert browser.text("#panel h2") == "Frames on links so far"


def click_selects_the_node_at_its_position(browser: Browser, page: str) -> None:
    browser.open(page)
    box = "document.getElementById('canvas').getBoundingClientRect()"
    x, y, width, height = (browser.value(f"{box}.{side}") for side in ("x", "y", "width", "height"))
    # Hosts are the lowest of four rows; the first of sixteen has half a place on its left.
    browser.click(x + 34 + (width - 68) * 0.5 / 16, y + height - 40)
    assert browser.text("#panel h2") == "h1 (host)"
    browser.click(x + width / 2, y + 150)
    assert browser.text("#panel h2") == "Frames on links so far"


def sequence_view_has_losses_and_naks_in_order(browser: Browser, page: str, recorded: Recorded) -> None:
    lost = next(event for event in recorded.of("lost") if event["t"] > recorded.begin)
    browser.open(f"{page}#t={lost['t']}&view=sequence&feedback=1")
    times = [float(text.split()[0].replace(",", "")) for text in _texts(browser, "#diagram .at")]
    assert times
    assert times == sorted(times)
    names = _texts(browser, "#diagram .name")
    assert (names[0], names[-1]) == ("h1", "h2")
    # From the source to the farthest receiver.
    browser.open(f"{page}#t={lost['t']}&view=sequence&feedback=1&to=h16")
    names = _texts(browser, "#diagram .name")
    assert (names[0], names[-1], len(names)) == ("h1", "h16", 7)
    assert any("NAK psn" in label for label in _texts(browser, "#diagram .label"))
    # No label reaches beyond the lines of the two nodes that it is between.
    labels = "[...document.querySelectorAll('#diagram .label')]"
    wide = f"Math.max(...{labels}.map((label) => label.getBBox().width))"
    lines = "[...document.querySelectorAll('#diagram .life')].map((line) => line.x1.baseVal.value)"
    assert browser.value(f"{wide} < ({lines})[1] - ({lines})[0]")
    assert _texts(browser, "#diagram .cross")


def click_on_a_decision_sets_its_time(browser: Browser, page: str, recorded: Recorded) -> None:
    browser.open(f"{page}#view=decisions&whole=1")
    listed = browser.text("#notes")
    assert "group 10.255.0.1 is ready: 16 members" in listed
    assert "inserts table ingress.group_lookup.mft" in listed
    is_it = "(note) => note.innerText.includes('is ready: 16')"
    button = f"[...document.querySelectorAll('#notes button')].find({is_it})"
    browser.value(f"{button}.click()")
    browser.drawn()
    ready = next(note["t"] for note in recorded.of("note") if "is ready: 16" in note["text"])
    assert _now(browser) == ready


def another_run_can_be_selected(browser: Browser, page: str) -> None:
    browser.open(page)
    runs = "document.getElementById('traces')"
    browser.value(f"{runs}.value = '1', {runs}.dispatchEvent(new Event('change'))")
    browser.wait("document.getElementById('about').innerText.startsWith('chain')")
    browser.key("p")
    assert "The trace has no group state" in browser.text("#panel")


def fabric_of_128_hosts_is_drawn(browser: Browser, tmp_path: Path) -> None:
    k8 = [ALFIRK, "topology", "fat-tree", "--k", "8"]
    topology = subprocess.run(k8, check=True, capture_output=True).stdout
    (tmp_path / "k8.yaml").write_bytes(topology)
    run = ["run", "--topology", str(tmp_path / "k8.yaml"), "--size", "64KiB", "--algorithms", "alfirk"]
    with _served(*run, "--web", "127.0.0.1:0") as address:
        browser.open(address)
        assert "128 hosts, 80 switches" in browser.text("#about")
        canvas = "document.getElementById('canvas')"
        pixels = f"{canvas}.getContext('2d').getImageData(0, 0, {canvas}.width, {canvas}.height).data"
        drawn = f"{pixels}.filter((byte, at) => at % 4 === 3 && byte > 0).length"
        # Links and nodes cover more than that.
        assert browser.value(f"{drawn} / ({canvas}.width * {canvas}.height)") > 0.05
        browser.key(" ")
        browser.wait("document.body.dataset.inFlight > 20")


def page_loads_nothing_from_other_servers_and_has_no_errors(browser: Browser, page: str) -> None:
    browser.open(page)
    elsewhere = [
        url for url in browser.loaded if not url.startswith(("http://127.0.0.1:", "about:", "data:"))
    ]
    assert elsewhere == []
    assert browser.troubles == []
