"""What goes wrong at the keyboard: each input ends in one message that names the next step, and in no traceback.

In one process: a command is called as the shell would call it, a function as a notebook would.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pluralrm
from pluralrm.cli import app
from pluralrm.errors import PluralrmError

NEXT = re.compile(
    r"wanted|Wanted|Did you mean|Known:|See '|see '|leave (it|one) out|as in \w|needs \w|name (one|another)|give each"
    r"|'pluralrm [a-z-]+|try raw|(is|are) (judge|hf|lm|python|personal):|-[a-z]\b|--[a-z]+|key=NAME|Allow that"
    r"|its condition is none|Let another|chat=|choose another"
)
"""What tells a reader how to go on: what was wanted, a spec, an option, a command."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run, a pool, folders and files of other kinds, and a module of one's own."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PLURALRM_CACHE", str(folder / "cache"))
        patch.delenv("OPENAI_BASE_URL", raising=False)
        patch.syspath_prepend(str(folder))
        for name in ("weights", "fitted", "empty"):
            Path(name).mkdir()
        Path("weights/config.json").write_text("{}")
        Path("fitted/fit.json").write_text("{}")
        Path("empty.jsonl").touch()
        Path("torn.jsonl").write_text('{"a": 1\n')
        Path("strange.jsonl").write_text('{"a": 1}\n')
        Path("mine.py").write_text('class Fine:\n    spec = "fine"\n')
        Path("one.toml").write_text('benchmark = "pocket-prb"\nmodels = ["longest"]\n')
        Path("table.toml").write_text('[study]\nmodels = ["longest"]\n')
        pluralrm.score("pocket-prb", "longest", progress=False)
        pluralrm.sample("simulated:users=3,items=2,domains=1", "simulated", out="pool", n=2, progress=False)
        yield folder


URL = "url=http://127.0.0.1:9/v1"

