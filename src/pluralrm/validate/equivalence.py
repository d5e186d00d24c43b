"""Whether an answer is equal to a reference: rules for what is no formula, Math-Verify for what is.

Runs in the worker's process only. Nothing of a text is ever evaluated as Python: it is read by a grammar of LaTeX.
"""

import re
from fractions import Fraction

from math_verify import parse, verify
from math_verify.parser import LatexExtractionConfig
from sympy import Basic, I

from pluralrm.validate.latex import bare, both_signs, brackets, counted, parts, split, tidy, words

_LATEX = (LatexExtractionConfig(boxed_match_priority=0),)
_BASED = re.compile(r"([0-9A-Za-z]+)\s*_\s*\{?\s*(?:\\text\{)?(\d+)\}?\}?")
_OPEN = re.compile(r"\\(?:int|sum|prod|lim)(?![a-zA-Z])")
"""What is still to be worked out: a question repeated is equal to its answer, and is none."""
_EQUALS = re.compile(r"(?<![<>!:=\\])=(?!=)")
_COMMAND = re.compile(r"\\(?:frac|sqrt|cdot|times|div|pi|left|right)(?![a-zA-Z])")
_LETTER = re.compile(r"[A-Za-z\\]")
_PARTS = 10
"""Parts of an answer that are compared each with each."""
_CLOCK = re.compile(r"(\d{1,2})\s*:\s*(\d{2})")
_RATIO = re.compile(r"\d+(?:\.\d+)?(?:\s*:\s*\d+(?:\.\d+)?)+")


def equal(reference: str, answer: str) -> bool:
    """Return whether two answers in LaTeX say the same."""
    reference, answer = tidy(reference), tidy(answer)
    if "".join(reference.split()) == "".join(answer.split()):
        return True
    if _OPEN.search(answer) and not _OPEN.search(reference):
        return False
    for rule in (_contradiction, _counted, _in_words, _in_bases, _by_the_clock, _in_ratio, _in_brackets, _in_parts):
        decided = rule(reference, answer)
        if decided is not None:
            return decided
    return _with_units(reference, answer)


def _contradiction(reference: str, answer: str) -> bool | None:
    """Return False for an equation between numbers that are not equal, such as 2 = 1; None for all else."""
    if _EQUALS.search(reference):
        return None
    sides = [side.strip() for side in _EQUALS.split(answer)]
    numbers = [side for side in sides if side and not _LETTER.search(_COMMAND.sub("", side))]
    first, *rest = numbers or [""]
    return None if len(sides) < 2 or all(_formulas(first, other) for other in rest) else False


def _counted(reference: str, answer: str) -> bool | None:
    """Return whether the numbers agree where one answer alone names what is counted; None for all else."""
    (meant, noun), (value, other) = counted(bare(reference)), counted(bare(answer))
    if bool(noun) == bool(other) or "%" in reference + answer:
        return None
    left, another = (meant, answer) if noun else (reference, value)
    return equal(left, another) if not split(another if noun else left)[1] else None


def _in_words(reference: str, answer: str) -> bool | None:
    """Return whether two answers in words are alike; None where neither is in words."""
    meant, value = words(reference), words(answer)
    if meant is None or value is None:
        return None
    if meant == value:
        return True
    return None if meant[0].isdigit() or value[0].isdigit() else False  # 5 cm and 5 centimetres


def _in_bases(reference: str, answer: str) -> bool | None:
    """Return whether two numerals with a base are one number; None where one has no base."""
    matches = _BASED.fullmatch(reference), _BASED.fullmatch(answer)
    if not all(matches):
        return None
    numbers = [_number(*match.groups()) for match in matches if match]
    return numbers[0] is not None and numbers[0] == numbers[1] if _digits(reference) and _digits(answer) else None


def _digits(text: str) -> bool:
    return text[0].isdigit()


def _number(digits: str, base: str) -> int | None:
    try:
        return int(digits, int(base))
    except ValueError:
        return None


def _by_the_clock(reference: str, answer: str) -> bool | None:
    """Return whether two times of day are one; None where the reference is none. 1:30 is not the ratio 1/30."""
    meant, value = _CLOCK.fullmatch(reference), _CLOCK.fullmatch(bare(answer))
    if meant is None:
        return None
    return value is not None and [int(part) for part in meant.groups()] == [int(part) for part in value.groups()]


def _in_ratio(reference: str, answer: str) -> bool | None:
    """Return whether two ratios such as 3:4:5 are proportional; None where one is none."""
    if not (_RATIO.fullmatch(reference) and _RATIO.fullmatch(answer)):
        return None
    first, second = ([Fraction(part.strip()) for part in text.split(":")] for text in (reference, answer))
    return len(first) == len(second) and all(a * second[0] == b * first[0] for a, b in zip(first, second, strict=True))


def _in_brackets(reference: str, answer: str) -> bool | None:
    """Return False for a set against a point or an interval, however alike their numbers are."""
    kinds = {brackets(reference), brackets(answer)}
    return False if "{}" in kinds and kinds & {"()", "[]", "[)", "(]"} else None


def _in_parts(reference: str, answer: str) -> bool | None:
    """Return True where each part of one is equal to a part of the other; None where that decides nothing."""
    meant, rest = parts(reference), parts(answer)
    if len(meant) != len(rest) or not 2 <= len(meant) <= _PARTS:
        return None
    for part in meant:
        twin = next((other for other in rest if equal(part, other)), None)
        if twin is None:
            return None
        rest.remove(twin)
    return True


def _with_units(reference: str, answer: str) -> bool:
    (meant, unit), (value, other) = split(reference), split(answer)
    if unit and other:
        if unit.dimension != other.dimension:
            return False
        if unit.size != other.size:
            factor = other.size / unit.size
            value = rf"\frac{{{factor.numerator}}}{{{factor.denominator}}} \cdot ({value})"
        return _formulas(meant, value)
    if (unit or other) and "%" in reference + answer:
        return False
    return _formulas(reference, answer)


def _formulas(reference: str, answer: str) -> bool:
    first, second = _parsed(both_signs(reference)), _parsed(both_signs(answer))
    return bool(verify(first, second, allow_set_relation_comp=True, timeout_seconds=None))


def _parsed(latex: str) -> list[object]:
    """Return what Math-Verify reads in an answer, and the answer; the letter i is the imaginary unit."""
    read = parse(rf"\boxed{{{latex}}}", _LATEX, parsing_timeout=None)
    return [part if isinstance(part, str) else _imaginary(part) for part in read]


def _imaginary(expression: Basic) -> Basic:
    letters = {symbol: I for symbol in expression.free_symbols if str(symbol) == "i"}
    return expression.subs(letters) if letters else expression  # a list that is rebuilt forgets its order
