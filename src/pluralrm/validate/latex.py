r"""Answers in LaTeX, one spelling for one thing. Strings only: nothing is evaluated here.

>>> tidy(r"$\left( 1\,000, \dfrac12 \right).$")
'( 1000, \\frac12 )'
>>> both_signs(r"2 \pm \sqrt{3}")
'2 + \\sqrt{3}, 2 - \\sqrt{3}'
>>> words(r"\textbf{No solution}.")
'no solution'
>>> split(r"5\text{ cm}^2")
('5', Unit(dimension='area', size=Fraction(1, 10000)))
>>> split("x + 1")
('x + 1', None)
"""

import re
import unicodedata
from fractions import Fraction
from typing import NamedTuple

from pluralrm.chat.completions import unreadable
from pluralrm.core import Failure
from pluralrm.validate.code import without_thinking

_SPELLINGS = [
    (re.compile(pattern), spelling)
    for pattern, spelling in (
        (r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle)(?![a-zA-Z])", ""),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\(?:leq|leqslant)(?![a-zA-Z])|≤", r"\\le "),
        (r"\\(?:geq|geqslant)(?![a-zA-Z])|≥", r"\\ge "),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"\\varnothing(?![a-zA-Z])|∅", r"\\emptyset "),
        (r"\\langle(?![a-zA-Z])", "("),
        (r"\\rangle(?![a-zA-Z])", ")"),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"[−–]", "-"),
        (r"×", r"\\times "),
        (r"π", r"\\pi "),
        (r"∞", r"\\infty "),
        (r"±", r"\\pm "),
        (r"°", r"^\\circ "),
        (r"\{([:;])\}", r"\1"),
        # 1\,000 is a thousand; other thin spaces are spaces.
        (r"(?<=\d)(?:(?<!\\)\\[,;!: ]|~)+(?=\d{3}(?!\d))", ""),
        (r"(?<!\\)\\[,;!: ]|~|\\q?quad(?![a-zA-Z])", " "),
        (r"(?<![a-zA-Z\d.])(\d+(?:\.\d+)?)[eE]([+-]?\d+)(?![\d.a-zA-Z])", r"\1 \\times 10^{\2}"),
        (r"\s+", " "),
    )
]
_FONT = re.compile(r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf|tt)|mbox|boldsymbol)\s*\{([^{}]*)\}")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*(?:\^\s*\\circ|\^\s*\{\s*\\circ\s*\})")
_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")
_REPEATING = re.compile(r"(\d+)\.(\d*)\\overline\s*\{(\d+)\}")
_MARKS = " \t.,;:!?*\"'`$"
_CHOICES = re.compile(r"[A-Z](?:(?:\s*,\s*|\s*,?\s+and\s+)[A-Z])+")
_CHAIN = re.compile(r"\s*(>|\\ge(?![a-zA-Z]))\s*")
_LESS = {">": " < ", "\\ge": " \\le "}


def tidy(latex: str) -> str:
    """Return an answer without dollars, sizes of brackets, a final stop or other differences that mean nothing."""
    text = unicodedata.normalize("NFC", latex).strip()
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = text.strip()
    text = text.removesuffix(".").strip()
    if len(text) > 2 and text[0] == text[-1] == "$" and text.count("$") == 2:
        text = text[1:-1].strip().removesuffix(".").strip()
    return _ascending(_in_radians(_REPEATING.sub(_as_fraction, text)))


def _as_fraction(match: re.Match[str]) -> str:
    """Return a repeating decimal as the fraction that it is."""
    whole, fixed, again = match.groups()
    below = 10 ** len(fixed) * (10 ** len(again) - 1)
    return rf"\frac{{{int(whole + fixed + again) - int(whole + fixed)}}}{{{below}}}"


def _in_radians(text: str) -> str:
    r"""Return a text whose degrees are angles where it takes a sine of them; elsewhere they are a unit."""
    if not _TRIGONOMETRIC.search(text):
        return text
    return _DEGREES.sub(r"{(\\frac{\1 \\pi}{180})}", text)