COMMANDS = f"""
nosuchverb => No such command
scroe pocket-prb -m bm25 => No such command
score => Missing argument
score pocket-prb => Missing option
score pocket-prb -m weights => A folder of weights is hf:weights
score pocket-prb -m ./weights => A folder of weights is hf:./weights
score pocket-prb -m fitted => is personal:fitted
score pocket-prb -m owner/name => A model on the hub is hf:owner/name
score pocket-prb -m owner/name@main => hf:owner/name@main
score pocket-prb -m gpt-4o => A chat model is judge:gpt-4o,url=URL
score pocket-prb -m claude => A chat model is judge:claude,url=URL
score pocket-prb -m llama => A chat model is judge:llama,url=URL
score pocket-prb -m http://127.0.0.1:8000/v1 => judge:MODEL,url=http://127.0.0.1:8000/v1
score pocket-prb -m pocket-prb => It is a benchmark; models: 'pluralrm list models'
score pocket-prb -m bm26 => Did you mean 'bm25'?
score pocket-prb -m longets => Did you mean 'longest'?
score pocket-prb -m Longest => Did you mean 'longest'?
score pocket-prb -m judeg:m => Did you mean 'judge'?
score pocket-prb -m bm25:3 => model 'bm25' takes no target, found '3'; wanted bm25
score pocket-prb -m bm25,seed=1 => model 'bm25' has no key 'seed'. It takes none
score pocket-prb -m bm25,longest => repeat it: -m bm25 -m longest
score pocket-prb -m random,seed=x => random: seed is 'x'; wanted a whole number
score pocket-prb -m random,seed=-1 => random: seed is '-1'; wanted a whole number of at least 0
score pocket-prb -m random,seed= => found 'seed=', wanted key=value
score pocket-prb -m random,sede=1 => Did you mean 'seed'?
score pocket-prb -m random,seed=1,seed=2 => key 'seed' is given twice; leave one out
score pocket-prb -m lsa => lsa needs posts or notes, and the condition 'none' shows none; try raw:10
score pocket-prb -m copy -c none => try raw:10
score pocket-prb -m judge => needs a target, as in judge:MODEL,url=URL
score pocket-prb -m judge:m => no server is named: give its URL, as in http://127.0.0.1:8000/v1
score pocket-prb -m judge:m,url=ftp://x => is neither http:// nor https://; wanted one such as http://127.0.0.1:8000/v1
score pocket-prb -m judge:m,url=http://u:p@h/v1 => holds a user name, a password, a query or a fragment
score pocket-prb -m judge:m,style=pairwse,{URL} => Did you mean 'pairwise'?
score pocket-prb -m judge:m,sytle=pairwise,{URL} => Did you mean 'style'?
score pocket-prb -m judge:m,temperature=hot,{URL} => wanted a number from 0 to 2
score pocket-prb -m judge:m,key=sk-123,{URL} => name that variable: key=NAME
score pocket-prb -m judge:m,key=NO_SUCH_KEY,{URL} => 'NO_SUCH_KEY' holds no key: set it, or name another
score pocket-prb -m judge:m,template=nope,{URL} => unknown template 'nope'. Known:
score pocket-prb -m judge:m,orders=3,{URL} => orders
score pocket-prb -m judge:m,url=http://example.com/v1 -c raw:3 => Allow that with send=posts
score pocket-prb -m synthesizeme => as in synthesizeme:MODEL,url=URL
score pocket-prb -m vllm => needs a target, as in vllm:URL
score pocket-prb -m vllm:nohost => is neither http:// nor https://
score pocket-prb -m sglang => as in sglang:URL,chat=FOLDER
score pocket-prb -m remote:http://127.0.0.1:9 => chat=FOLDER
score pocket-prb -m personal => as in personal:FOLDER
score pocket-prb -m personal:weights => weights holds no fit
score pocket-prb -m personal:nowhere => wanted one that 'pluralrm fit' wrote
score pocket-prb -m scores => as in scores:FILE
score pocket-prb -m scores:nofile => cannot read nofile: No such file or directory; wanted a file of rows
score pocket-prb -m python => as in python:package.module:Class
score pocket-prb -m python:mine => wanted python:package.module:Class
score pocket-prb -m python:mine:Missing => module 'mine' has no 'Missing'. Known: Fine.
score pocket-prb -m python:mine:Fine => has no score(queries) method
score pocket-prb -m python:nomodule:X => wanted python:MODULE:NAME
score pocket-prb -m mine:Missing => A class of your own is python:mine:Missing
score pocket-prb -m known => as in known:taste
score pocket-prb -m hf => needs a target, as in hf:FOLDER
score pocket-prb -m dpo => as in dpo:POLICY,reference=REF
score pocket-prb -m longest -c raw => condition 'raw' needs a target, as in raw:10
score pocket-prb -m longest -c raw: => as in raw:10
score pocket-prb -m longest -c recent => as in recent:10
score pocket-prb -m longest -c swapped => as in swapped:10
score pocket-prb -m longest -c noise => as in noise:10
score pocket-prb -m longest -c pairs => as in pairs:8
score pocket-prb -m longest -c persona => as in persona:MODEL,url=URL
score pocket-prb -m longest -c planner => as in planner:MODEL,url=URL
score pocket-prb -m longest -c raw:x => raw:K is 'x'; wanted a whole number of at least 1
score pocket-prb -m longest -c raw:0 => wanted a whole number of at least 1
score pocket-prb -m longest -c raw:1.5 => wanted a whole number of at least 1
score pocket-prb -m longest -c raw:-3 => wanted a whole number of at least 1
score pocket-prb -m longest -c noise:0 => wanted a whole number of at least 1
score pocket-prb -m longest -c raw:10,by=bm52 => Did you mean 'bm25'?
score pocket-prb -m longest -c raw:10,by= => wanted key=value
score pocket-prb -m longest -c raw:10,k=3 => condition 'raw' has no key 'k'. Known: by
score pocket-prb -m longest -c raw:10,mmr=2 => mmr
score pocket-prb -m longest -c none:3 => takes no target, found '3'; wanted none
score pocket-prb -m longest -c oracle:2 => takes no target, found '2'; wanted oracle
score pocket-prb -m longest -c rwa:10 => Did you mean 'raw'?
score pocket-prb -m longest -c swaped:10 => Did you mean 'swapped'?
score pocket-prb -m longest -c posts => unknown condition 'posts'. Known:
score pocket-prb -m longest -c none,raw:10 => repeat it: -c none -c raw:10
score pocket-prb -m longest -c pairs:8 => 'pluralrm construct pairs' makes some
score pocket-prb -m longest -c persona:m => no server is named: give its URL
score pocket-prb -m longest -c persona:m,url=nowhere => wanted one such as http://127.0.0.1:8000/v1
score pocket-prb -m longest -c planner:m,of=swaped,{URL} => Did you mean 'swapped'?
score pocket-prb -m longest -c python:nomodule:x => wanted python:MODULE:NAME
score pocket-rmgap -m longest -c raw:3 => pocket-rmgap has no posts to show; its condition is none
score prbb -m longest => Did you mean 'prb'?
score pocket -m longest => unknown benchmark 'pocket'. Known:
score wildbench -m longest => unknown benchmark 'wildbench'. Known:
score nofile.jsonl -m longest => no such file or folder: nofile.jsonl; for names see 'pluralrm list benchmarks'
score empty.jsonl -m longest => found no rows, wanted at least one
score torn.jsonl -m longest => wanted one JSON object a line
score strange.jsonl -m longest => found the keys a, wanted those of a known format
score weights -m longest => wanted at least one
score prb:nowhere -m longest => no such file or folder: nowhere
score rows -m longest => as in rows:FILE
score context-pairs -m longest => as in context-pairs:FILE
score python:mine:nothing -m longest => module 'mine' has no 'nothing'. Known: Fine.
score simulated:users=x -m longest => wanted a whole number of at least 1
score simulated:users=0 -m longest => wanted a whole number of at least 1
score simulated:usrs=2 -m longest => Did you mean 'users'?
score simulated:items=999999999 -m longest => wanted at most 144
score simulated:users=2 -m known:tast => Did you mean 'taste'?
score pocket-prb -m longest --limit 0 => limit is 0; wanted at least 1
score pocket-prb -m longest --limit x => Invalid value for '--limit'
score pocket-prb -m longest --domain Art => has no domain 'Art'. Known: Art_and_Entertainment
score pocket-prb -m longest --workers 0 => Invalid value for '--workers'
score pocket-prb -m longest --seed x => Invalid value for '--seed'
score pocket-prb -m longest --concurrency 4 => nothing here is asked over HTTP; leave it out
score pocket-prb -m longest --max-cost 3 => --max-cost needs --prices FILE
score pocket-prb -m longest --prices nofile => Wanted TOML or JSON: per model, input and output
score pocket-prb -m longest --record a --replay b => a command either records or replays; leave one out
score pocket-prb -m longest --replay nofile => leave it out
score pocket-prb -m longest --send-posts => nothing is sent by longest, none; leave it out
score pocket-prb -m longest --trust-remote-code x => no model folder of that name
score pocket-prb -m longest --max-prompt-tokens 100 => none of longest drops posts by a limit; leave it out
score pocket-prb -m longest --nosuchoption => No such option
score pocket-prb -m longest -o torn.jsonl => Not a directory
evaluate => Missing argument
evaluate gpt-4o => A chat model is judge:gpt-4o,url=URL
evaluate longest -b nosuch => unknown benchmark 'nosuch'. Known:
evaluate longest --sees none => wanted a condition that shows the user's own posts
evaluate longest --sees raw => as in raw:10
evaluate longest --sees swapped:10 => wanted a condition that shows the user's own posts
evaluate a=longest a=bm25 => two models are named 'a'; give each a name of its own
compare => Missing argument
compare nowhere => 'pluralrm score' writes them with -o
compare torn.jsonl => 'pluralrm score' writes them with -o
compare empty => no run at or below 'empty'
compare runs --by nosuch => no row has the tag 'nosuch'. Known: category, domain.
compare runs --ties maybe => is not one of
compare runs --human nowhere => wanted a folder of 'pluralrm annotate plan'
report nowhere -o r.html => no run at or below 'nowhere'
report runs -o torn.jsonl => name another file with -o, or pass --force
show => Missing argument
show nowhere => 'pluralrm score' writes them with -o
show runs --item zz => has no item 'zz'. Known:
list => 'pluralrm list models'
list foo => 'foo' cannot be listed. Known:
list benchmark => Did you mean 'benchmarks'?
list models longst => no model 'longst'. Did you mean 'longest'?
list benchmarks prbb => no benchmark 'prbb'. Did you mean 'prb'?
check => Missing argument
check nosuch => A chat model is judge:nosuch,url=URL
check pocket-prb => It is a benchmark
check nosuch --benchmark => unknown benchmark 'nosuch'. Known:
doctor weights => A folder of weights is hf:weights
audit => found no benchmark, wanted BENCH or --gallery
audit nosuch => unknown benchmark 'nosuch'. Known:
audit pocket-prb -o . => found a folder, wanted the name of a file
attack pocket-prb -m longest -a chose => Did you mean 'choose'? See 'pluralrm list attacks'
attack pocket-prb -m nosuch => A chat model is judge:nosuch,url=URL
power items => wanted two runs, or --disagree Q
power nosuch => No such command
align nofile -m lsa => wanted JSONL rows of output, profile and human_score
align torn.jsonl -m lsa => wanted one JSON object a line
sample pocket-prb => Missing option
sample pocket-prb -o p => who answers? Wanted -p chat:MODEL,url=URL
sample pocket-prb -p weights -o p => A folder of weights is lm:weights
sample pocket-prb -p nosuch -o p => unknown policy 'nosuch'. Known: chat, lm
sample pocket-prb -p chat -o p => as in chat:MODEL,url=URL
sample pocket-prb -p lm -o p => as in lm:FOLDER
sample pocket-prb -p chat:m -o p => no server is named: give its URL
sample pocket-prb -p chat:m,{URL} -o p --temperature 9 => temperature is 9.0; wanted a number from 0 to 2
sample pocket-prb -p chat:m,{URL} -o p -n 0 => Invalid value for '-n'
sample pocket-prb --from nofile -o p => cannot read nofile: No such file or directory; wanted
sample pocket-prb -p simulated -o pool => another draw (n: 16, was 2)
grade nowhere -g truth => 'pluralrm sample' writes one with -o
grade pool => who grades? Wanted -g GRADER
grade pool -g joint => as in joint:MODEL,url=URL
grade pool -g trut => Did you mean 'truth'?
best-of-n nowhere -m longest => 'pluralrm sample' writes one with -o
best-of-n pool -m longest => wanted one grader
best-of-n pool -m nosuch => A chat model is judge:nosuch,url=URL
best-of-n pool -m longest -g truth -k 99 => wanted k from 1 to 2
best-of-n pool -m longest --figure x.png => wanted a name in .svg or .pdf
best-of-n pool -m longest --dry-run => --dry-run needs -g GRADER
train ppo pocket-prb -p chat:m --reward longest --steps 1 -o t => its weights are not here; wanted lm:FOLDER
train ppo pocket-prb -p lm:x --reward nosuch --steps 1 -o t => A chat model is judge:nosuch
train ppo pocket-prb -p lm:x --reward longest --steps 0 -o t => Invalid value for '--steps'
train ppo pocket-prb -p lm:x --reward longest --steps 1 -o t --set bacth=2 => Did you mean 'batch'?
train ppo pocket-prb -p lm:x --reward longest --steps 1 -o t --set batch => wanted key=value, each key once
train grpo pocket-prb -p lm:x --reward longest --steps 1 -o t --set answers=x => wanted a whole number
correlate => wanted run folders or --benchmark COL
correlate runs => wanted --outcome DIR or --downstream COL
correlate runs --outcome runs => 'pluralrm best-of-n POOL' writes them there
correlate --csv nofile => Wanted a CSV file in UTF-8, one row a model
correlate runs -k 2 => Wanted --outcome DIR beside it
study nofile -o x => Wanted a study in TOML
study one.toml -o x => no key 'benchmark'. Did you mean 'benchmarks'?
study table.toml -o x => no key 'study'. Known: benchmarks
fit btt --train pocket-prb -o f => Did you mean 'bt'?
fit bt --train pocket-prb -o f => pocket-prb has no labelled context pairs
fit bt --train simulated:users=4 -o f --set epochs=x => wanted a whole number
fit bt --train simulated:users=4 -o f --set rank=3 => no hyperparameter 'rank'. Known: epochs
fit bt --train simulated:users=4 -o f --features tfdif => Did you mean 'tfidf'?
construct prb => wanted BENCH, -o DIR, --writer MODEL and --judge MODEL
annotate serve nowhere => wanted a folder of 'pluralrm annotate plan'
annotate agreement nowhere => Wanted CSV or JSONL in UTF-8
annotate claim nowhere => wanted a folder of 'pluralrm annotate plan'
serve nosuch => A chat model is judge:nosuch,url=URL
"""

