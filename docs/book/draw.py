"""Draws the figures of the book into src/figures/*.svg; a test compares the files with its output."""

from __future__ import annotations

from html import escape
from math import cos, pi, sin
from pathlib import Path

FIGURES = Path(__file__).parent / "src" / "figures"
INK, PALE, DATA, FEEDBACK, CHANGED, FREE = "#1b2a38", "#e9eef2", "#1f6fb2", "#b5541c", "#f6d9c6", "#cfe6d4"


class Figure:
    """A picture of shapes on white; lengths are in pixels, and the origin is the upper left corner."""

    def __init__(self, width: int, height: int, about: str) -> None:
        self._size = (width, height)
        self._about = about
        self._shapes: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, text: str = "", fill: str = PALE) -> None:
        """Draw a box with lines of text in its middle."""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" '
            f'fill="{fill}" stroke="{INK}"/>'
        )
        lines = text.split("\n") if text else []
        for number, line in enumerate(lines):
            self.text(x + width / 2, y + height / 2 + 5 + 16 * (number - (len(lines) - 1) / 2), line)

    def text(self, x: float, y: float, text: str, colour: str = INK, anchor: str = "middle") -> None:
        """Write a line."""
        self._shapes.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
        )

    def arrow(
        self, x1: float, y1: float, x2: float, y2: float, colour: str = INK, *, thin: bool = False
    ) -> None:
        """Draw an arrow."""
        name = {INK: "ink", DATA: "data", FEEDBACK: "feedback"}[colour]
        self._shapes.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
            f'stroke-width="{1 if thin else 2}" marker-end="url(#{name})"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = INK) -> None:
        """Draw a line."""
        self._shapes.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="1"/>'
        )

    def circle(self, x: float, y: float, radius: float, fill: str = "none") -> None:
        """Draw a circle."""
        self._shapes.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{INK}"/>')

    def svg(self) -> str:
        """Return the picture as SVG text."""
        width, height = self._size
        heads = "".join(
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
            for name, colour in (("ink", INK), ("data", DATA), ("feedback", FEEDBACK))
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                f'height="{height}" font-family="sans-serif" font-size="14" role="img">',
                f"<title>{escape(self._about)}</title><defs>{heads}</defs>",
                f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
                *self._shapes,
                "</svg>\n",
            ]
        )


def group() -> Figure:
    """Draw one queue pair, a tree of switches, and the minimum of the ACKs."""
    figure = Figure(
        780, 350, "One queue pair sends to a tree of switches; acknowledgements come back as their minimum"
    )
    figure.box(20, 140, 90, 50, "h1\nqueue pair")
    figure.box(180, 140, 90, 50, "leaf")
    figure.box(340, 140, 90, 50, "spine")
    figure.box(480, 50, 90, 50, "leaf")
    figure.box(480, 230, 90, 50, "leaf")
    for y, name, acked in ((20, "h2", 9), (90, "h3", 7), (200, "h4", 8), (270, "h5", 12)):
        figure.box(640, y, 60, 36, name)
        leaf = 75 if y < 150 else 255
        turn = -10 if y in {20, 200} else 10
        figure.arrow(572, leaf + turn, 638, y + 18 + turn / 3, DATA)
        figure.arrow(638, y + 18 - turn, 572, leaf + turn / 5, FEEDBACK, thin=True)
        figure.text(708, y + 23, f"ACK {acked}", FEEDBACK, anchor="start")
    for x, label in ((110, "ACK 7"), (270, "ACK 7")):
        figure.arrow(x + 2, 156, x + 68, 156, DATA)
        figure.text(x + 35, 148, "7, 8, ...", DATA)
        figure.arrow(x + 68, 176, x + 2, 176, FEEDBACK, thin=True)
        figure.text(x + 35, 194, label, FEEDBACK)
    for leaf, label, side in ((75, "ACK 7", 112), (255, "ACK 8", 238)):
        figure.arrow(432, 160 if leaf < 150 else 170, 478, leaf, DATA)
        figure.arrow(
            486, leaf + (27 if leaf < 150 else -27), 432, 172 if leaf < 150 else 184, FEEDBACK, thin=True
        )
        figure.text(414, side, label, FEEDBACK)
    figure.text(390, 338, "Each switch sends the minimum of its paths to the switch above when it advances.")
    return figure


def bridge() -> Figure:
    """Draw the fields of a packet that the two halves of a bridge change."""
    figure = Figure(720, 300, "The fields of a RoCEv2 packet that the two halves of a bridge change")
    columns = (
        ("Ethernet\ndst", 70),
        ("IPv4\nident.", 70),
        ("IPv4\nTTL, sum", 80),
        ("IPv4\nsource", 80),
        ("IPv4\ndest.", 80),
        ("UDP\nsource", 80),
        ("BTH\nDestQP", 80),
        ("payload", 90),
        ("ICRC", 60),
    )
    rows: tuple[tuple[str, int, dict[int, str]], ...] = (
        ("as the sender sends it", 30, {}),
        ("inside the fabric: entry half", 110, {1: FREE, 2: PALE, 3: CHANGED, 5: FREE}),
        (
            "as the receiver gets it: exit half",
            190,
            {0: CHANGED, 1: FREE, 2: PALE, 4: CHANGED, 5: FREE, 6: CHANGED},
        ),
    )
    for label, y, changed in rows:
        figure.text(15, y - 8, label, anchor="start")
        x = 15.0
        for number, (text, width) in enumerate(columns):
            figure.box(x, y, width, 44, text, changed.get(number, "#ffffff"))
            x += width
    figure.box(15, 256, 20, 16, fill=CHANGED)
    figure.text(42, 269, "must change", anchor="start")
    figure.box(150, 256, 20, 16, fill=FREE)
    figure.text(177, 269, "XORed, so that the ICRC stays", anchor="start")
    figure.box(430, 256, 20, 16, fill=PALE)
    figure.text(457, 269, "not covered by the ICRC", anchor="start")
    figure.text(360, 292, "Payload and ICRC are never touched.")
    return figure


