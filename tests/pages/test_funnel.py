"""A funnel is drawn from counts alone: the same bytes every time, every count in words, bars as long as the counts."""

import re
from xml.etree import ElementTree as ET

from pluralrm.pages.plots import FunnelStep, Plot, funnel_plot

STEPS = [FunnelStep("users", 1_204, 38, 0), FunnelStep("answers", 1_001, 120, 83), FunnelStep("balance", 0, 1_001, 0)]


def plot(steps: list[FunnelStep]) -> Plot:
    return funnel_plot("funnel", steps, title="What became of 1,242 records", words="in words", x_label="records")


def tree(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own output


def test_the_same_counts_give_the_same_bytes() -> None:
    assert plot(STEPS).svg() == plot(STEPS).svg()
    assert plot(STEPS).pdf() == plot(STEPS).pdf()
    assert plot(STEPS).svg() != plot([*STEPS[:2], FunnelStep("balance", 1, 1_000, 0)]).svg()


def test_every_count_is_told_in_words() -> None:
    text = " ".join(tree(plot(STEPS).svg()).itertext())
    for told in ("1,204 kept, 38 rejected", "1,001 kept, 120 rejected, 83 waiting", "0 kept, 1,001 rejected"):
        assert told in text
    assert "What became of 1,242 records" in text


def widths(svg: str) -> list[float]:
    """Return how long the bars are, from left to right and from top to bottom."""
    found = []
    for path in tree(svg).iter("{http://www.w3.org/2000/svg}path"):
        corners = [float(x) for x in re.findall(r"[ML] ([\d.]+) [\d.]+", path.get("d", ""))]
        if len(corners) == 4 and (path.get("fill") or "none") != "none":
            found.append(max(corners) - min(corners))
    return found


def test_bars_are_as_long_as_the_counts() -> None:
    bars = [width for width in widths(plot(STEPS).svg()) if width > 0]
    counts = [count for step in STEPS for count in step[1:] if count]
    assert len(bars) == len(counts)
    assert all(abs(width / bars[0] - count / counts[0]) < 0.01 for width, count in zip(bars, counts, strict=True))


def test_what_nobody_met_is_not_in_the_legend() -> None:
    text = " ".join(tree(plot([FunnelStep("a", 3, 0, 0)]).svg()).itertext())
    assert "rejected" not in text
    assert "waiting" not in text


def test_a_funnel_without_records_can_be_drawn() -> None:
    assert "0 kept" in plot([FunnelStep("a", 0, 0, 0)]).inline(narrow=True)
