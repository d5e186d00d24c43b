"""How texts, numbers, shares, p-values and counted nouns are written wherever they are read."""

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pluralrm.core import Estimate

# C0 and C1 controls, marks that turn the direction of writing, lone surrogates: spelled out, so that they are seen.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_MINUS = "−"


def visible(text: str) -> str:
    r"""Return a text that any HTML or XML parser can read: invisible characters are spelled out.

    >>> visible("ba\x07king")
    'ba\\x07king'
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def well_formed(text: str) -> str:
    r"""Return the text with lone surrogates spelled out: readers of JSON refuse them.

    >>> well_formed("caf\u00e9 \ud800")
    'café \\ud800'
    """
    return text.encode(errors="backslashreplace").decode()


def counted(number: int, noun: str) -> str:
    """Return `1 run` or `2,830 runs`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return `a, b and c`; beyond `most` names, `a, b, c and 5 more`."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def capital(text: str) -> str:
    """Return a text that can begin a sentence; its other letters stay as they are."""
    return text[:1].upper() + text[1:]


def typeset(text: str) -> str:
    """Return a text of the terminal with the apostrophes of a page."""
    return text.replace("'", "’")


def p_value(p: float | None) -> str:
    """Return `0.034`, or `< 0.001`; a dash for None."""
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


# ---- on a terminal: ASCII


def estimated(value: "Estimate | float | None", *, times: float = 100, places: int = 1) -> str:
    """Return `61.7 [44.0, 77.1]`, in per cent by default; the value alone without an interval, a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, (int, float)):
        return f"{times * value:z.{places}f}"
    return f"{times * value.value:z.{places}f}{bounds(value, times=times, places=places)}"


def bounds(estimate: "Estimate", *, times: float = 100, places: int = 1) -> str:
    """Return ` [44.0, 77.1]`, in per cent by default; nothing where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f" [{times * estimate.low:z.{places}f}, {times * estimate.high:z.{places}f}]"


def points(estimate: "Estimate | None") -> str:
    """Return `+12.3` in points, `0.0` without a sign; a dash for None."""
    text = "–" if estimate is None else f"{100 * estimate.value:+.1f}"
    return "0.0" if text in {"+0.0", "-0.0"} else text


def correlation(value: float) -> str:
    """Return a correlation as papers print it: .717, -.039, 1.000."""
    text = f"{value:.3f}"
    return "0.000" if float(text) == 0 else text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def correlation_p(p: float | None) -> str:
    """Return `.012`, or `< .001`; a dash for None."""
    return "–" if p is None else "< .001" if p < 0.001 else correlation(p)


# ---- on a page: true minus signs, and why there is no interval


def share(value: float | None) -> str:
    """Return `63.3` for 0.633, in per cent; a dash for None."""
    text = "–" if value is None else f"{100 * value:.1f}"
    return "0.0" if text == "-0.0" else text.replace("-", _MINUS)


def signed(value: float) -> str:
    """Return `+3.3` or `−3.3` for a difference, in points; `0.0` without a sign."""
    text = f"{100 * value:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", _MINUS)


_WHY = re.compile(r"^.*; (?=fixed by design)|^.*no interval: ")
"""What stands before the reason in a method."""


def interval(estimate: "Estimate") -> str:
    """Return `[45.2, 78.3]`, or `fixed` or `no interval` where the method says that there is none."""
    if estimate.low is None or estimate.high is None:
        return "fixed" if "fixed by design" in estimate.method else "no interval"
    return f"[{share(estimate.low)}, {share(estimate.high)}]"


def without_interval(estimates: "Mapping[str, Estimate | None]") -> list[str]:
    """Return a line for each reason why numbers have no interval, with the names of those numbers."""
    names: dict[str, list[str]] = {}
    for name, estimate in estimates.items():
        if estimate is not None and (estimate.low is None or estimate.high is None):
            names.setdefault(_WHY.sub("", estimate.method), []).append(name)
    return [f"No interval ({why}): {', '.join(numbers)}." for why, numbers in names.items()]


def percent(estimate: "Estimate | None") -> str:
    """Return `63.3 [45.2, 78.3]`, or a dash for None."""
    return "–" if estimate is None else f"{share(estimate.value)} {interval(estimate)}"


def difference(estimate: "Estimate | None") -> str:
    """Return `+12.0 [+3.1, +20.9]` in points, or a dash for None."""
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{signed(estimate.value)} {interval(estimate)}"
    return f"{signed(estimate.value)} [{signed(estimate.low)}, {signed(estimate.high)}]"


# ---- tables of other tools


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with; the last four are the first four in full width."""


def guarded(text: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: an apostrophe is put before what could be one."""
    return f"'{text}" if text.startswith(_FORMULA) or text.startswith("'") else text


def unguarded(cell: str) -> str:
    """Return the text of a cell that `guarded` has written; any other stays as it is."""
    rest = cell[1:]
    return rest if cell.startswith("'") and (rest.startswith(_FORMULA) or rest.startswith("'")) else cell