def _ascending(text: str) -> str:
    """Return a chain such as 3 > x > 1 from its other end."""
    first, *rest = _CHAIN.split(text)
    if len(rest) < 4 or "<" in text or "\\le" in text.replace("\\left", ""):
        return text
    terms, signs = [first, *rest[1::2]], rest[::2]
    chain = terms[-1]
    for term, sign in zip(reversed(terms[:-1]), reversed(signs), strict=True):
        chain += _LESS[sign] + term
    return chain


def bare(text: str) -> str:
    """Return a text without commands that only choose a font."""
    before = ""
    while before != text:
        before, text = text, _FONT.sub(r"\1", text)
    return text


def words(latex: str) -> str | None:
    """Return an answer in words, in small letters and without marks around it; None for one in mathematics.

    A single letter is an answer in words where it is written as text or in brackets: a choice, not a variable.
    """
    text = re.sub(r"\.(?!\d)", "", bare(latex).strip(_MARKS))
    if re.fullmatch(r"\(\s*[A-Za-z]\s*\)|[A-Z]", text):
        return text.strip("() ").casefold()
    if _CHOICES.fullmatch(text):
        return " ".join(sorted(re.findall(r"[A-Z]", text))).casefold()
    if len(text) == 1 and text.isalpha() and text != latex.strip():
        return text.casefold()
    if re.search(r"[\\^_=<>{}|]", text) or not re.search(r"[^\W\d_]{2}", text):
        return None
    if _is_product(latex, text):
        return None
    return re.sub(r"[\s,;\-]+", " ", text).strip().casefold()


def _is_product(latex: str, text: str) -> bool:
    """Return whether letters are factors, as in 3xy, and no word: they stand bare, and beside numbers or signs."""
    inside_font = text != latex.strip(_MARKS)
    return not inside_font and (bool(re.search(r"[\d+*/()\[\]]", text)) or len(text) < 3)


def both_signs(text: str) -> str:
    r"""Return a text with \pm as the two that it stands for, the upper signs together and the lower ones together."""
    if not re.search(r"\\(?:pm|mp)(?![a-zA-Z])", text):
        return text
    return ", ".join(_signed(text, *signs) for signs in ("+-", "-+"))


def _signed(text: str, upper: str, lower: str) -> str:
    text = re.sub(r"\\pm(?![a-zA-Z])\s*", f"{upper} ", text)
    text = re.sub(r"\\mp(?![a-zA-Z])\s*", f"{lower} ", text)
    return re.sub(r"^\s*\+ |(?<=[=(,{])\s*\+ ", "", text)


def elements(text: str) -> list[str]:
    """Return the parts between the commas that lie in no brackets."""
    parts, depth = [""], 0
    for token in re.findall(r"\\.|.", text, re.DOTALL):
        depth += (token in {"(", "[", "{", "\\{"}) - (token in {")", "]", "}", "\\}"})
        if token == "," and depth == 0:  # noqa: S105 - a comma
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def parts(text: str) -> list[str]:
    """Return what a union, an "or" or a comma joins; one part where nothing is joined."""
    joined = re.split(r"\\cup(?![a-zA-Z])|\\(?:text|mathrm|mbox)\s*\{\s*or\s*\}|\bor\b", text)
    return [part.strip() for part in joined] if len(joined) > 1 else elements(text)


def brackets(text: str) -> str:
    r"""Return the pair of brackets that all of a text lies in where it lists several things: '()', '[)', '{}' or ''."""
    match = re.fullmatch(r"(\\\{|\(|\[)(.*)(\\\}|\)|\])", text, re.DOTALL)
    if not match or len(elements(match[2])) < 2:
        return ""
    return (match[1] + match[3]).replace("\\", "")


