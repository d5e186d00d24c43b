"""docs/cli.md is what the commands say of themselves, and every verb is shown at work somewhere."""

import re
import runpy

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "cli.md"
MAKER = runpy.run_path(str(ROOT / "docs" / "make_cli.py"))


def test_the_page_of_commands_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == MAKER["page"](), "docs/cli.md is stale: make cli-page"


def test_every_verb_has_an_example_that_is_run() -> None:
    from pluralrm.cli import app

    _, shared, servers, *sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    assert (shared.split("\n")[0], servers.split("\n")[0]) == ("Shared options", "Server options")
    assert [section.splitlines()[0] for section in sections] == [verb.name for verb in MAKER["verbs"](app)]
    assert not [section.splitlines()[0] for section in sections if "\n[Example](" not in section]


def test_groups_of_verbs_have_a_section_for_each() -> None:
    import typer

    inner, outer = typer.Typer(), typer.Typer()

    @inner.command("ppo")
    def _run(
        places: list[int] = typer.Argument(..., help="Where."),  # noqa: B008 - typer reads it there
        tempo: float = typer.Option(0.5, help="How fast."),
        quiet: bool = typer.Option(False, "--quiet", "-q", help="No sound."),
        secret: str = typer.Option("", hidden=True),
    ) -> None:
        """Run it."""

    outer.add_typer(inner, name="train")
    [verb] = MAKER["verbs"](outer)
    section = "\n".join(MAKER["_section"](verb))
    assert section.startswith("## train ppo\n\nRun it.\n\n```text\nPLACES... ")
    assert re.search(r"^PLACES\.\.\. +Where\.$", section, re.MULTILINE)
    assert re.search(r"^--tempo=0\.5 +How fast\.$", section, re.MULTILINE)
    assert re.search(r"^-q, --quiet +No sound\.$", section, re.MULTILINE)
    assert "secret" not in section


def test_an_option_that_a_command_takes_is_described_there_or_where_it_points() -> None:
    from pluralrm.cli import app

    sections = dict(part.split("\n", 1) for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:])
    for verb in MAKER["verbs"](app):
        text, servers = sections[verb.name], MAKER["_options"](verb, MAKER["SERVERS"])
        assert ("[servers](" in text) == (len(servers) > 4), verb.name
        for row in MAKER["_options"](verb):
            if row == ("--json", "Print JSON."):
                assert "All commands but `demo` and `report`" in sections["Shared options"]
                continue
            name = MAKER["_longest"]([row]).strip("`")
            part = r"\[servers\]" if row in servers and "[servers](" in text else rf"(?<!\S)`?{name}(?![-\w])"
            assert re.search(part, text), f"{verb.name} {name}"


def test_the_page_names_every_option_of_every_command() -> None:
    from pluralrm.cli import app

    text = PAGE.read_text(encoding="utf-8")
    for command in app.registered_commands:
        assert command.callback is not None
        for option in command.callback.__defaults__ or ():
            for name in getattr(option, "param_decls", None) or ():
                assert re.search(rf"(?<!\S)`?{name}(?![-\w])", text), name
