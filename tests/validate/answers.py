"""Answers that make tests slow, or unfit to be run: by the values that they return, never by the tests themselves.

Each is a set of tests and code for it. None is right, and what is wrong with each is the code's own doing.
"""
# ruff: noqa: E501 - a payload is read in one line

from typing import NamedTuple


class Payload(NamedTuple):
    """Tests of `f`, which an honest answer passes in no time, and an answer that does not."""

    tests: str
    code: str


EQUAL = "assert f(2) == 4\nassert f(3) == 9"
FALSE = "assert not f(2)\nassert f(3)"
LISTED = "assert list(f(2)) == [1, 2]"
SUMMED = "assert sum(f(2)) == 3"
SORTED = "assert sorted(f(2)) == [1, 2]"
SET = "assert set(f(2)) == {1, 2}"
SAME_SET = "assert f(2) == {1, 2}"
DICT = "assert f(2) == {1: 'a'}"
ITEMS = "found = {}\nfor key, value in f(2).items():\n    found[value] = key\nassert found == {'a': 1}"
KEYED = "assert {f(2): 1} == {4: 1}"
TEXT = "assert str(f(2)) == '4'"
SHOWN = "assert f(2) == 4, f'{f(2)!r} is not 4'"
NEAR = "import math\nassert math.isclose(f(2), 4.0)"
CLOSE = "assert abs(f(2) - 4) < 1e-6\nassert round(f(3), 3) == 9"
POWER = "assert 3 ** f(2) == 81"
FACTORIAL = "import math\nassert math.factorial(f(2)) == 24"
COUNTED = "seen = [n for n in range(f(2))]\nassert seen == [0, 1, 2, 3]"
HALVED = "n = f(2)\nwhile n % 2 == 0:\n    n //= 2\nassert n == 1"
GROWN = "n = 2\nwhile n < 200:\n    n = f(n)\nassert n == 256"
STEPPED = "steps, n = 0, 6\nwhile n != 1:\n    n = f(n)\n    steps += 1\nassert steps == 8"
EVERY = "for n in f(2):\n    assert n > 0"
PAIRED = "for ours, theirs in zip(f(2), [1, 2]):\n    assert ours == theirs"
MATCHED = "import re\nassert re.fullmatch(f(2), 'a' * 40 + 'b')\nassert not re.fullmatch(f(3), 'b')"
SEARCHED = "import re\nassert re.fullmatch(r'(a+)+', f(2))\nassert f(3) == 'aaa'"
REPEATED = "assert 'ab' * f(2) == 'ababab'"
SLEPT = "import time\ntime.sleep(f(2))\nassert f(3) == 0.1"
ORDERS = "import itertools\nassert len(list(itertools.permutations(f(2)))) == 6"
JSON = "import json\nassert json.loads(json.dumps(f(2))) == [1, 2]"
INT = "assert int(f(2)) == 4"
DECIMAL = "from decimal import Decimal\nassert f(2) + 1 == Decimal(5)\nassert f(2) % 3 == 1"
FRACTION = "from fractions import Fraction\nassert f(2) == Fraction(1, 2)"
BACK = "assert f(f(2)) == 2\nassert f(2) != 2"
RAISES = "try:\n    list(f(-1))\n    refused = False\nexcept Exception:\n    refused = True\nassert refused\nassert f(1) == [1]"
BARE = "try:\n    found = f(2)\nexcept:\n    found = None\nassert found is None or found == 4"
SORTS = "shelf = [2, 1]\nassert f(shelf) is None\nassert shelf == [1, 2]"
CHECK = "def check(candidate):\n    total = 0\n    for n in candidate(3):\n        total += n\n    assert total == 6"
FUNCTIONS = "def test_sum():\n    assert sum(f(2)) == 3\ndef test_last():\n    assert max(f(3)) == 3"
PICKLED = "import pickle\nassert pickle.loads(f(2)) == [1, 2]"

_P61 = 2**61 - 1  # hash(n) == hash(n + _P61)
_COLLIDING = f"[n * {_P61} for n in range(60000)]"
_WRITES = """
import json, os, time
def f(n):
    line = {line}
    for fd in range(3, 12):
        try:
            while line:
                line = line[os.write(fd, line):]
            break
        except OSError:
            pass
    time.sleep(60)
"""


