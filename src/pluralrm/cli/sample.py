"""`pluralrm sample`: N answers per item from a policy, into a pool on disk."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from pluralrm.cli.options import (
    BENCH,
    LIMIT,
    ON,
    SEND,
    SERVED,
    SHARD,
    TRUST,
    ServerOptions,
    check_names,
    complete_condition,
    named_shard,
    with_key,
    with_posts_of,
    with_server_options,
)
from pluralrm.cli.progress import INCOMPLETE, ProgressDisplay, interruptible, note_asked
from pluralrm.cli.score import tell_shard
from pluralrm.cli.terminal import Kind, console, note, print_json, print_wrapped, table
from pluralrm.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, Condition
    from pluralrm.http import Settings
    from pluralrm.policies.policy import Draw, Policy
    from pluralrm.policies.pool import Pool
    from pluralrm.shards import Shard


@with_server_options
def sample(
    benchmark: str = BENCH,
    policy: str = typer.Option("", "--policy", "-p", help="The policy: chat:MODEL,url=URL, lm:FOLDER, or simulated."),
    condition: str = typer.Option(
        "none", "--condition", "-c", help="What the policy sees of the user.", autocompletion=complete_condition
    ),
    out: Path = typer.Option(..., "--out", "-o", help="Folder of the pool; the same command resumes."),
    n: int | None = typer.Option(None, "-n", min=1, metavar="N", help="Answers per item.", show_default="16"),
    temperature: float | None = typer.Option(
        None, metavar="T", help="Sampling temperature; 0 with -n 1.", show_default="1"
    ),
    top_p: float | None = typer.Option(None, metavar="P", help="Nucleus sampling.", show_default="0.9"),
    max_tokens: int | None = typer.Option(None, metavar="N", help="Longest answer.", show_default="512"),
    seed: int = typer.Option(0, help="Seed of the answers and of the order of candidates."),
    domains: list[str] = typer.Option([], "--domain", help="Only these domains."),
    limit: int | None = LIMIT,
    file: Path | None = typer.Option(
        None, "--from", metavar="FILE", help="Your own answers, in place of a policy: JSONL rows with item and text."
    ),
    shard: str = SHARD,
    fresh: bool = typer.Option(False, "--fresh", help="Delete the existing pool and start over."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print how many answers would be sampled, and stop."),
    trust: list[str] = TRUST,
    send: bool = SEND,
    on: str = ON,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Sample N answers per item from a policy; the same command resumes. Exit 3 if some stay open."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.policies.imported import pool_from_jsonl
    from pluralrm.policies.policy import Draw, load_policy

    part = named_shard(shard)
    options = {"n": n, "temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
    drawn: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    settings, bench = served.settings(), open_benchmark(benchmark, seed=seed)
    if file is not None:
        beside = {"limit": limit, "domain": domains, "dry_run": dry_run, "send_posts": send, "shard": shard}
        _check_given(file, policy, {**dict.fromkeys(drawn, True), **beside})
        served.check([])
        context = load_condition(condition, cache=settings.cache, settings=settings)
        _tell(pool_from_jsonl(file, bench, context, out=out, fresh=fresh), as_json=as_json)
        return
    policy, condition = _named(policy, condition, trust, send=send)
    if dry_run:
        from pluralrm.http import DryRun

        settings = replace(settings, dry_run=DryRun())
    answering = load_policy(policy, settings=settings)
    context = load_condition(condition, cache=settings.cache, settings=settings)
    served.check([answering, context])
    how = _SamplingRequest(bench, answering, context, out, Draw(seed=seed, **drawn), domains, limit, fresh, on)
    if dry_run:
        _tell_plan(how, settings, part, as_json=as_json)
    else:
        _draw(how, part, as_json=as_json)


class _SamplingRequest(NamedTuple):
    """The arguments of the function behind the verb."""

    benchmark: "Benchmark"
    policy: "Policy"
    condition: "Condition"
    out: Path
    draw: "Draw"
    domains: list[str]
    limit: int | None
    fresh: bool
    on: str


def _check_given(file: Path, policy: str, options: Mapping[str, object]) -> None:
    """Raise where an option that is about drawing stands beside a file of answers."""
    by_name = {"policy": policy, **options}
    if names := [f"{'-' * min(len(name), 2)}{name.replace('_', '-')}" for name, value in by_name.items() if value]:
        raise SpecError(f"{', '.join(names)}: the answers in {file} are drawn already; leave it out")


def _named(policy: str, condition: str, trust: Sequence[str], *, send: bool) -> tuple[str, str]:
    """Return the specs of policy and condition, with what the command allows them written into them."""
    from pluralrm.conditions import KINDS, condition_summaries, parse_condition
    from pluralrm.policies.policy import KINDS as POLICIES
    from pluralrm.policies.policy import parse_policy

    if not policy:
        raise SpecError(
            "who answers? Wanted -p chat:MODEL,url=URL, -p lm:FOLDER or -p simulated, or a file of answers: --from FILE"
        )
    check_names([policy], "-p", POLICIES)
    check_names([condition], "-c", condition_summaries())
    sends = "send" in POLICIES[parse_policy(policy).kind].form.keys
    tells = "send" in KINDS[parse_condition(condition).kind].form.keys
    if send and tells:
        _, [condition] = with_posts_of((), [condition], allowed=True)
    if send and not (sends or tells):
        raise SpecError(f"--send-posts: nothing is sent by {policy}, {condition}; leave it out")
    [policy] = with_key([policy], "send", "posts", [send and sends], parse_policy)
    return trusted_policy(policy, trust), condition


def trusted_policy(policy: str, names: Sequence[str]) -> str:
    """Return the policy's spec, with `code=trusted` where its folder is named; any other name is a SpecError."""
    from pluralrm.policies.policy import KINDS, parse_policy

    spec = parse_policy(policy)
    folders = [spec.target] if "code" in KINDS[spec.kind].form.keys else []
    for name in names:
        if name not in folders:
            raise SpecError(f"--trust-remote-code {name}: no policy folder of that name.{did_you_mean(name, folders)}")
    return with_key([policy], "code", "trusted", [bool(names)], parse_policy)[0]


