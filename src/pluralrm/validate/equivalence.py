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
    wanted, said = tidy(reference), tidy(answer)
    if "".join(wanted.split()) == "".join(said.split()):
        return True
    if _OPEN.search(said) and not _OPEN.search(wanted):
        return False
    for rule in (_contradiction, _counted, _in_words, _in_bases, _by_the_clock, _in_ratio, _in_brackets, _in_parts):
        decided = rule(wanted, said)
        if decided is not None:
            return decided
    return _with_units(wanted, said)


def _contradiction(wanted: str, said: str) -> bool | None:
    """Return False for an equation between numbers that are not equal, such as 2 = 1; None for all else."""
    if _EQUALS.search(wanted):
        return None
    sides = [side.strip() for side in _EQUALS.split(said)]
    numbers = [side for side in sides if side and not _LETTER.search(_COMMAND.sub("", side))]
    first, *rest = numbers or [""]
    return None if len(sides) < 2 or all(_formulas(first, other) for other in rest) else False


def _counted(wanted: str, said: str) -> bool | None:
    """Return whether the numbers agree where one answer alone names what is counted; None for all else."""
    (meant, noun), (told, other) = counted(bare(wanted)), counted(bare(said))
    if bool(noun) == bool(other) or "%" in wanted + said:
        return None
    one, another = (meant, said) if noun else (wanted, told)
    return equal(one, another) if not split(another if noun else one)[1] else None


def _in_words(wanted: str, said: str) -> bool | None:
    """Return whether two answers in words are alike; None where neither is in words."""
    meant, told = words(wanted), words(said)
    if meant is None or told is None:
        return None
    if meant == told:
        return True
    return None if meant[0].isdigit() or told[0].isdigit() else False  # 5 cm and 5 centimetres


def _in_bases(wanted: str, said: str) -> bool | None:
    """Return whether two numerals with a base are one number; None where one has no base."""
    found = _BASED.fullmatch(wanted), _BASED.fullmatch(said)
    if not all(found):
        return None
    numbers = [_number(*match.groups()) for match in found if match]
    return numbers[0] is not None and numbers[0] == numbers[1] if _digits(wanted) and _digits(said) else None


def _digits(text: str) -> bool:
    return text[0].isdigit()


def _number(digits: str, base: str) -> int | None:
    try:
        return int(digits, int(base))
    except ValueError:
        return None


def _by_the_clock(wanted: str, said: str) -> bool | None:
    """Return whether two times of day are one; None where the reference is none. 1:30 is not the ratio 1/30."""
    meant, told = _CLOCK.fullmatch(wanted), _CLOCK.fullmatch(bare(said))
    if meant is None:
        return None
    return told is not None and [int(part) for part in meant.groups()] == [int(part) for part in told.groups()]


def _in_ratio(wanted: str, said: str) -> bool | None:
    """Return whether two ratios such as 3:4:5 are proportional; None where one is none."""
    if not (_RATIO.fullmatch(wanted) and _RATIO.fullmatch(said)):
        return None
    first, second = ([Fraction(part.strip()) for part in text.split(":")] for text in (wanted, said))
    return len(first) == len(second) and all(a * second[0] == b * first[0] for a, b in zip(first, second, strict=True))


def _in_brackets(wanted: str, said: str) -> bool | None:
    """Return False for a set against a point or an interval, however alike their numbers are."""
    kinds = {brackets(wanted), brackets(said)}
    return False if "{}" in kinds and kinds & {"()", "[]", "[)", "(]"} else None


def _in_parts(wanted: str, said: str) -> bool | None:
    """Return True where each part of one is equal to a part of the other; None where that decides nothing."""
    meant, told = parts(wanted), parts(said)
    if len(meant) != len(told) or not 2 <= len(meant) <= _PARTS:
        return None
    for part in meant:
        found = next((other for other in told if equal(part, other)), None)
        if found is None:
            return None
        told.remove(found)
    return True


def _with_units(wanted: str, said: str) -> bool:
    (meant, unit), (told, other) = split(wanted), split(said)
    if unit and other:
        if unit.dimension != other.dimension:
            return False
        if unit.size != other.size:
            factor = other.size / unit.size
            told = rf"\frac{{{factor.numerator}}}{{{factor.denominator}}} \cdot ({told})"
        return _formulas(meant, told)
    if (unit or other) and "%" in wanted + said:
        return False
    return _formulas(wanted, said)


def _formulas(wanted: str, said: str) -> bool:
    first, second = _parsed(both_signs(wanted)), _parsed(both_signs(said))
    return bool(verify(first, second, allow_set_relation_comp=True, timeout_seconds=None))


def _parsed(latex: str) -> list[object]:
    """Return what Math-Verify reads in an answer, and the answer; the letter i is the imaginary unit."""
    read = parse(rf"\boxed{{{latex}}}", _LATEX, parsing_timeout=None)
    return [one if isinstance(one, str) else _imaginary(one) for one in read]


def _imaginary(one: Basic) -> Basic:
    letters = {symbol: I for symbol in one.free_symbols if str(symbol) == "i"}
    return one.subs(letters) if letters else one  # a list that is rebuilt forgets its order