def writes(line: str) -> str:
    """Return code that writes a line of its own to the channel."""
    return _WRITES.format(line=f"{line} + b'\\n'")


def forged(value: str, key: str = "value", **more: str) -> str:
    """Return code that answers in a form that no honest process writes."""
    facts = {key: value, **more}
    return writes(
        "json.dumps({'turn': 2, " + ", ".join(f"'{name}': {told}" for name, told in facts.items()) + "}).encode()"
    )


def returns(value: str, before: str = "") -> str:
    """Return code whose function returns the value of an expression."""
    return f"{before}\ndef f(n):\n    return {value}"


def _object(body: str, base: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return returns("A()" if not base else "A(0)", f"class A{base}:\n{lines}")


PAYLOADS = {
    # ------------------------------------------------ keys that collide
    "colliding ints in a set": Payload(SAME_SET, returns(f"set({_COLLIDING.replace('60000', '3000')})")),
    "colliding ints in a list made a set": Payload(SET, returns(_COLLIDING)),
    "colliding ints as values made keys": Payload(ITEMS, returns(f"dict(enumerate({_COLLIDING}))")),
    "colliding ints in a frozenset on the channel": Payload(SAME_SET, forged(f"['frozenset', [['int', hex(n * {_P61})] for n in range(100000)]]")),
    "colliding ints in a set on the channel": Payload(SAME_SET, forged(f"['set', [['int', hex(n * {_P61})] for n in range(100000)]]")),
    "colliding keys of a dict on the channel": Payload(DICT, forged(f"['dict', [[['int', hex(n * {_P61})], 1] for n in range(100000)]]")),
    "colliding keys left in an argument": Payload(SORTS, forged("None", args=f"['tuple', [['list', [['set', [['int', hex(n * {_P61})] for n in range(100000)]]]]]]")),
    "colliding tuples": Payload(SET, returns(f"[(n * {_P61}, n * {_P61}) for n in range(60000)]")),
    "colliding fractions": Payload(SET, returns(f"[Fraction(n * {_P61} + 1, 2) for n in range(60000)]", "from fractions import Fraction")),
    "colliding decimals": Payload(SET, returns(f"[Decimal(n * {_P61}) for n in range(60000)]", "from decimal import Decimal")),
    "colliding floats and ints": Payload(SET, returns("[hash for n in range(40000) for hash in (n * 2305843009213693951, float(2 ** 61 * n))]")),
    # ------------------------------------------------ numbers
    "a huge Decimal compared": Payload(DECIMAL, returns("Decimal('1e999999999999999999')", "from decimal import Decimal")),
    "a huge Decimal made an int": Payload(INT, returns("Decimal('1e99999999')", "from decimal import Decimal")),
    "a huge Decimal as a text": Payload(SHOWN, returns("Decimal('9' * 5000000)", "from decimal import Decimal")),
    "a huge Decimal hashed": Payload(KEYED, returns("Decimal('1e999999999')", "from decimal import Decimal")),
    "a Decimal equal to nothing": Payload(EQUAL, returns("Decimal('sNaN')", "from decimal import Decimal")),
    "a Decimal that is no number near": Payload(CLOSE, returns("Decimal('NaN')", "from decimal import Decimal")),
    "a Decimal of millions of digits in arithmetic": Payload(DECIMAL, returns("Decimal('7' * 9000000)", "from decimal import Decimal")),
    "a fraction of huge numbers": Payload(FRACTION, forged("['fraction', hex(3 ** 3000000), hex(5 ** 2000001)]")),
    "a fraction over zero": Payload(FRACTION, forged("['fraction', '0x1', '0x0']")),
    "a huge int": Payload(EQUAL, returns("1 << 60000000")),
    "a huge int as a text": Payload(TEXT, returns("10 ** 5000")),
    "a huge int in a message": Payload(SHOWN, returns("10 ** 5000")),
    "a huge int as an exponent": Payload(POWER, returns("10 ** 12")),
    "a huge int multiplied": Payload("n = f(2)\nfor _ in range(30):\n    n = n * n % (n - 1) + n\nassert n == 4", returns("(1 << 20000000) - 1")),
    "a huge int of a factorial": Payload(FACTORIAL, returns("10 ** 8")),
    "a huge count": Payload(COUNTED, returns("10 ** 12")),
    "a huge count of texts": Payload(REPEATED, returns("10 ** 10")),
    "zero halved for ever": Payload(HALVED, returns("0")),
    "an even float halved": Payload(HALVED, returns("float('inf')")),
    "never grown": Payload(GROWN, returns("n")),
    "a number that is none, never grown": Payload(GROWN, returns("float('nan')")),
    "steps without end": Payload(STEPPED, returns("n + 1")),
    "infinity": Payload(CLOSE, returns("float('inf')")),
    "no number": Payload(NEAR, returns("float('nan')")),
    "no number, complex": Payload(CLOSE, returns("complex('nan+nanj')")),
    "a float beyond floats": Payload(EQUAL, forged("['float', '0x1p99999999']")),
    "an int of millions of digits in JSON": Payload(EQUAL, writes("b'{\"turn\": 2, \"value\": ' + b'9' * 3000000 + b'}'")),
    "a sleep": Payload(SLEPT, returns("1000")),
    "a sleep for ever": Payload(SLEPT, returns("1e9")),
    # ------------------------------------------------ ranges, iterators, containers
    "a giant range summed": Payload(SUMMED, returns("range(10 ** 15)")),
    "a giant range listed": Payload(LISTED, returns("range(10 ** 15)")),
    "a giant range sorted": Payload(SORTED, returns("range(10 ** 12)")),
    "a giant range made a set": Payload(SET, returns("range(10 ** 12)")),
    "a giant range walked": Payload(EVERY, returns("range(1, 10 ** 15)")),
    "a giant range permuted": Payload(ORDERS, returns("range(12)")),
    "a giant range in tests of pytest": Payload(FUNCTIONS, returns("range(10 ** 15)")),
    "a giant range checked": Payload(CHECK, returns("range(10 ** 15)")),
    "a generator without end": Payload(LISTED, returns("itertools.count(1)", "import itertools")),
    "a generator without end in place of an error": Payload(RAISES, returns("itertools.count(1) if n < 0 else [n]", "import itertools")),
    "a generator without end, summed": Payload(SUMMED, "def f(n):\n    while True:\n        yield 0"),
    "a generator that sleeps": Payload(LISTED, "import time\ndef f(n):\n    yield 1\n    time.sleep(1000)"),
    "a generator of itself": Payload(LISTED, "def f(n):\n    yield f(n)"),
    "an iterator that lies about its class": Payload(LISTED, _object("__class__ = list\ndef __iter__(self): return self\ndef __next__(self): return 1")),
    "nothing to walk": Payload(EVERY, returns("[]")),
    "nothing to pair": Payload(PAIRED, returns("[]")),
    "a list in itself": Payload(EQUAL, "def f(n):\n    held = []\n    held.append(held)\n    return held"),
    "a dict in itself": Payload(DICT, "def f(n):\n    held = {}\n    held[1] = held\n    return held"),
    "lists in lists, 90 deep and wide": Payload(EQUAL, "def f(n):\n    held = 0\n    for _ in range(60):\n        held = [held, held]\n    return held"),
    "a depth that only JSON has": Payload(EQUAL, writes("b'[' * 3000000")),
    "a set of lists": Payload(SAME_SET, forged("['set', [['list', []]]]")),
    "millions of items": Payload(SORTED, returns("[0] * 3000000")),
    "millions of lists": Payload(SORTED, returns("[[]] * 1000000")),
    "a value in no known form": Payload(EQUAL, forged("['object', 'builtins.exit']")),
    "names in place of exceptions": Payload(BARE, forged("4", "raised")),
    # ------------------------------------------------ texts
    "a text of 15 MB": Payload(EQUAL, returns("'x' * 15000000")),
    "a text of 15 MB given back": Payload(BACK, returns("'\\u00e9' * 2500000 if n == 2 else 3")),
    "a text of 15 MB in a message": Payload(SHOWN, returns("'\\x1b' * 2000000")),
    "a pattern that never ends": Payload(MATCHED, returns("'(a+)+'")),
    "a text for which a pattern never ends": Payload(SEARCHED, returns("'a' * n if n == 3 else 'a' * 60 + 'b'")),
    "a text that is no Unicode": Payload(TEXT, returns("'\\ud800'")),
    "a pickle that runs code": Payload(PICKLED, returns("b\"cos\\nsystem\\n(S'true'\\ntR.\"")),
    "a pickle that ends the tests": Payload(PICKLED, returns("b'cos\\n_exit\\n(I0\\ntR.'")),
    # ------------------------------------------------ objects
    "an object": Payload(EQUAL, _object("pass")),
    "an object equal to everything": Payload(EQUAL, _object("def __eq__(self, other): return True")),
    "an object whose equality never ends": Payload(EQUAL, _object("def __eq__(self, other):\n    while True: pass")),
    "an object whose repr never ends": Payload(SHOWN, _object("def __repr__(self):\n    while True: pass")),
    "an object whose hash never ends": Payload(KEYED, _object("def __hash__(self):\n    while True: pass")),
    "an object whose length is huge": Payload("assert len(f(2)) == 4", _object("def __len__(self): return 10 ** 18")),
    "an object whose truth ends the process": Payload(FALSE, _object("def __bool__(self):\n    import os\n    os._exit(0)")),
    "an int equal to everything": Payload(EQUAL, _object("def __eq__(self, other): return True\n__hash__ = int.__hash__", "(int)")),
    "an int with an evil index": Payload(COUNTED, _object("def __index__(self): return 10 ** 12\ndef __abs__(self): return 0", "(int)")),
    "a float that lies": Payload(NEAR, _object("def hex(self): return '0x1p2'\ndef __float__(self): return 4.0", "(float)")),
    "a list that lies": Payload(LISTED, returns("A()", "class A(list):\n    def __iter__(self): return iter([1, 2])\n    def __eq__(self, other): return True")),
    "a text that lies": Payload(TEXT, returns("A()", "class A(str):\n    def __str__(self): return '4'\n    def __eq__(self, other): return True\n    __hash__ = None")),
    "a function": Payload(EQUAL, returns("f")),
    "a class": Payload(EQUAL, returns("type")),
    "a module": Payload(EQUAL, returns("os", "import os")),
    "an object raised": Payload(EQUAL, "class A(BaseException): pass\ndef f(n):\n    raise A()"),
    "an error without end": Payload(SHOWN, "class A(Exception):\n    def __str__(self):\n        while True: pass\ndef f(n):\n    raise A()"),
    "an error of 15 MB": Payload(EQUAL, "def f(n):\n    raise ValueError('x' * 15000000)"),
    # ------------------------------------------------ the machine made to look busy
    "seven processes that run, then none": Payload(EQUAL, "import os, time\ndef f(n):\n    end = time.monotonic() + 1.3\n    for _ in range(6):\n        if os.fork() == 0:\n            while time.monotonic() < end: pass\n            os._exit(0)\n    while time.monotonic() < end + 9: pass"),
    "processes that run beside the tests": Payload(SUMMED, "import os, time\ndef f(n):\n    for _ in range(6):\n        if os.fork() == 0:\n            while True: pass\n    return range(10 ** 15)"),
    "threads that run beside the tests": Payload(SUMMED, "import threading\ndef run():\n    while True: pass\ndef f(n):\n    for _ in range(5):\n        threading.Thread(target=run, daemon=True).start()\n    return range(10 ** 15)"),
    "behind all others": Payload(EQUAL, "import os\nos.nice(19)\ndef f(n):\n    while True: pass"),
    "an answer at the last moment": Payload(SUMMED, "import time\ndef f(n):\n    time.sleep(1.3)\n    return range(10 ** 15)"),
}  # fmt: skip
"""Each must come out as wrong: neither right, nor a failure."""
