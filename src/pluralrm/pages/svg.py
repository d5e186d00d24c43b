"""From matplotlib's SVG to one for a page: no style attribute, colours as CSS variables, a title and a description."""

import re
from xml.etree import ElementTree as ET

from pluralrm.pages.style import COLOURS
from pluralrm.text import visible

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONT = re.compile(r"(?:(bold|\d{3}) )?([\d.]+)px (.*)")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_GEOMETRY = {"d", "x", "y", "width", "height", "transform", "stroke-width", "font-size"}


def standalone(drawn: bytes, title: str, words: str) -> str:
    """Return the SVG as a file of its own, in the light colours."""
    root = _tree(drawn, title, words)
    root.set("xmlns", "http://www.w3.org/2000/svg")
    return ET.tostring(root, encoding="unicode") + "\n"


def inline(drawn: bytes, title: str, words: str, *, prefix: str) -> str:
    """Return the SVG for a page, its colours CSS variables, its text in the page's font, its ids with a prefix."""
    root = _tree(drawn, title, words)
    _own_ids(root, prefix)
    names = {colour.light: f"var(--plot-{name})" for name, colour in COLOURS.items()}
    for element in root.iter():
        for key in ("fill", "stroke"):
            if (value := element.get(key)) is not None:
                element.set(key, names.get(value, value))
        element.attrib.pop("font-family", None)
    return ET.tostring(root, encoding="unicode")


def _tree(drawn: bytes, title: str, words: str) -> ET.Element:
    """Return the figure as SVG elements with presentation attributes only, a title, a description and a role."""
    root = ET.fromstring(drawn)  # noqa: S314 - our own output
    _drop(root, {f"{_SVG}metadata", f"{_SVG}style"})
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        _restyle(element)
    _drop_unused_ids(root)
    for key, value in {"role": "img", "aria-label": visible(title), "stroke-linejoin": "round"}.items():
        root.set(key, value)
    for key in ("width", "height"):
        root.set(key, root.get(key, "").removesuffix("pt"))
    root.attrib.pop("version", None)
    for place, (tag, text) in enumerate((("title", title), ("desc", words))):
        child = ET.Element(tag)
        child.text = visible(text)
        root.insert(place, child)
    return root


def _drop(root: ET.Element, tags: set[str]) -> None:
    for parent in root.iter():
        for child in [child for child in parent if child.tag in tags]:
            parent.remove(child)


def _restyle(element: ET.Element) -> None:
    """Turn a style attribute, which a strict policy would not apply, into presentation attributes."""
    for declaration in filter(None, (part.strip() for part in element.attrib.pop("style", "").split(";"))):
        key, _, value = declaration.partition(":")
        font = _FONT.fullmatch(value.strip()) if key == "font" else None
        if font is None:
            element.set(key, value.strip())
            continue
        element.set("font-size", font[2])
        element.set("font-family", font[3])
        if font[1]:
            element.set("font-weight", font[1])
    if (link := element.attrib.pop(_HREF, None)) is not None:
        element.set("href", link)
    for key in sorted(_GEOMETRY.intersection(element.attrib)):
        element.set(key, _NUMBER.sub(lambda found: f"{float(found[0]):.2f}", element.attrib[key]))


_REFERENCE = re.compile(r"#([\w-]+)")


def _references(root: ET.Element) -> set[str]:
    found = set()
    for element in root.iter():
        for key in ("href", "clip-path"):
            found.update(_REFERENCE.findall(element.get(key, "")))
    return found


def _drop_unused_ids(root: ET.Element) -> None:
    used = _references(root)
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)


def _own_ids(root: ET.Element, prefix: str) -> None:
    """Give every id a prefix: several plots stand in one page."""
    for element in root.iter():
        if (name := element.get("id")) is not None:
            element.set("id", prefix + name)
        for key in ("href", "clip-path"):
            if (value := element.get(key)) is not None:
                element.set(key, _REFERENCE.sub(rf"#{prefix}\1", value))