CASES = [tuple(line.split(" => ")) for line in COMMANDS.strip().splitlines()]


@pytest.mark.parametrize(("command", "message"), CASES, ids=[command for command, _ in CASES])
@pytest.mark.usefixtures("desk")
def test_a_bad_command_is_one_message_with_the_next_step(command: str, message: str) -> None:
    done = CliRunner(env={"COLUMNS": "400"}).invoke(app, command.split())
    if not isinstance(done.exception, PluralrmError):  # or a usage error of typer
        assert isinstance(done.exception, SystemExit)
    text = str(done.exception) if isinstance(done.exception, PluralrmError) else done.output
    assert done.exit_code == (1 if isinstance(done.exception, PluralrmError) else 2)
    assert "Traceback" not in text
    assert message in text
    assert NEXT.search(text), text


lib: Any = pluralrm  # called with what its types refuse

CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "score a number": (lambda: lib.score(3, "longest"), "benchmark is 3 (int); wanted a benchmark's name"),
    "score nothing": (lambda: lib.score([], []), "wanted at least one benchmark, one model and one condition"),
    "score with a number": (lambda: lib.score("pocket-prb", 3), "model is 3 (int); wanted a model's name"),
    "score with a class": (
        lambda: lib.score("pocket-prb", dict),
        "model is the class dict; wanted an object of it",
    ),
    "score under a number": (lambda: lib.score("pocket-prb", "longest", 10), "condition is 10 (int); wanted"),
    "score under None": (lambda: lib.score("pocket-prb", "longest", None), "condition is None (NoneType); wanted"),
    "score no domain": (lambda: lib.score("pocket-prb", "longest", domains=["x"]), "has no domain 'x'. Known:"),
    "score no users": (lambda: lib.score("pocket-prb", "longest", limit=0), "limit is 0; wanted at least 1"),
    "load_benchmark None": (lambda: lib.load_benchmark(None), "benchmark is None (NoneType); wanted a name"),
    "load_condition list": (lambda: lib.load_condition(["none"]), "condition is ['none'] (list); wanted"),
    "load_model None": (lambda: lib.load_model(None), "model is None (NoneType); wanted a model's name"),
    "load_model judge": (
        lambda: lib.load_model("judge", url="u"),
        "needs model=...: load_model('judge', model=...)",
    ),
    "load_model vllm": (lambda: lib.load_model("vllm", model="m"), "needs url=...: load_model('vllm', url=...)"),
    "load_model twice": (
        lambda: lib.load_model("hf:x", path="y"),
        "options go by name beside a kind alone, as in",
    ),
    "load_model key": (lambda: lib.load_model("random", sede=1), "Did you mean 'seed'?"),
    "load_run number": (lambda: lib.load_run(1), "path is 1 (int); wanted the folder of a run"),
    "load_run nowhere": (lambda: lib.load_run("nowhere"), "'pluralrm score' writes"),
    "load_runs number": (lambda: lib.load_runs(1), "paths is 1 (int); wanted a folder of runs"),
    "load_runs numbers": (lambda: lib.load_runs([1]), "path is 1 (int); wanted a folder of runs"),
    "load_runs empty": (lambda: lib.load_runs("empty"), "no run at or below 'empty'; 'pluralrm score'"),
    "compare number": (lambda: lib.compare(5), "runs is 5 (int); wanted a folder of runs"),
    "compare nothing": (lambda: lib.compare([]), "no runs; wanted a folder of runs"),
    "compare as": (lambda: lib.compare("runs").to_text("html"), "form is 'html'; wanted csv, markdown and latex"),
    "compare to_dict": (lambda: lib.compare("runs").to_dict("split"), "wanted 'records' or 'list'"),
    "personalization number": (lambda: lib.personalization(5), "runs is 5 (int); wanted a folder"),
    "leaderboard folder": (lambda: lib.leaderboard("runs"), "wanted a list of runs; load_runs(FOLDER)"),
    "leaderboard names": (lambda: lib.leaderboard(["runs"]), "run is 'runs' (str); wanted a list of runs"),
    "summary folder": (lambda: lib.summary("runs"), "wanted a run; load_run(FOLDER) returns that of a folder"),
    "difference of names": (lambda: lib.paired_difference("a", "b"), "run is 'a' (str); wanted a list of runs"),
    "report number": (lambda: lib.report(3), "runs is 3 (int); wanted a folder of runs"),
    "report to a number": (lambda: lib.report("runs", 3), "out is 3 (int); wanted the name of a file"),
    "report over a file": (lambda: lib.report("runs", "torn.jsonl"), "exists and is not a report: name another"),
    "render text": (lambda: lib.render("x"), "query is 'x' (str); wanted a Query"),
    "check_benchmark name": (lambda: lib.check_benchmark("prb"), "wanted a Benchmark; load_benchmark(NAME)"),
    "check_reward_model name": (lambda: lib.check_reward_model("bm25"), "load_model(NAME) returns one"),
    "evaluate_one number": (lambda: lib.evaluate_one(1, ["x"], 0.5, "bm25"), "wanted the text of an answer"),
    "evaluate_one profile": (lambda: lib.evaluate_one("x", 2, 0.5, "bm25"), "profile is 2 (int); wanted a User"),
    "evaluate_one posts": (lambda: lib.evaluate_one("x", [2], 0.5, "bm25"), "wanted a list of texts or Posts"),
    "evaluate_one score": (lambda: lib.evaluate_one("x", ["y"], "a", "bm25"), "wanted a number from 0 to 1"),
    "evaluate_one model": (lambda: lib.evaluate_one("x", ["y"], 0.5, 4), "model is 4 (int); wanted"),
    "sample policy": (lambda: lib.sample("pocket-prb", 3, out="p"), "policy is 3 (int); wanted a policy's name"),
    "sample n": (lambda: lib.sample("pocket-prb", "simulated", out="p", n=0), "n is 0; wanted at least 1"),
    "best_of_n number": (lambda: lib.best_of_n(3, "longest", grader="truth"), "wanted the folder of a pool"),
    "best_of_n grader": (
        lambda: lib.best_of_n("pool", "longest", grader=3),
        "grader is 3 (int); wanted a grader's",
    ),
    "best_of_n k": (lambda: lib.best_of_n("pool", "longest", grader="truth", ks=[9]), "wanted k from 1 to 2"),
    "correlate number": (lambda: lib.correlate(3, "pool"), "runs is 3 (int); wanted a folder of runs"),
    "correlate runs": (
        lambda: lib.correlate("runs", "runs"),
        "wanted a pool of 'best_of_n', or a training",
    ),
    "fit number": (lambda: lib.fit(3, "pocket-prb", out="f"), "algorithm is 3 (int); wanted the name of one"),
    "fit key": (lambda: lib.fit("bt", "pocket-prb", out="f", foo=1), "no hyperparameter 'foo'. Known:"),
    "train algorithm": (
        lambda: lib.train("sft", "pocket-prb", "lm:x", "longest", steps=1, out="t"),
        "algorithm is 'sft'; wanted 'ppo' or 'grpo'",
    ),
    "train policy": (
        lambda: lib.train("ppo", "pocket-prb", "chat:m", "longest", steps=1, out="t"),
        "wanted lm:FOLDER",
    ),
    "train setting": (
        lambda: lib.train("ppo", "pocket-prb", "lm:x", "longest", steps=1, out="t", bacth=2),
        "Did you mean 'batch'?",
    ),
    "study number": (lambda: lib.study(3, out="x"), "file is 3 (int); wanted the name of a study in TOML"),
    "study nowhere": (lambda: lib.study("nofile", out="x"), "Wanted a study in TOML"),
}


