"""One word, one meaning: names and phrases of the house; each check is shown to fail on a planted offender."""

import re
from functools import cache
from pathlib import Path

from tests import house

# ---------------------------------------------------------------- names

RESERVED = {
    **dict.fromkeys(
        house.words("User Item Benchmark Condition Query RewardModel Verdict Score Failure Row Run Estimate"),
        "core.py",
    ),
    "Card": "card.py",
    "Template": "templates/__init__.py",
    "Pool": "policies/pool.py",
    "Outcome": "policies/outcomes.py",
    "Judgment": "annotate/judgments.py",
    "Spec": "specs.py",
}
"""The words of the glossary, each with the file that defines it."""

NOUNS = house.words("seed token feed screen need wording crossed imported ordered served simulated")
"""Words that end like a participle and are nouns, or the field's name for a kind of thing."""


def test_a_public_class_name_occurs_once() -> None:
    assert house.class_homes(house.SOURCE) == {}


def test_no_module_is_named_by_a_participle() -> None:
    assert house.participles(house.SOURCE, NOUNS) == []


def test_a_glossary_word_is_defined_in_its_home_alone() -> None:
    assert house.reserved_elsewhere(house.SOURCE, RESERVED) == []


def test_every_glossary_word_has_a_home() -> None:
    nowhere = house.reserved_elsewhere(house.SOURCE, dict.fromkeys(RESERVED, "nowhere"))
    assert {f"{file}: {name}" for name, file in RESERVED.items()} - set(nowhere) == set()


STAND_INS = house.words("""
asked found given got held kept known made named one ours picked place said shown tell theirs told wanted way
""")
"""What says nothing of what a variable holds: it is named by the noun, as in `request`, `estimate`, `match`, `row`."""

UNNAMED: frozenset[str] = frozenset()
"""Packages and modules with variables that are still called so; the list only shrinks."""

REFUSAL = frozenset({"found", "wanted"})
"""A refusal's message says what was found and what was wanted: its parameters, and no others, are called that."""

REFUSES = frozenset({"benchmarks/rows.py", "errors.py"})


def _stand_ins() -> list[str]:
    variables = (variable.split(":") for variable in house.variables(house.SOURCE, STAND_INS))
    return [
        f"{file}:{line}:{name}" for file, line, name in variables if not (file in REFUSES and name.strip() in REFUSAL)
    ]


def _package(variable: str) -> str:
    return variable.partition(":")[0].partition("/")[0]


def test_a_variable_is_named_by_what_it_holds() -> None:
    assert [variable for variable in _stand_ins() if _package(variable) not in UNNAMED] == []


def test_no_listed_package_has_its_names_already() -> None:
    assert UNNAMED - set(map(_package, _stand_ins())) == set()


# ---------------------------------------------------------------- phrases

PHRASES = [
    "as it stands",
    "cannot be had",
    "command goes on",
    "deaf to",
    "foretell",
    "foretold",
    "gives nothing",
    "go on from",
    "goes on from",
    "gone on",
    "nobody",
    "not shown",
    "shown the rubric",
    "tell apart",
    "tells apart",
    "told apart",
    "unless told",
]

IN_SOURCE: frozenset[str] = frozenset()
"""Phrases that messages, help, docstrings and templates of the source still use; the list only shrinks."""

IN_DOCS: frozenset[str] = frozenset()
"""Phrases that README and docs still use; the list only shrinks."""

HISTORY = frozenset({"log.md", "changelog.md"})
"""Dated entries stay as they were written."""


PROMPTS = "templates"
"""Prompts are data, versioned and hashed: their words are a model's input, and change with their number alone."""


@cache
def _in_source() -> list[str]:
    read = {".py", ".jinja", ".js", ".html", ".css"}
    paths = [path for path in sorted(house.SOURCE.rglob("*")) if path.suffix in read]
    return house.banned([path for path in paths if path.suffix != ".jinja" or path.parent.name != PROMPTS], PHRASES)


@cache
def _in_docs() -> list[str]:
    pages = (page for page in sorted((house.REPOSITORY / "docs").rglob("*.md")) if page.name not in HISTORY)
    return house.banned([house.REPOSITORY / "README.md", *pages], PHRASES)


def _phrase(place: str) -> str:
    return place.rpartition(": ")[2].lower()


def test_messages_help_and_docstrings_use_no_banned_phrase() -> None:
    assert [place for place in _in_source() if _phrase(place) not in IN_SOURCE] == []


