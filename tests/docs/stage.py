"""Run the blocks of one page in the current, empty folder, as its reader would: python -m tests.docs.stage PAGE.

One process plays a whole page, so that libraries load once. Each command meets the modules of this folder anew, as it
would in a process of its own.
"""

import io
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from typer import BadParameter

from tests.docs.pages import ROOT, Block, blocks

_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
_USAGE_ERROR: type[Exception] = BadParameter.__mro__[1]  # click's UsageError, which some releases of typer bring along
_PACKAGE = re.compile(r"^(?:\.|pluralrm)(?:\[([a-z,]+)\])?$")


class PageError(Exception):
    """What a page says is not so."""


class Terminal(io.StringIO):
    """Keeps what is printed, and passes for the terminal of a reader: texts are wrapped to its width."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class Stage:
    """What the blocks of a page share: the current folder, the names of its python blocks, the last output."""

    def __init__(self) -> None:
        self.printed: str | None = None
        self._names: dict[str, object] = {"__name__": "__main__"}

    def play(self, block: Block) -> None:
        """Write, run or compare a block; raise PageError where the page is."""
        if "files of" in block.marks:
            write_files(blocks(block.page.parent / block.marks["files of"]))
        if "file" in block.marks:
            write_files([block])
            self.printed = None
        elif block.runs:
            self.printed = self._python(block) if block.language == "python" else self._bash(block)
        elif is_output(block):
            self._compare(block)
        else:
            self.printed = None if "not run" in block.marks else self.printed

    def _python(self, block: Block) -> str:
        code = compile("\n" * block.line + block.text, str(block.page), "exec", dont_inherit=True)
        with redirect_stdout(Terminal()) as out:
            exec(code, self._names)  # noqa: S102 - running what the page says is the point
        return out.getvalue()

    def _bash(self, block: Block) -> str:
        lines = commands(block)
        wanted = [0] * (len(lines) - 1) + [int(block.marks.get("exit", "0"))]
        return "".join(_command(words, code, block.place) for words, code in zip(lines, wanted, strict=True))

    def _compare(self, block: Block) -> None:
        if self.printed is None:
            raise PageError(f"{block.place}: nothing was run whose output this could be")
        if not matches(block.text, self.printed):
            raise PageError(f"{block.place}: the page says\n{block.text}\nand what is printed is\n{self.printed}")


def is_output(block: Block) -> bool:
    """Return whether a block shows what the block before it printed."""
    return "output" in block.marks or (block.language == "text" and block.adjacent and not block.marks)


def matches(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed; `...` stands for any lines, or within a line for any text."""
    pattern = ""
    for line in shown.strip("\n").splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.rstrip().split("..."))) + r"\n"
    lines = [line.rstrip() for line in printed.splitlines()]
    return re.fullmatch(pattern, "\n".join(lines).strip("\n") + "\n") is not None


def write_files(found: Sequence[Block]) -> None:
    """Write those of the blocks that are files."""
    for block in found:
        if "file" in block.marks:
            path = Path(block.marks["file"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")


def commands(block: Block) -> list[list[str]]:
    """Return the words of each command of a bash block; comments and `source` are left out, `*` stands for files."""
    lines = block.text.replace("\\\n", " ").splitlines()
    split = [shlex.split(line, comments=True) for line in lines]
    found = [words for words in split if words and words[0] != "source"]
    if not found:
        raise PageError(f"{block.place}: no command")
    return found


def _command(words: Sequence[str], wanted: int, place: str) -> str:
    """Run one command and return what it printed; PageError unless its exit code is `wanted`."""
    if words[0] != "pluralrm":
        check_words(words, place)
        return ""
    out, err = Terminal(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), _process(words):
        code = _main()
    if code != wanted:
        raise PageError(
            f"{place}: {shlex.join(words)} ended with {code}, not {wanted}:\n{out.getvalue()}{err.getvalue()}"
        )
    return out.getvalue() + (err.getvalue() if wanted else "")


def _main() -> object:
    from pluralrm.cli import main

    try:
        main()
    except SystemExit as exc:
        return exc.code or 0
    return 0


@contextmanager
def _process(words: Sequence[str]) -> Iterator[None]:
    """Give a command its own arguments, file patterns filled in, and no module that the folder may have changed."""
    filled = [sorted(map(str, Path().glob(word))) or [word] if "*" in word else [word] for word in words]
    before, sys.argv = sys.argv, [word for found in filled for word in found]
    here = str(Path.cwd())
    for module in [key for key, one in sys.modules.items() if (getattr(one, "__file__", "") or "").startswith(here)]:
        del sys.modules[module]
    try:
        yield
    finally:
        sys.argv = before


def check_words(words: Sequence[str], place: str) -> None:
    """Raise PageError unless a command that is not run could be: its make target, extra, verb and options exist."""
    match words:
        case ["make", *rest]:
            known: set[str] = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
            unknown = [word for word in rest if "=" not in word and word not in known]
        case [("pip" | ".venv/bin/pip"), "install", *rest]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
                "optional-dependencies"
            ]
            packages = [_PACKAGE.match(word) for word in rest if not word.startswith("-")]
            unknown = [*rest] * (None in packages)
            unknown += [
                extra for one in packages if one and one[1] for extra in one[1].split(",") if extra not in extras
            ]
        case ["pluralrm", *rest]:
            unknown = _misread(rest)
        case _:
            unknown = [*words]
    if unknown:
        raise PageError(f"{place}: not known here: {shlex.join(unknown)} in {shlex.join(words)}")


def _misread(words: Sequence[str]) -> list[str]:
    """Return what is wrong with the verb and options of a command line, without running it."""
    from typer.core import TyperGroup
    from typer.main import get_command

    from pluralrm.cli import app

    command, rest = get_command(app), list(words)
    while isinstance(command, TyperGroup):
        if not rest or rest[0] not in command.commands:
            return rest or ["no verb"]
        command = command.commands[rest.pop(0)]
    try:
        command.make_context(command.name, rest)
    except _USAGE_ERROR as exc:
        return [str(exc)]
    return []


def main(page: Path) -> None:
    """Play a page in the current folder; what is wrong is one message and exit 1, an error in python a traceback."""
    stage = Stage()
    try:
        for block in blocks(page):
            stage.play(block)
    except PageError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
