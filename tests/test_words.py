"""One word, one meaning: names and phrases of the house; each check is shown to fail on a planted offender."""

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
"""As `wc -w` counts; the docs with README, the generated page of commands and the log."""


def _words(*pages: Path) -> int:
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def test_the_docs_are_short() -> None:
    readme, docs = house.REPOSITORY / "README.md", house.REPOSITORY / "docs"
    assert _words(readme) <= MOST_WORDS["README.md"]
    assert _words(readme, *docs.glob("*.md"), *docs.glob("design/*.md")) <= MOST_WORDS["docs"]


# ---------------------------------------------------------------- the checks themselves


def test_words_are_counted_as_wc_does(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Two words\n\n| a | b |\n")
    assert _words(page, page) == 2 * 8


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