def _tell_plan(how: _SamplingRequest, settings: "Settings", shard: "Shard | None", *, as_json: bool) -> None:
    from pluralrm.http import cost_of
    from pluralrm.policies.sample import sample_plan

    arguments = {name: value for name, value in how._asdict().items() if name != "on"}
    plan, prices = sample_plan(**arguments, settings=settings, shard=shard), settings.prices
    cost = cost_of(plan.requests, prices)
    if as_json:
        requests = {model: tally.to_json() for model, tally in plan.requests.items()}
        print_json({**asdict(plan), "calls": plan.calls, "requests": requests, "cost": cost and cost._asdict()})
        return
    part = f"{shard}: " if shard else ""
    print_wrapped(
        f"{part}{plan.items:,} items × {how.draw.n} answers: {plan.wanted:,} samples, {plan.done:,} of them on disk. "
        f"{plan.calls:,} calls to {how.policy.spec}, of at most {plan.max_tokens:,} tokens of answers."
    )
    for model, tally in plan.requests.items():
        print_wrapped(f"{model}: {tally}", first="  ", indent="    ")
    if plan.requests:
        print_wrapped("cost: " + ("not known without prices (--prices)" if cost is None else str(cost)), first="  ")


def _draw(how: _SamplingRequest, shard: "Shard | None", *, as_json: bool) -> None:
    """Draw the pool, or a shard of it, and say what is in it; exit with 3 where samples are open."""
    from pluralrm.cluster import opened
    from pluralrm.policies.pool import load_pool, pool_shard
    from pluralrm.policies.sample import sample_folder

    title = f"{how.benchmark.card.name} × {how.policy.spec} × {how.condition.spec}"
    meter = ProgressDisplay(title)
    with interruptible("samples on disk are kept", title), meter, opened(how.on) as cluster:
        meter.workers = lambda: cluster.summary if cluster is not None else ""
        folder = sample_folder(**how._asdict() | {"on": cluster}, progress=meter.update, shard=shard)
    if shard is not None:
        tell_shard(pool_shard(folder), meter.asked, as_json=as_json)
        return
    pool = load_pool(folder, incomplete=True)
    _tell(pool, as_json=as_json)
    note_asked([meter.asked])
    if not pool.complete:
        drawn = sum(map(len, pool.samples.values()))
        note(
            f"incomplete: {pool.folder} has {drawn:,} of {len(pool.samples) * pool.n:,} samples; the same command "
            "tries the rest again"
        )
        raise typer.Exit(INCOMPLETE)


_ENDS = {"stop": "whole", "length": "cut off at the longest", "empty": "whole, without a word"}


def _place(counted: tuple[str, int]) -> tuple[bool, str]:
    """Return what sorts answers before failures, whole ones first."""
    return counted[0] not in _ENDS, "" if counted[0] == "stop" else counted[0]


def _tell(pool: "Pool", *, as_json: bool) -> None:
    """Print what the pool is and how its answers ended."""
    if as_json:
        print_json(pool.to_json())
        return
    counts = Counter(sample.finish for several in pool.samples.values() for sample in several)
    tokens = [sample.tokens for several in pool.samples.values() for sample in several if sample.tokens is not None]
    print_wrapped(
        f"{pool.folder}: {len(pool.samples):,} items × {pool.n} answers of {pool.policy} under {pool.condition}"
    )
    console().print()
    columns: list[tuple[str, Kind]] = [("finish", "left"), ("samples", "right"), ("", "text")]
    rows = [(name, f"{count:,}", _ENDS.get(name, "no answer")) for name, count in sorted(counts.items(), key=_place)]
    console().print(table(columns, rows))
    console().print()
    different = sum(len(pool.texts(item)) for item in pool.samples)
    partly = f", of the {len(tokens):,} counted" if len(tokens) < sum(counts.values()) else ""
    mean = f"; {sum(tokens) / len(tokens):.1f} tokens on average{partly}" if tokens else ""
    print_wrapped(f"{different:,} different answers among {sum(counts.values()):,} samples{mean}", first="  ")
    if "oracle" in pool.reveals:
        print_wrapped("the policy saw the rubric: an upper control, not a result", first="  ")