def csv_text(rows: Sequence[Mapping[str, object]], columns: Sequence[str] = ()) -> str:
    """Return rows of the same keys as CSV that no spreadsheet runs; numbers in full, nothing for None.

    `columns` are the head where there are no rows.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: guarded(raw) if isinstance(raw, str) else raw for name, raw in row.items()} for row in rows)
    return text.getvalue()


TextForm = Literal["csv", "markdown", "latex"]
_ENDS = ("low", "high", "n", "failed")


def flat(name: str, estimate: "Estimate | None") -> dict[str, object]:
    """Return an Estimate as cells of a record: `name`, `name_low`, `name_high`, `name_n` and `name_failed`.

    >>> flat("gain", None)
    {'gain': None, 'gain_low': None, 'gain_high': None, 'gain_n': None, 'gain_failed': None}
    """
    ends = (f"{name}_{end}" for end in _ENDS)
    values = (None,) * len(_ENDS) if estimate is None else (estimate.low, estimate.high, estimate.n, estimate.failed)
    return {name: None if estimate is None else estimate.value, **dict(zip(ends, values, strict=True))}


def records_text(records: Sequence[Mapping[str, object]], form: TextForm, shares: Collection[str] = ()) -> str:
    """Return flat records of the same keys as CSV with all digits, or as a table for a paper in Markdown or LaTeX.

    There an Estimate is one cell, value and interval, what no record has is left out, and `shares` are the keys that
    are printed in per cent or points.
    """
    if form == "csv" or not records:
        return csv_text(records)
    ends = {f"{key}_{end}" for key in records[0] for end in _ENDS}
    keys = [key for key in records[0] if key not in ends and any(record[key] is not None for record in records)]
    rows = [[_paper_cell(record, key, 100 if key in shares else 1) for key in keys] for record in records]
    return (latex_text if form == "latex" else markdown_text)([key.replace("_", " ") for key in keys], rows)


def _paper_cell(record: Mapping[str, object], key: str, times: int) -> str:
    value, low, high = (record.get(name) for name in (key, f"{key}_low", f"{key}_high"))
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    places = 1 if times == 100 else 3
    if not (isinstance(low, float) and isinstance(high, float)):
        return f"{times * value:.{places}f}"
    return f"{times * value:.{places}f} [{times * low:.{places}f}, {times * high:.{places}f}]"


def markdown_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Return a table as Markdown: the first column to the left, the others to the right.

    >>> print(markdown_text(["model", "accuracy"], [["a|b", "58.3"]]), end="")
    | model | accuracy |
    | :-- | --: |
    | a\|b | 58.3 |
    """
    align = [":--", *["--:"] * (len(columns) - 1)]
    cells = [[markdown_line(cell) for cell in row] for row in (columns, *rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (cells[0], align, *cells[1:]))


def markdown_line(text: str) -> str:
    r"""Return a text as one line of Markdown that shows it as it is: no HTML, link, emphasis or formula in it acts.

    >>> print(markdown_line("<b>a_b</b>, https://example.org"))
    \<b\>a\_b\</b\>, https\://example.org
    """
    return _MARKED.sub(r"\\\g<0>", " ".join(visible(text).splitlines()))


def aligned_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as plain text: the first column to the left, the others under the ends of their titles.

    >>> print(aligned_text(["model", "gain"], [["bm25", "+13.3"]]), end="")
    model   gain
    bm25   +13.3
    """
    cells = [[visible(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells)
    return "".join(f"{line}\n" for line in lines)


def latex_text(columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    r"""Return a table as LaTeX with the rules of the package booktabs, and notes below it in small print.

    >>> print(latex_text(["model", "lift"], [["my_rm", "+3.1"]]), end="")
    \begin{tabular}{lr}
    \toprule
    model & lift \\
    \midrule
    my\_rm & +3.1 \\
    \bottomrule
    \end{tabular}
    """
    head, *body = [" & ".join(map(_latex, row)) + r" \\" for row in (columns, *rows)]
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}", r"\toprule", head, r"\midrule", *body]
    # After \\ LaTeX takes what begins with [ or * for an option.
    safe = [f"{{}}{line}" if line.startswith(("[", "*")) else line for line in lines]
    below = [rf"\par{{\footnotesize {_latex(note)}\par}}" for note in notes]
    return "\n".join([*safe, r"\bottomrule", r"\end{tabular}", *below, ""])


_MARKED = re.compile(r"[\\`*_{}\[\]<>|&$~]|(?<=[A-Za-z]):(?=//)|(?<=[Ww]{3})\.|(?<=\w)@(?=\w)")
"""What Markdown, and what pages add to it, takes for more than text: the last three begin links."""
_LATEX = {
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\n": " ",
    "−": "$-$",
    "–": "--",
    "±": r"$\pm$",
}
_LIGATURE = re.compile(r"(?<=-)(?=-)|(?<=[`'])(?=[`'])|(?<=,)(?=,)|(?<=[?!])(?=`)")
"""Between two characters of which TeX's fonts make another one."""


def _latex(text: str) -> str:
    parts = _LIGATURE.split(visible(text))
    return "{}".join("".join(_LATEX.get(mark, mark) for mark in part) for part in parts)


_INTERPOLATION = re.compile(r"(\\*)\$\{")
_BEFORE_QUOTE = re.compile(r"(\\*)('|$)")


def hydra_quoted(text: str) -> str:
    """Return a text quoted for Hydra, where backslashes count before a quote or a `${` alone."""
    whole = _INTERPOLATION.sub(r"\1\1\\${", text)
    return _BEFORE_QUOTE.sub(lambda match: f"{2 * match[1]}{chr(92) if match[2] else ''}{match[2]}", whole)
