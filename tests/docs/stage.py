"""Run the blocks of one page in the current, empty folder, as its reader would: python -m tests.docs.stage PAGE [TIER].

One process plays a whole page, so that libraries load once. Each command meets the modules of this folder anew, as it
would in a process of its own. Without a tier the blocks are run that the default tests have everything for; with one,
those that need it, and those that need nothing.

One thing is not as printed: in a block that needs a server, the address of any is replaced by that of the one which
was put up for it, since no test may rely on a port that is free, or reach another machine.
"""

import io
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from tests.docs.pages import ROOT, Block, blocks
from tests.docs.props import CLUSTERS, find, tier
from tests.loopback import connect

_ADDRESS = re.compile(r"https?://[^/\s,\"']+")
_PACKAGE = re.compile(r"^(?:\.|pluralrm)(?:\[([a-z,]+)\])?$")


class PageError(Exception):
    """What a page says is not so."""


class Terminal(io.StringIO):
    """Keeps what is printed, and passes for the terminal of a reader: texts are wrapped to its width."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class Stage:
    """What the blocks of a page share: the current folder, the names of its python blocks, the last output.

    `servers` holds the address of each server that was put up, by the words of the need.
    """

    def __init__(self, servers: Mapping[str, str]) -> None:
        self.printed: str | None = None
        self._servers = servers
        self._names: dict[str, object] = {"__name__": "__main__"}

    def play(self, block: Block) -> None:
        """Write, run or compare a block; raise PageError where the page is."""
        if "files of" in block.marks:
            write_files(blocks(block.page.parent / block.marks["files of"]))
        if "file" in block.marks:
            write_files([block])
            self.printed = None
        elif block.runs:
            self.printed = self._run(block)
        elif is_output(block):
            self._compare(block)

    def _run(self, block: Block) -> str:
        """Return what a block prints, each server under the address that the page gives it."""
        run = self._python if block.language == "python" else self._bash
        told = set(_ADDRESS.findall(block.text))
        servers = [self._servers[need] for need in block.needs if self._servers[need]]
        if not servers or not told:
            return run(block)
        if len(servers) > 1:
            raise PageError(f"{block.place}: it needs two servers; put the commands for each into a block of their own")
        printed = run(block._replace(text=_ADDRESS.sub(servers[0], block.text)))
        return printed.replace(servers[0], told.pop()) if len(told) == 1 else printed

    def _python(self, block: Block) -> str:
        code = compile("\n" * block.line + block.text, str(block.page), "exec", dont_inherit=True)
        with redirect_stdout(Terminal()) as out:
            exec(code, self._names)  # noqa: S102 - running what the page says is the point
        return out.getvalue()

    def _bash(self, block: Block) -> str:
        lines = commands(block)
        wanted = [0] * (len(lines) - 1) + [int(block.marks.get("exit", "0"))]
        elsewhere = any(need in CLUSTERS for need in block.needs)
        run = _program if elsewhere else _command
        ours = [run if words[0] != "pluralrm" else _command for words in lines]
        return "".join(one(words, code, block.place) for one, words, code in zip(ours, lines, wanted, strict=True))

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
        if unknown := unknown_words(words):
            raise PageError(f"{place}: not known here: {shlex.join(unknown)} in {shlex.join(words)}")
        return ""
    out, err = Terminal(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), _process(words):
        code = _main()
    if code != wanted:
        raise PageError(
            f"{place}: {shlex.join(words)} ended with {code}, not {wanted}:\n{out.getvalue()}{err.getvalue()}"
        )
    return out.getvalue() + (err.getvalue() if wanted else "")


def _program(words: Sequence[str], wanted: int, place: str) -> str:
    """Run a program of a cluster, which is put up, and return what it printed."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != wanted:
        raise PageError(f"{place}: {shlex.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


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
    loaded = [*sys.modules.items()]  # some load others when they are looked at
    for module in [key for key, one in loaded if (getattr(one, "__file__", "") or "").startswith(here)]:
        del sys.modules[module]
    try:
        yield
    finally:
        sys.argv = before


def unknown_words(words: Sequence[str]) -> list[str]:
    """Return what keeps a command that would change this environment from being one: its make target or extra."""
    match words:
        case ["make", *rest]:
            dry = ["make", "--dry-run", "--directory", str(ROOT), *rest]
            return rest if subprocess.run(dry, capture_output=True, check=False).returncode else []
        case [("pip" | ".venv/bin/pip"), "install", *rest]:
            return _not_ours([word for word in rest if not word.startswith("-")])
        case _:
            return [*words]


def _not_ours(words: Sequence[str]) -> list[str]:
    """Return what is no package of ours, or an extra of it that does not exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = [(word, _PACKAGE.match(word)) for word in words]
    extras = {extra for _, one in packages if one and one[1] for extra in one[1].split(",")}
    return [word for word, one in packages if one is None] + sorted(extras - set(project["optional-dependencies"]))


def played(page: Path, wanted: str = "") -> list[Block]:
    """Return the blocks of a page that the tests of a tier play, without the output of the others."""
    kept, left_out = [], False
    for block in blocks(page):
        if block.runs:
            left_out = bool(block.needs) and tier(block.needs) != wanted
        if not left_out or not (block.runs or is_output(block)):
            kept.append(block)
    return kept


@contextmanager
def put_up(needs: Iterable[str]) -> Iterator[dict[str, str]]:
    """Put up what is needed, yield the addresses of what is a server, and take everything down."""
    with ExitStack() as raised:
        yield {need: raised.enter_context(prop.put_up(name)) for need in needs for prop, name in [find(need)]}


def main(page: Path, wanted: str = "") -> None:
    """Play a page in the current folder; what is wrong is one message and exit 1, an error in python a traceback."""
    socket.socket.connect = connect  # type: ignore[assignment,method-assign]
    found = played(page, wanted)
    try:
        with put_up(sorted({need for block in found if block.runs for need in block.needs})) as servers:
            stage = Stage(servers)
            for block in found:
                stage.play(block)
    except PageError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