LONGEST = 1_000
"""Characters of an answer that are read; no answer that people write has as many."""
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_NUMBER = re.compile(r"([+-]?)(\d+(?:\.\d+)?|\.\d+)(?:/(\d+))?")
_FRACTION = re.compile(r"([+-]?)\\frac(?:\{(\d+)\}\{(\d+)\}|(\d)(\d))")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def boxed(reply: str) -> str | Failure:
    r"""Return what the last \boxed{} of a reply holds, without its reasoning blocks; a Failure where there is none.

    >>> boxed(r"First \boxed{1}, then \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    >>> boxed("It is 4.").kind
    'parse'
    """
    text = without_thinking(reply)
    if isinstance(text, Failure):
        return text
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return unreadable("No \\boxed{} answer found", reply)
    answer = _to_closing_brace(text, boxes[-1].end())
    if answer is None:
        return unreadable("The last \\boxed{} is not closed", reply)
    if not answer.strip():
        return Failure("empty", "the last \\boxed{} is empty")
    if len(answer) > LONGEST:
        return Failure("too_long", f"the answer has {len(answer):,} characters; {LONGEST:,} are read")
    return answer


def canonical(reply: str) -> str | None:
    r"""Return one spelling of the answer that a reply boxes, for votes; None where there is none.

    Letters and numbers only: what takes algebra to be seen equal (`x+1` and `1+x`) stays two answers.

    >>> canonical(r"\boxed{0.50}") == canonical(r"\boxed{\frac{1}{2}}") == canonical(r"\boxed{ 1/2 }.") == "1/2"
    True
    """
    answer = boxed(reply)
    if isinstance(answer, Failure):
        return None
    text = "".join(tidy(answer).split())
    if match := _FRACTION.fullmatch(text):
        sign, *parts = match.groups()
        above, below = [part for part in parts if part is not None]
        text = f"{sign}{above}/{below}"
    if (number := _NUMBER.fullmatch(text)) and (number[3] is None or int(number[3])):
        return str(Fraction(f"{number[1]}{number[2]}") / int(number[3] or 1))
    return text


def reference_of(text: str) -> str:
    """Return what a reference says: its last box, or all of it where it has none."""
    boxes = list(_BOX.finditer(text))
    inside = _to_closing_brace(text, boxes[-1].end()) if boxes else None
    return text if inside is None else inside


