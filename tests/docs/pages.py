"""What a page of README and docs consists of: blocks with marks, links, anchors. The rules: docs/design/docs.md."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARKS = ("file", "files of", "output", "exit", "needs")
RUN = ("bash", "python")

_FENCE = re.compile(r"^```(\S*)(?: \S+)?$")
_MARK = re.compile(r"^<!-- ([^:]+?)(?:: (.+))? -->$")
_HEADING = re.compile(r"^#{1,6} (.+)$")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`\n]*`")


class Block(NamedTuple):
    """A fenced block: `line` is that of its fence; `adjacent` if only empty lines part it from the block before."""

    page: Path
    line: int
    language: str
    text: str
    marks: dict[str, str]
    adjacent: bool

    @property
    def place(self) -> str:
        """Return where the block stands, as an editor opens it."""
        return f"{name(self.page)}:{self.line}"

    @property
    def needs(self) -> list[str]:
        """Return what the block needs that this machine has not, by the words of its mark."""
        return self.marks["needs"].split("; ") if "needs" in self.marks else []

    @property
    def runs(self) -> bool:
        """Return whether the block is executed; a file is written, which is another thing."""
        return self.language in RUN and "file" not in self.marks


def name(page: Path) -> str:
    """Return a page's path as a reader names it; a page elsewhere keeps its whole path."""
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else str(page)


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in order; a fence that is left open is an error."""
    found: list[Block] = []
    marks: dict[str, str] = {}
    adjacent = False
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            text = "".join(f"{inside}\n" for inside in _inside(lines, f"{name(page)}:{number}"))
            found.append(Block(page, number, fence[1], text, marks, adjacent))
            marks, adjacent = {}, True
        elif mark := _MARK.match(line):
            marks[mark[1]] = mark[2] or ""
        elif line.strip():
            if marks:
                raise ValueError(
                    f"{name(page)}:{number}: a mark above this line has no block below it: {sorted(marks)}"
                )
            adjacent = False
    return found


def _inside(lines: Iterator[tuple[int, str]], place: str) -> Iterator[str]:
    for _, line in lines:
        if line == "```":
            return
        yield line
    raise ValueError(f"{place}: this block is never closed")


def prose(page: Path) -> list[tuple[int, str]]:
    """Return the numbered lines of a page outside of its blocks."""
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    told: list[tuple[int, str]] = []
    fenced = False
    for number, line in lines:
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            told.append((number, line))
    return told


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    times: Counter[str] = Counter()
    found = set()
    for _, line in prose(page):
        if heading := _HEADING.match(line):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            found.add(f"{slug}-{times[slug]}" if times[slug] else slug)
            times[slug] += 1
    return found


def links(page: Path) -> list[tuple[int, str]]:
    """Return the numbered targets of all links and pictures of a page; what stands in code is none."""
    return [(number, target) for number, line in prose(page) for target in _LINK.findall(_CODE.sub("", line))]