def test_docs_use_no_banned_phrase() -> None:
    assert [place for place in _in_docs() if _phrase(place) not in IN_DOCS] == []


def test_no_listed_phrase_is_gone_already() -> None:
    assert IN_SOURCE - set(map(_phrase, _in_source())) == set()
    assert IN_DOCS - set(map(_phrase, _in_docs())) == set()


# ---------------------------------------------------------------- length of the docs

MOST_WORDS = {"docs": 50_000, "README.md": 700}
"""The docs with README, the page of commands and the log; bars of a table and dashes of a list are no words."""


def _words(*pages: Path) -> int:
    return sum(bool(re.search(r"\w", word)) for page in pages for word in page.read_text(encoding="utf-8").split())


def test_the_docs_are_short() -> None:
    readme, docs = house.REPOSITORY / "README.md", house.REPOSITORY / "docs"
    assert _words(readme) <= MOST_WORDS["README.md"]
    assert _words(readme, *docs.glob("*.md"), *docs.glob("design/*.md")) <= MOST_WORDS["docs"]


# ---------------------------------------------------------------- the checks themselves


def test_bars_and_dashes_are_no_words(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Two words\n\n| a | 1.5 |\n|---|---|\n- c\n")
    assert _words(page, page) == 2 * 5


def test_a_class_name_with_two_homes_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Grade: ...\nclass _Row: ...\nclass Reply: ...\n")
    (tmp_path / "b.py").write_text("class Grade: ...\nclass _Row: ...\ndef f():\n    class Local: ...\n")
    assert house.class_homes(tmp_path) == {"Grade": ["a.py", "b.py"]}


def test_a_participle_is_found_in_modules_folders_and_compound_names(tmp_path: Path) -> None:
    for name in ("asked", "prepared", "written", "ppo_told", "seed", "token", "training", "red", "request"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "finished").mkdir()
    (tmp_path / "finished/__init__.py").touch()
    found = house.participles(tmp_path, NOUNS)
    assert found == ["asked", "finished", "ppo_told", "prepared", "written"]


def test_a_second_meaning_of_a_glossary_word_is_found(tmp_path: Path) -> None:
    (tmp_path / "core.py").write_text("class Row: ...\nScore = float\n")
    (tmp_path / "page.py").write_text("class Row: ...\nScore: type = int\nrow = 1\nclass Rows: ...\n")
    found = house.reserved_elsewhere(tmp_path, {"Row": "core.py", "Score": "core.py"})
    assert found == ["page.py: Row", "page.py: Score"]


def test_a_stand_in_is_found_as_local_parameter_and_in_a_comprehension(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "one = 1\n\nclass Row:\n    told: int\n\n"
        "def read(found, *, row=one):\n"
        "    made = [place for place in found if (way := place)]\n"
        "    try:\n        read(told=row)\n    except ValueError as kept:\n        raise kept from None\n"
        "    match row:\n        case [*given]: ...\n        case said: ...\n"
        "    class Inner:\n        known: int\n        def asked(self, shown): ...\n"
        "    return lambda held: held, made\n"
    )
    found = house.variables(tmp_path, STAND_INS)
    lines = {6: "found", 7: "made place way", 10: "kept", 13: "given", 14: "said", 17: "shown", 18: "held"}
    assert found == [f"a.py:{line}: {name}" for line, names in lines.items() for name in names.split()]


def test_a_phrase_is_found_in_strings_docstrings_and_pages(tmp_path: Path) -> None:
    source, page = tmp_path / "a.py", tmp_path / "page.md"
    source.write_text(
        '"""Default 16 unless\n    told otherwise."""\n# nobody reads a comment\n'
        'nobody = f"{1} Nobody"\nt = "told " "apart"\n'
        'def f():\n    """Two cannot be told\n    apart."""\n'
    )
    page.write_text("fine\n\nThe two cannot be told\napart.\n")
    found = [text.removeprefix(str(tmp_path)) for text in house.banned([source, page], PHRASES)]
    assert sorted(found) == [
        "/a.py:1: unless told",
        "/a.py:4: Nobody",
        "/a.py:5: told apart",
        "/a.py:7: told apart",
        "/page.md:3: told apart",
    ]


def test_a_phrase_inside_another_word_is_none(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Busybodynobody is no word.\n")
    assert house.banned([page], PHRASES) == []