def _to_closing_brace(text: str, start: int) -> str | None:
    r"""Return the text up to the brace that closes the one before `start`; \{ and \} are no braces."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[start : brace.start()]
    return None


class Unit(NamedTuple):
    """What a unit measures, and how many of the basic unit it is."""

    dimension: str
    size: Fraction


def _table() -> dict[str, Unit]:
    sizes: dict[str, dict[str, int | str | Fraction]] = {
        "length": {"m": 1, "cm": "0.01", "mm": "0.001", "km": 1000, "in": "0.0254", "ft": "0.3048", "mi": "1609.344"},
        "mass": {"kg": 1, "g": "0.001", "mg": "0.000001", "t": 1000, "lb": "0.45359237"},
        "time": {"s": 1, "min": 60, "h": 3600, "d": 86400, "ms": "0.001"},
        "volume": {"l": 1, "ml": "0.001"},
        "speed": {"m/s": 1, "km/h": Fraction(1000, 3600)},
        "money": {"dollar": 1, "cent": "0.01"},
        "angle": {"degree": 1},
    }
    table = {name: Unit(kind, Fraction(size)) for kind, units in sizes.items() for name, size in units.items()}
    lengths = [(name, unit.size) for name, unit in table.items() if unit.dimension == "length"]
    for power, kind in ((2, "area"), (3, "space")):
        table |= {f"{name}^{power}": Unit(kind, size**power) for name, size in lengths}
    return table


_UNITS = _table()
_UNIT_SPELLINGS = {
    "m": "meter metre",
    "cm": "centimeter centimetre",
    "mm": "millimeter millimetre",
    "km": "kilometer kilometre",
    "in": "inch inche",
    "ft": "foot feet",
    "mi": "mile",
    "g": "gram",
    "kg": "kilogram",
    "t": "tonne ton",
    "lb": "pound",
    "s": "second sec",
    "min": "minute",
    "h": "hour hr",
    "d": "day",
    "l": "liter litre",
    "ml": "milliliter millilitre",
    "m/s": "mps",
    "km/h": "kmh kph",
    "degree": "deg",
}
_NAMES = {word: name for name, spellings in _UNIT_SPELLINGS.items() for word in spellings.split()}
_WRAPPED = re.compile(
    r"(?P<number>.*[\d})\]a-z])\s*\\(?:text|mathrm|textrm|mbox|rm)\s*\{\s*(?P<name>[a-zA-Z][a-zA-Z/ .^\d]*?)[.\s]*\}"
    r"\s*(?:\^\s*\{?\s*(?P<power>[23])\s*\}?)?",
    re.DOTALL,
)
_PLAIN = re.compile(
    r"(?P<number>[-+]?[\d.,]+)\s+(?P<name>[a-zA-Z]{2,}(?:/[a-zA-Z]+)?|[mgshl])(?:\^\{?(?P<power>[23])\}?)?"
)
_DEGREE = re.compile(r"(?P<number>.*\S)\s*\^\s*\{?\s*\\circ\s*\}?", re.DOTALL)


_COUNTED = re.compile(r"(?P<number>[-+]?\d[\d.,]*(?:/\d+)?)\s+(?P<noun>[^\W\d_]{2,}(?:[\s-]+[^\W\d_]{2,}){0,3})\.?")
_NO_NOUNS = frozenset(
    [
        "and",
        "billion",
        "by",
        "choose",
        "cos",
        "cubed",
        "divided",
        "dozen",
        "dozens",
        "eighths",
        "exp",
        "factorial",
        "fifths",
        "fourths",
        "halves",
        "half",
        "hundred",
        "hundreds",
        "is",
        "least",
        "less",
        "ln",
        "log",
        "million",
        "minus",
        "mod",
        "modulo",
        "more",
        "most",
        "not",
        "of",
        "or",
        "over",
        "percent",
        "per",
        "pi",
        "plus",
        "point",
        "quarter",
        "quarters",
        "root",
        "sin",
        "sixths",
        "sqrt",
        "squared",
        "tan",
        "tenths",
        "than",
        "third",
        "thirds",
        "thousand",
        "thousands",
        "times",
        "to",
        "trillion",
    ]
)
"""Words after a number that change it, or join it to another: no name of what is counted."""


def counted(text: str) -> tuple[str, str]:
    """Return the number and the name of what is counted, as in `9 eggs`; all of the text and nothing where it is none.

    >>> counted("9 red eggs"), counted("9 dozen"), counted("9 x")
    (('9', 'red eggs'), ('9 dozen', ''), ('9 x', ''))
    """
    match = _COUNTED.fullmatch(text.strip())
    if not match or _NO_NOUNS & set(re.split(r"[\s-]+", match["noun"].casefold())):
        return text, ""
    return match["number"], " ".join(match["noun"].casefold().split())


def split(text: str) -> tuple[str, Unit | None]:
    """Return the number and its unit; all of the text and None where it ends with none that is known."""
    if match := _DEGREE.fullmatch(text):
        return match["number"], _UNITS["degree"]
    if match := re.fullmatch(r"\\?\$\s*(?P<number>[-\d.,]+)", text):
        return match["number"], _UNITS["dollar"]
    match = _WRAPPED.fullmatch(text) or _PLAIN.fullmatch(text)
    unit = match and _UNITS.get(_name(match["name"], match["power"]))
    return (match["number"].strip(), unit) if match and unit else (text, None)


def _name(name: str, power: str | None) -> str:
    """Return the short name of a unit, in the singular and with its power."""
    unit = " ".join(name.split())
    for word, meant in (("square ", "2"), ("sq ", "2"), ("cubic ", "3")):
        if unit.startswith(word):
            unit, power = unit.removeprefix(word), meant
    if unit not in _UNITS:
        unit = unit.lower()
        unit = _NAMES.get(unit) or _NAMES.get(unit.removesuffix("s"), unit.removesuffix("s"))
    return f"{unit}^{power}" if power else unit