def tree() -> Figure:
    """Draw the path of one ACK up the tournament tree."""
    figure = Figure(
        720,
        300,
        "A tournament tree: an acknowledgement writes one child in each level and reads its siblings",
    )
    leaves = (12, 9, 15, 11, 8, 14, 8, 10)
    for number, value in enumerate(leaves):
        own, read = number == 4, number in (5, 6, 7)
        figure.box(30 + 84 * number, 220, 70, 36, str(value), CHANGED if own else FREE if read else PALE)
        figure.text(65 + 84 * number, 274, f"path {number}")
        figure.line(65 + 84 * number, 220, 191 if number < 4 else 527, 166)
    figure.text(401, 292, "ACK 8, before 5", FEEDBACK)
    figure.box(156, 130, 70, 36, "9", FREE)
    figure.box(492, 130, 70, 36, "8", CHANGED)
    figure.line(191, 130, 359, 76)
    figure.line(527, 130, 359, 76)
    figure.box(324, 40, 70, 36, "8", CHANGED)
    figure.text(410, 54, "the minimum was 5: it advances,", anchor="start")
    figure.text(410, 72, "and the source receives ACK 8", anchor="start")
    figure.box(20, 24, 20, 16, fill=CHANGED)
    figure.text(46, 37, "written", anchor="start")
    figure.box(20, 50, 20, 16, fill=FREE)
    figure.text(46, 63, "read", anchor="start")
    figure.text(20, 88, "Each child of a node is a", anchor="start")
    figure.text(20, 106, "register array of its own.", anchor="start")
    return figure


def psn() -> Figure:
    """Draw 24-bit sequence numbers on a circle."""
    figure = Figure(
        780, 300, "24-bit sequence numbers on a circle: a number less than half of it ahead is newer"
    )
    middle, radius = (210.0, 150.0), 110.0
    figure.circle(*middle, radius)

    def at(turn: float, distance: float) -> tuple[float, float]:
        return middle[0] + distance * sin(2 * pi * turn), middle[1] - distance * cos(2 * pi * turn)

    for turn, label in ((0.0, "0"), (0.25, "0x400000"), (0.5, "0x800000"), (0.75, "0xc00000")):
        x, y = at(turn, radius + (14 if turn in {0, 0.5} else 44))
        figure.text(x, y + 5, label)
        figure.circle(*at(turn, radius), 3, INK)
    for turn, label, colour in ((0.93, "a = 0xee0000", DATA), (0.12, "b = 0x1f0000", FEEDBACK)):
        figure.circle(*at(turn, radius), 6, colour)
        x, y = at(turn, radius - (44 if colour == DATA else 74))
        figure.text(x, y + 5, label, colour)
    for number, line in enumerate(
        (
            "b is newer than a, though the number is smaller:",
            "(b - a) mod 2^24 = 0x310000, less than 2^23.",
            "In P4 the subtraction of bit<24> wraps by itself,",
            "and less than 2^23 is one bit of the difference.",
            "",
            "Numbers half the circle apart have no order.",
            "So feedback beyond what was sent is dropped,",
            "and a source counts as having all that it sent.",
        )
    ):
        figure.text(420, 80 + 22 * number, line, anchor="start")
    return figure


def race() -> Figure:
    """Draw the progress of a chain, a binomial tree and a multicast over time."""
    figure = Figure(720, 330, "A message to seven receivers in time: chain, binomial tree, and multicast")
    long, short = 44, 11
    schedules = {
        "chain, 4 slices": [(rank, rank * short, long) for rank in range(7)],
        "binomial tree": [(sender, long * turn, long) for turn in range(3) for sender in range(1 << turn)],
        "multicast": [(0, 0, long)],
    }
    for number, (name, sends) in enumerate(schedules.items()):
        left = 40 + 235 * number
        figure.text(left + 75, 24, name)
        for rank in range(8):
            y = 46 + 30 * rank
            figure.text(left - 8, y + 10, str(rank), anchor="end")
            figure.line(left, y + 6, left + 165, y + 6, "#c5ced6")
        for rank, start, width in sends:
            figure.box(left + start, 46 + 30 * rank, width, 13, fill=DATA)
        end = max(start + width for _, start, width in sends)
        figure.line(left + end, 40, left + end, 280)
        figure.text(left + end, 296, f"{end / long:g} messages' time")
    figure.text(360, 322, "Blue: a member sends. Delays on the way are left out.")
    return figure


DRAWINGS = {"group": group, "bridge": bridge, "tree": tree, "psn": psn, "race": race}


def main() -> None:
    """Write all figures."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FIGURES / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
