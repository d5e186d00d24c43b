"""Prompts that a filter easily takes for what they are not, each with the decision that docs/filters.md documents.

Characters that a reader could not tell apart are written as escapes.
"""

from typing import NamedTuple

from pluralrm.construct.filters import Rule


class Tricky(NamedTuple):
    """A prompt, the rule that refuses it (None: it stays), what the reason must name, and why it is so."""

    text: str
    rule: Rule | None
    names: str
    why: str


def _stays(text: str, why: str) -> Tricky:
    return Tricky(text, None, "", why)


def _role(text: str, names: str, why: str) -> Tricky:
    return Tricky(text, "role", repr(names), why)


def _characters(text: str, names: str, why: str) -> Tricky:
    return Tricky(text, "characters", names, why)


PROMPTS = (
    # ------------------------------------------------------------ you are
    _role("You are a pirate. Greet me.", "You are", "the phrase itself"),
    _role("YOU ARE a pirate.", "YOU ARE", "capitals do not count"),
    _role("Tell me why you are sure.", "you are", "no role, but the published rule has no exception"),
    _role("you  \t are a cook", "you are", "white space of any length parts two words"),
    _role("Now you\nare a cook", "you are", "a line break is white space"),
    _role("Now you\u00a0are a cook", "you are", "so is a no-break space; the role is looked for before characters"),
    _role("(you are)", "you are", "brackets touch no word"),
    _role("As if you are-or were-a cook", "you are", "a hyphen ends a word"),
    _role("x = 'you are here'", "you are", "code is text"),
    _stays("Which bayou are the herons in?", "'bayou' is another word"),
    _stays("Is what you area-code means clear?", "'area' is another word"),
    _stays("Thank you. Are there more?", "a full stop stands between the words"),
    _stays("What do you, are they, know?", "a comma stands between the words"),
    _stays("Are you a pirate?", "the words stand the other way round"),
    _stays("you_are = True", "an underscore makes one word of them"),
    _stays("YouAre is a bad name for a class.", "nothing parts them"),
    _stays("You were a pirate once.", "'were' is another word"),
    _characters("you\u200b are a cook", "U+200B ZERO WIDTH SPACE", "a zero-width space is no white space, and foreign"),
    _characters("yo\u00adu are a cook", "U+00AD SOFT HYPHEN", "a soft hyphen splits the word"),
    _characters("\u0443ou are a cook", "U+0443 CYRILLIC SMALL LETTER U", "a Cyrillic letter makes another word"),
    _characters("\uff59\uff4f\uff55 are", "U+FF59 FULLWIDTH LATIN SMALL LETTER Y", "full-width letters are not folded"),
    # ------------------------------------------------------------ you're
    _role("You're a pirate.", "You're", "a typewriter apostrophe"),
    _role("You\u2019re a pirate.", "You\u2019re", "a curly one is the same phrase; the role is named, not the quote"),
    _role("You\u2018re a pirate.", "You\u2018re", "an opening quote in its place is a slip"),
    _role("You\u02bcre a pirate.", "You\u02bcre", "the modifier letter apostrophe"),
    _role("say 'you're late'", "you're", "quotes around do not hide it"),
    _stays("youre a pirate", "without an apostrophe it is another word"),
    _stays("You 're a pirate", "nothing may stand before the apostrophe"),
    _stays("Is you'red a word?", "'red' goes on"),
    _stays("Fill in: you'r_", "no such word"),
    _characters("You\u00b4re a pirate", "U+00B4 ACUTE ACCENT", "an accent is no apostrophe"),
    _stays("You`re a pirate", "neither is a backquote"),
    # ------------------------------------------------------------ imagine
    _role("Imagine a bakery.", "Imagine", "the word"),
    _role("IMAGINE!", "IMAGINE", "in capitals"),
    _role("I can't imagine that.", "imagine", "no role, but the rule has no exception"),
    _role("re-imagine the logo", "imagine", "a hyphen ends a word"),
    _role('Sing John Lennon\'s "Imagine".', "Imagine", "a title is a word too"),
    _stays("I imagined a bakery.", "another word"),
    _stays("Reimagine the logo.", "another word"),
    _stays("What is imaginable?", "another word"),
    _stays("Use imagine_v2() here.", "an underscore goes on"),
    _stays("Is an imaginary number real?", "another word"),
    # ------------------------------------------------------------ take ... role
    _role("Take on the role of a judge.", "Take on the role", "two words between"),
    _role("Take the role of a judge.", "Take the role", "one word between"),
    _role("take\non\nthe\nrole", "take on the role", "over lines"),
    _role(
        "Please take up your late aunt's leading role.", "take up your late aunt's leading role", "any number of words"
    ),
    _role("Take part in a role-play.", "Take part in a role", "a hyphen ends a word"),
    _role("Take a well-known role.", "Take a well-known role", "a word may hold a hyphen"),
    _role("Take, then take the role.", "take the role", "the search goes on after a comma"),
    _stays("Is this a takeaway role?", "'takeaway' is another word"),
    _stays("Take role models seriously.", "no word stands between"),
    _stays("Take on many roles.", "'roles' is another word"),
    _stays("Who takes on the role?", "'takes' is another word"),
    _stays("She was taking the role.", "'taking' is another word"),
    _stays("Take care. What role does salt play?", "a full stop ends the phrase"),
    _stays("Take salt, the role of which is unclear.", "a comma ends it"),
    _stays("What a mistake the role was.", "'mistake' is another word"),
    _stays("Take the parole board.", "'parole' is another word"),
    _stays("Which role did they take?", "the words stand the other way round"),
    # 212A is a letterlike symbol, and allowed; Unicode's lower case of it is k.
    _role("Ta\u212ae on the role.", "Ta\u212ae on the role", "a Kelvin sign is a k in capitals"),
    # ------------------------------------------------------------ characters
    _stays("Explain entropy.", "ASCII"),
    _stays("a\tb\nc\r\nd", "tabs and line breaks are within 0000-007F"),
    _stays("a\x00b\x1bc\x7f", "so are all control characters: the ranges are as published"),
    _stays("def f(x):\n    return {**x, 'a': [1, 2]}  # ~`|^", "code"),
    _stays("Boil at 100 \u00b0C.", "the degree sign"),
    _stays("Is \u03b1 + \u03b2 = \u03a9?", "Greek"),
    _stays("H\u2082O and x\u2074", "subscripts, and the superscripts from 2070 on"),
    _stays("All of \u2102, \u211d and \u2115", "letterlike symbols"),
    _stays("Add \u215b of \u2160.", "number forms"),
    _stays("\u2200x \u2208 A: x \u2264 y \u2227 \u221ay \u2260 \u221e", "operators"),
    _stays("Minus 3 is \u22123.", "the minus sign is an operator"),
    _stays("\u2a00 and \u2aff", "both ends of a range"),
    _stays("\u0370 and \u03ff, \u2070 and \u209f", "both ends, assigned to a character or not"),
    _characters("Is 5\u00b2 odd?", "U+00B2 SUPERSCRIPT TWO at character 5", "superscript two is in Latin-1"),
    _characters("Add \u00bd cup.", "U+00BD VULGAR FRACTION ONE HALF", "so is one half"),
    _characters("2 \u00d7 3", "U+00D7 MULTIPLICATION SIGN", "and the times sign"),
    _characters("3 \u00b1 1", "U+00B1 PLUS-MINUS SIGN", "and plus-minus"),
    _characters("5 \u00b5m", "U+00B5 MICRO SIGN", "the micro sign is not the Greek letter"),
    _stays("5 \u03bcm", "and this is the Greek letter"),
    _characters("He said \u201cno\u201d.", "U+201C LEFT DOUBLE QUOTATION MARK", "curly quotes"),
    _characters("What\u2019s new?", "U+2019 RIGHT SINGLE QUOTATION MARK at character 5", "a curly apostrophe"),
    _characters("One \u2013 two", "U+2013 EN DASH", "dashes"),
    _characters("One\u2014two", "U+2014 EM DASH", "dashes"),
    _characters("And so on\u2026", "U+2026 HORIZONTAL ELLIPSIS", "an ellipsis"),
    _characters("A \u2192 B", "U+2192 RIGHTWARDS ARROW", "arrows, 2190-21FF, stand between two ranges"),
    _characters("A \u27f9 B", "U+27F9 LONG RIGHTWARDS DOUBLE ARROW", "long ones too"),
    _characters("Hi \U0001f600", "U+1F600 GRINNING FACE", "emoji"),
    _characters("ok \u263a\ufe0f", "U+263A WHITE SMILING FACE", "an emoji of two code points: its first is named"),
    _characters("Caf\u00e9", "U+00E9 LATIN SMALL LETTER E WITH ACUTE", "an accented letter"),
    _characters("Cafe\u0301", "U+0301 COMBINING ACUTE ACCENT", "the same, as a letter and a mark: nothing is composed"),
    _characters("\u4f60\u597d", "U+4F60 CJK UNIFIED IDEOGRAPH-4F60", "Chinese"),
    _characters("\u3053\u3093\u306b\u3061\u306f", "U+3053 HIRAGANA LETTER KO", "Japanese"),
    _characters("\uc548\ub155", "U+C548 HANGUL SYLLABLE AN", "Korean"),
    _characters("\u041f\u0440\u0438\u0432\u0435\u0442", "U+041F CYRILLIC CAPITAL LETTER PE", "Russian"),
    _characters("\u0645\u0631\u062d\u0628\u0627", "U+0645 ARABIC LETTER MEEM", "Arabic"),
    _characters("\u1f00", "U+1F00 GREEK SMALL LETTER ALPHA WITH PSILI", "extended Greek is another range"),
    _characters("a\u00a0b", "U+00A0 NO-BREAK SPACE", "a no-break space"),
    _characters("a\u200bb", "U+200B ZERO WIDTH SPACE", "a zero-width space"),
    _characters("\ufeffHello", "U+FEFF ZERO WIDTH NO-BREAK SPACE at character 1", "a byte order mark"),
    _characters("a\u202eb", "U+202E RIGHT-TO-LEFT OVERRIDE", "a mark of direction"),
    _characters("a\u0085b", "U+0085 (no name)", "control characters beyond 007F"),
    _characters("a\u0080b", "U+0080 (no name)", "the first code point after ASCII"),
    _characters("a\u036fb", "U+036F COMBINING LATIN SMALL LETTER X", "the last one before Greek"),
    _characters("a\u0400b", "U+0400 CYRILLIC CAPITAL LETTER IE WITH GRAVE", "the first one after Greek"),
    _characters("a\u206fb", "U+206F NOMINAL DIGIT SHAPES", "the last one before superscripts"),
    _characters("5 \u20ac", "U+20AC EURO SIGN", "currencies, 20A0-20CF, stand between two ranges"),
    _characters("a\u2300b", "U+2300 DIAMETER SIGN", "the first one after operators"),
    _characters("\U0001d465 = 1", "U+1D465 MATHEMATICAL ITALIC SMALL X", "mathematical letters are not in the ranges"),
    _characters("a\ud800b", "U+D800 (no name)", "half of a surrogate pair"),
    # ------------------------------------------------------------ nothing
    Tricky("", "empty", "white space", "nothing is asked"),
    Tricky(" \n\t ", "empty", "white space", "nothing is asked"),
    _stays("?", "one character is a prompt"),
    _stays("\x00", "a control character is no white space"),
)
