"""What holds for the source as a whole: sizes, names, words. Each check reads a tree, so tests can plant offenders."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src/pluralrm"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OUTPUT_FOLDERS = words("build dist out target env")
"""Folder names that packagers, linters and .gitignore files take for output."""


class Source(NamedTuple):
    """What the checks need of a Python file."""

    lines: int
    functions: list[tuple[int, str, int]]
    """Line, name, number of lines."""
    classes: list[str]
    aliases: list[str]
    """Names assigned at the top of the module."""
    strings: list[tuple[int, str]]
    """Line and text of literals and docstrings; an f-string is one text, `{}` where it has an expression."""
    variables: list[tuple[int, str]]
    """Line and name of locals, parameters and variables of comprehensions, each once a line."""


def source(path: Path) -> Source:
    return _read(path, path.stat().st_mtime_ns)


@cache
def _read(path: Path, _changed: int) -> Source:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = Source(len(text.splitlines()), [], [], list(_assigned(tree)), [], [])
    parts: set[int] = set()
    variables: set[tuple[int, str]] = set()
    for node, inside in _nodes(tree):  # an f-string comes before its parts
        if inside and isinstance(node, _BINDING):
            variables.update(_variables(node))
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.functions.append((node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1))
            case ast.ClassDef():
                found.classes.append(node.name)
            case ast.JoinedStr():
                parts.update(map(id, node.values))
                pieces = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
                found.strings.append((node.lineno, "".join(pieces)))
            case ast.Constant(value=str(literal)) if id(node) not in parts:
                found.strings.append((node.lineno, literal))
    found.variables.extend(sorted(variables))
    return found


def _assigned(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_BINDING = (ast.arg, ast.Name, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


def _variables(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.arg(arg=str(name)) | ast.Name(id=name, ctx=ast.Store()):
            yield node.lineno, name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield node.lineno, name


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Yield each node, and whether it is in a function or comprehension; the fields of a class in it are not."""
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, inside = stack.pop()
        yield node, inside
        inside = inside or isinstance(node, _SCOPES)
        children = [(child, inside and not isinstance(child, ast.ClassDef)) for child in ast.iter_child_nodes(node)]
        stack += reversed(children)


def python_files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


# ---------------------------------------------------------------- sizes


def lines_of(path: Path) -> int:
    return source(path).lines


def long_files(root: Path, most: int) -> list[str]:
    return [f"{path.relative_to(root)}: {n} lines" for path in python_files(root) if (n := lines_of(path)) > most]


def long_functions(root: Path, most: int) -> list[str]:
    return [
        f"{path.relative_to(root)}:{line}: {name} has {size} lines"
        for path in python_files(root)
        for line, name, size in source(path).functions
        if size > most
    ]


# ---------------------------------------------------------------- names


def output_folders(root: Path) -> list[str]:
    folders = (path for path in sorted(root.rglob("*")) if path.name in OUTPUT_FOLDERS and path.is_dir())
    return [str(path.relative_to(root)) for path in folders]


def class_homes(root: Path) -> dict[str, list[str]]:
    """Return each public class name that several classes bear, with their files."""
    homes = defaultdict(list)
    for path in python_files(root):
        for name in source(path).classes:
            if not name.startswith("_"):
                homes[name].append(str(path.relative_to(root)))
    return {name: files for name, files in homes.items() if len(files) > 1}


_IRREGULAR = words("""
told shown given found known asked had made kept built left said sent seen bought brought done drawn gone held hid
hidden lent lost meant met paid put set sought spent taken taught thought understood written asking telling lending
mending answering guessing chatting tailoring
""")


def participles(root: Path, nouns: Iterable[str]) -> list[str]:
    """Return the modules and folders with a participle in their name; `nouns` are words that only look like one."""
    allowed = frozenset(nouns)
    named = [path for path in sorted(root.rglob("*")) if path.suffix == ".py" or (path / "__init__.py").exists()]
    return [
        str(path.relative_to(root).with_suffix(""))
        for path in named
        if any(_is_participle(word) for word in path.stem.split("_") if word not in allowed)
    ]


def _is_participle(word: str) -> bool:
    return word in _IRREGULAR or (len(word) > 3 and word.endswith(("ed", "en")))


def reserved_elsewhere(root: Path, homes: Mapping[str, str]) -> list[str]:
    """Return definitions of glossary words outside their home: classes, and aliases at the top of a module."""
    return [
        f"{file}: {name}"
        for path in python_files(root)
        for name in (*source(path).classes, *source(path).aliases)
        if homes.get(name, file := str(path.relative_to(root))) != file
    ]


def variables(root: Path, banned_names: Iterable[str]) -> list[str]:
    """Return the locals, parameters and variables of comprehensions that have one of these names."""
    names = frozenset(banned_names)
    return [
        f"{path.relative_to(root)}:{line}: {name}"
        for path in python_files(root)
        for line, name in source(path).variables
        if name in names
    ]


# ---------------------------------------------------------------- words


def banned(paths: Iterable[Path], phrases: Iterable[str]) -> list[str]:
    """Return where a phrase stands in what people read: string literals of Python files, other files whole."""
    one_of = "|".join(phrase.replace(" ", r"\s+") for phrase in phrases)
    wanted = re.compile(rf"\b(?:{one_of})", re.IGNORECASE)
    return [
        f"{path}:{line + text.count(chr(10), 0, match.start())}: {' '.join(match.group().split())}"
        for path in paths
        for line, text in _texts(path)
        for match in wanted.finditer(text)
    ]


def _texts(path: Path) -> list[tuple[int, str]]:
    return source(path).strings if path.suffix == ".py" else [(1, path.read_text(encoding="utf-8"))]
