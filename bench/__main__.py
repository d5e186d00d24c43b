"""python -m bench: see bench/__init__.py."""

import argparse
import json
import sys
from dataclasses import asdict
from difflib import get_close_matches
from fnmatch import filter as matching
from pathlib import Path

from bench import Shape
from bench.run import LEGEND, environment, failures, load_shapes, measure, row, table, work


def chosen(words: list[str], shapes: dict[str, Shape[object]]) -> list[Shape[object]]:
    """Return the shapes of these names, families or patterns, each once; all where there are no words."""
    names: list[str] = []
    for word in words or shapes:
        family = [word] if word in shapes else [name for name in shapes if name.startswith(f"{word}-")]
        family = family or matching(shapes, word)
        if not family:
            near = get_close_matches(word, shapes, 1)
            sys.exit(f"unknown shape {word!r}. {f'Did you mean {near[0]!r}? ' * bool(near)}See python -m bench --list.")
        names += family
    return [shapes[name] for name in dict.fromkeys(names)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Time the sides of shapes in turn.")
    parser.add_argument(
        "shape", nargs="*", metavar="SHAPE", help="a name, the first word of a family, or a pattern; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="the smallest sizes, two rounds: does it run?")
    parser.add_argument("--rounds", type=int, help="default: the shape's own number")
    parser.add_argument(
        "--before", type=Path, metavar="DIR", help="another checkout, whose package the first side uses"
    )
    parser.add_argument("--sides", nargs="+", default=[], metavar="SIDE", help="these alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every run of every side")
    parser.add_argument("--list", action="store_true", help="names, sides and what they need")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.shape[0], json.loads(options.work), quick=options.quick)
        return
    selection = chosen(options.shape, load_shapes())
    if options.list:
        for shape in selection:
            needs = f" (needs {', '.join(shape.needs)})" if shape.needs else ""
            print(f"{shape.name:22} {shape.title}: {', '.join(shape.sides)}{needs}")
        return
    lines, around = [], environment()
    print(*table([]), sep="\n", flush=True)
    for shape in selection:
        rounds = options.rounds or (2 if options.quick else shape.rounds)
        measured = measure(shape, quick=options.quick, rounds=rounds, before=options.before, sides=options.sides)
        print(*(row(line) for line in measured), sep="\n", flush=True)
        lines += measured
    print("", LEGEND, around, sep="\n")
    if options.json:
        content = {"environment": around, "quick": options.quick, "lines": [asdict(line) for line in lines]}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if problems := failures(selection, lines):
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