LINES = """score() => missing: benchmark, model. Wanted score(benchmark, model, ...)
score("pocket-prb") => missing: model. Wanted score(benchmark, model, ...)
score("pocket-prb", modle="bm25") => no argument 'modle'. Did you mean 'model'? missing: model.
score("pocket-prb", "bm25", "none", "x") => found 4 arguments by position, wanted at most 3
score("pocket-prb", "bm25", benchmark="x") => 'benchmark' is given twice
score("pocket-prb", "bm25", limits=3) => no argument 'limits'. Did you mean 'limit'?
score("pocket-prb", "bm25", limit="3") => limit is '3' (str); wanted a whole number or None
score("pocket-prb", "bm25", limit=1.5) => limit is 1.5 (float); wanted a whole number
score("pocket-prb", "bm25", limit=True) => limit is True (bool); wanted a whole number
score("pocket-prb", "bm25", domains="Art") => domains is 'Art' (str); wanted a list
score("pocket-prb", "bm25", domains=3) => domains is 3 (int); wanted a list
score("pocket-prb", "bm25", domains=[3]) => domains is [3] (list); wanted a list
score("pocket-prb", "bm25", out=None) => out is None (NoneType); wanted a text or a path
score("pocket-prb", "bm25", out=3) => out is 3 (int); wanted a text or a path
score("pocket-prb", "bm25", seed="a") => seed is 'a' (str); wanted a whole number
score("pocket-prb", "bm25", workers="2") => workers is '2' (str); wanted a whole number
score("pocket-prb", "bm25", workers=0, out="new") => workers is 0; wanted 1 or more
score("pocket-prb", "bm25", fresh="yes") => fresh is 'yes' (str); wanted True or False
score("pocket-prb", "bm25", progress="yes") => progress is 'yes' (str); wanted a function, True or False
score("pocket-prb", "bm25", settings={}) => settings is {} (dict); wanted pluralrm.http.Settings
score("pocket-prb", [None], "none") => model is None (NoneType); wanted a model's name
score("pocket-prb", {"bm25"}) => model is {'bm25'} (set); wanted a model's name
compare({}) => runs is {} (dict); wanted a folder of runs
compare(["runs", 3]) => runs is 3 (int); wanted a folder of runs
compare(run="runs") => no argument 'run'. Did you mean 'runs'?
compare("runs", "x") => found 2 arguments by position, wanted at most 1
compare("runs", names=3) => names is 3 (int); wanted a dict or None
compare("runs", names=["a"]) => names is ['a'] (list); wanted a dict or None
compare("runs", seed="a") => seed is 'a' (str); wanted a whole number
personalization() => missing: runs. Wanted personalization(runs, ...)
personalization("runs", sead=3) => no argument 'sead'. Did you mean 'seed'?
leaderboard() => missing: runs. Wanted leaderboard(runs, ...)
leaderboard(None) => runs is None (NoneType); wanted a list of runs
summary() => missing: run. Wanted summary(run)
paired_difference() => missing: first, second.
load_benchmark() => missing: spec. Wanted load_benchmark(spec, ...)
load_benchmark("pocket-prb", seed="x") => seed is 'x' (str); wanted a whole number
load_benchmark("pocket-prb", sed=1) => no argument 'sed'. Did you mean 'seed'?
load_benchmark("pocket-prb", 3) => found 2 arguments by position, wanted at most 1
load_condition() => missing: text. Wanted load_condition(text, ...)
load_condition("raw", 10) => found 2 arguments by position, wanted at most 1
load_model() => missing: text. Wanted load_model(text, ...)
load_model("bm25", 3) => found 2 arguments by position, wanted at most 1
load_model("bm25", settings=3) => settings is 3 (int); wanted pluralrm.http.Settings
load_run() => missing: path. Wanted load_run(path)
load_run(folder="runs") => no argument 'folder'. Known: path. missing: path.
load_runs() => missing: paths. Wanted load_runs(paths)
report("runs", figures=3) => figures is 3 (int); wanted a text or a path or None
report("runs", seed="a") => seed is 'a' (str); wanted a whole number
report("runs", text="no") => text is 'no' (str); wanted True or False
report("runs", fig="x") => no argument 'fig'. Known: figures, force, out
sample() => missing: benchmark, policy, out. Wanted sample(benchmark, policy, out, ...)
sample("pocket-prb", "simulated") => missing: out.
sample("pocket-prb", "simulated", out="p", n="x") => n is 'x' (str); wanted a whole number
sample("pocket-prb", "simulated", out="p", n=2.5) => n is 2.5 (float); wanted a whole number
sample("pocket-prb", "simulated", out=3) => out is 3 (int); wanted a text or a path
sample("pocket-prb", "simulated", out="p", temperature="hot") => temperature is 'hot' (str); wanted a number
sample("pocket-prb", "simulated", out="p", top_p=None) => top_p is None (NoneType); wanted a number
sample("pocket-prb", "simulated", out="p", temp=1) => no argument 'temp'. Did you mean 'temperature'?
best_of_n() => missing: pool, model, grader.
best_of_n("pool", "longest") => missing: grader. Wanted best_of_n(pool, model, grader, ...)
best_of_n("pool", "longest", grader="truth", ks=3) => ks is 3 (int); wanted a list
best_of_n("pool", "longest", grader="truth", k=3) => no argument 'k'.
correlate() => missing: benchmark, downstream.
correlate("runs") => missing: downstream. Wanted correlate(benchmark, downstream, ...)
correlate("runs", "pool", k=3) => k is 3 (int); wanted a list
correlate("a", "b", csv=3) => csv is 3 (int); wanted a text or a path or None
correlate("runs", "pool", rbo_p="x") => rbo_p is 'x' (str); wanted a number
fit() => missing: algorithm, benchmark, out.
fit("bt", "pocket-prb") => missing: out. Wanted fit(algorithm, benchmark, out, ...)
fit("bt", "pocket-prb", out=3) => out is 3 (int); wanted a text or a path
fit("bt", "pocket-prb", out="o", shuffle_labels="yes") => shuffle_labels is 'yes' (str); wanted True or False
train() => missing: algorithm, benchmark, policy, reward, steps, out.
train("ppo", "pocket-prb", "lm:x", "longest", out="t") => missing: steps.
train("ppo", "pocket-prb", "lm:x", "longest", steps="3", out="t") => steps is '3' (str); wanted a whole number
train("ppo", "pocket-prb", 3, "longest", steps=1, out="t") => policy is 3 (int); wanted the name of one
study() => missing: file, out. Wanted study(file, out, ...)
study("no.toml", out=3) => out is 3 (int); wanted a text or a path
study("no.toml", out="o", fresh="longest") => fresh is 'longest' (str); wanted a list
render() => missing: query. Wanted render(query, ...)
evaluate_one("a") => missing: profile, human_score, model.
check_reward_model(benchmark=3) => no argument 'benchmark'. Known: model. missing: model.
check_benchmark() => missing: benchmark. Wanted check_benchmark(benchmark)
"""
CALLS |= {
    call: (partial(eval, call, vars(pluralrm) | {name: getattr(lib, name) for name in lib.__all__}), message)
    for call, message in (line.split(" => ") for line in LINES.strip().splitlines())
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("desk")
def test_a_bad_call_is_an_error_of_ours_with_the_next_step(name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(PluralrmError) as caught:
        call()
    assert message in str(caught.value)
    assert NEXT.search(str(caught.value)), caught.value


def test_a_public_function_keeps_its_signature_and_its_words() -> None:
    from pluralrm import api

    assert lib.score is pluralrm.score
    assert signature(pluralrm.score) == signature(api.score)
    assert pluralrm.score.__doc__ == api.score.__doc__
    assert signature(pluralrm.load_model).parameters["text"].default is Parameter.empty


def test_there_are_three_hundred_of_them() -> None:
    assert len(CASES) + len(CALLS) >= 300
    assert len({command for command, _ in CASES}) == len(CASES)


def test_a_name_longer_than_a_file_may_have_is_an_unknown_model() -> None:
    with pytest.raises(pluralrm.PluralrmError, match="unknown model"):
        pluralrm.load_model("[" * 20_000)
