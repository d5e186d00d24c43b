"""scipy.special without numpy's compiler of Fortran: the same functions, and f2py is there for who asks for it."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import scipy.special

import pluralrm.cli
from pluralrm.stats import special

OURS = "import pluralrm.cli, pluralrm.stats.special"
LOADED = "'numpy.f2py.crackfortran' in sys.modules"


def printed(code: str) -> list[str]:
    """Return the words that a fresh interpreter prints."""
    result = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], check=True, capture_output=True, text=True)
    return result.stdout.split()


def test_the_functions_are_those_of_scipy() -> None:
    assert all(getattr(special, name) is getattr(scipy.special, name) for name in special.__all__)


def test_the_compiler_of_fortran_is_not_loaded() -> None:
    assert printed(f"{OURS}\nprint({LOADED})") == ["False"]


def test_the_numpy_of_a_host_is_left_as_it_is() -> None:
    plain = "import numpy, scipy.special\n"
    state = "print(type(sys.modules.get('numpy.f2py')).__name__)"
    assert printed(f"import pluralrm.stats.special\n{state}") == printed(plain + state)


@pytest.mark.parametrize(
    "asks",
    [
        "import numpy.f2py; numpy.f2py.get_include()",
        "from numpy.f2py import crackfortran",
        "import numpy; numpy.f2py.f2py2e",
    ],
)
def test_who_asks_for_it_gets_it(asks: str) -> None:
    code = f"{OURS}\n{asks}\nimport numpy.f2py\n"
    assert printed(f"{code}print({LOADED}, numpy.f2py.__file__.endswith('__init__.py'))") == ["True", "True"]


def test_one_that_is_loaded_stays() -> None:
    code = f"import numpy.f2py\nbefore = sys.modules['numpy.f2py']\n{OURS}\n"
    assert printed(f"{code}print(before is sys.modules['numpy.f2py'], type(before).__name__)") == ["True", "module"]


@pytest.mark.parametrize("name", ["f2py", "ma", "polynomial", "testing"])
def test_numpy_is_left_as_if_nothing_had_been_imported(name: str) -> None:
    state = f"print('{name}' in vars(numpy), 'numpy.{name}' in sys.modules)"
    assert printed(f"{OURS}, numpy\n{state}") == ["False", "False"]


@pytest.fixture
def json_tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A submodule that is not loaded, before and after."""
    monkeypatch.delitem(sys.modules, "json.tool", raising=False)
    monkeypatch.delattr(json, "tool", raising=False)
    assert pluralrm.cli.__name__ in sys.modules
    yield
    sys.modules.pop("json.tool", None)
    vars(json).pop("tool", None)


@pytest.mark.usefixtures("json_tool")
def test_a_submodule_does_not_load_meanwhile_and_its_name_is_free_afterwards() -> None:
    with special._without(json, "tool", "nothing_of_this_name"):
        assert "json.tool" not in sys.modules
        with special._without(json, "tool"):
            pass
        assert hasattr(json, "tool")
    assert not hasattr(json, "tool")
    assert not hasattr(json, "nothing_of_this_name")


@pytest.mark.usefixtures("json_tool")
def test_who_reads_or_imports_it_meanwhile_gets_the_true_one() -> None:
    with special._without(json, "tool"):
        later = vars(json)["tool"]
        assert callable(later.main)
        with pytest.raises(AttributeError, match=r"json\.tool"):
            _ = later.nothing_of_this_name
    assert vars(json)["tool"] is sys.modules["json.tool"]
    assert vars(json)["tool"].main is later.main
