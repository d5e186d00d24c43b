"""Which block of a reply is its code."""

import pytest

from pluralrm.core import Failure
from pluralrm.validate.code import code_of


def block(code: str, label: str = "python", fence: str = "```") -> str:
    return f"{fence}{label}\n{code}\n{fence}\n"


FIRST, SECOND = "def f(x):\n    return 1", "def f(x):\n    return 2"
USE = "print(f(3))"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (block(FIRST), FIRST),
        ("Text.\n\n" + block(FIRST) + "More.", FIRST),
        (block(FIRST) + block(SECOND), SECOND),
        (block(FIRST) + block(USE), FIRST),
        (block(USE), USE),
        (block(FIRST, "py"), FIRST),
        (block(FIRST, "Python3"), FIRST),
        (block(FIRST, 'python title="f.py"'), FIRST),
        (block(FIRST, "{.python}"), FIRST),
        (block(FIRST, ""), FIRST),
        (block(SECOND, "") + block(FIRST), FIRST),
        (block("ls", "bash") + block(FIRST), FIRST),
        (block(FIRST, fence="~~~"), FIRST),
        (block("s = '''\n```\n'''\n" + FIRST, fence="````"), "s = '''\n```\n'''\n" + FIRST),
        ("1. So:\n   ```python\n   def f(x):\n       return 1\n   ```\n", FIRST),
        ("<think>" + block(SECOND) + "</think>" + block(FIRST), FIRST),
        (block(FIRST) + "```python\ndef f(x):\n    ret", FIRST),
        (block("f = lambda x: 1") + block(USE), "f = lambda x: 1"),
        (block("class f:\n    pass") + block(USE), "class f:\n    pass"),
        (block(FIRST).replace("\n", "\r\n"), FIRST),
    ],
)
def test_the_last_python_block_that_defines_the_function_counts(reply, code):
    assert code_of(reply, "f") == code


def test_without_an_entry_the_last_block_counts():
    assert code_of(block(FIRST) + block(USE)) == USE


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "It is 4.",
        "`f = 1`",
        block("ls", "bash"),
        block(""),
        "```python\n" + FIRST,
        "<think>" + block(FIRST),
        "```\n",
    ],
)
def test_no_block_that_is_closed_is_no_code(reply):
    outcome = code_of(reply, "f")
    assert isinstance(outcome, Failure)
    assert outcome.kind == "parse"


def test_a_reply_that_was_cut_off_is_told_so():
    outcome = code_of("```python\n" + FIRST)
    assert isinstance(outcome, Failure)
    assert outcome.detail.startswith("No code found: a block is not closed")


@pytest.mark.parametrize("line", ["```" + " " * 200_000 + "`", "~~~" + "\t " * 100_000 + "`", "> " * 100_000 + "```"])
def test_a_long_line_is_read_once(line):
    """Else a reply of 200,000 spaces takes minutes."""
    assert code_of(f"{line}\n{block(FIRST)}") == FIRST or isinstance(code_of(line), Failure)
