"""POPQUORN (Pei and Jurgens, LAW 2023): ratings of how offensive a comment, or how polite an email is, by many people.

One row of `dataset/offensiveness/raw_data.csv` (https://github.com/Jiaxin-Pei/Potato-Prolific-Dataset), a rating from 1
to 5 with what the person declared:

    instance_id,user_id,text,offensiveness,gender,race,age,occupation,education
    12,7,They burnt the toast again.,2.0,Woman,Asian,40-44,Employed,College degree

Ratings become pairs by a named rule (`pairs=`, `gap=`, `per=`, `draw=`: `pluralrm.benchmarks.ratings`), and the person
with the higher rating for a text prefers it as the answer to the question in QUESTIONS. The domain is what was rated.
Answers and rewritten emails, the other two tasks of the data set, are no ratings and not read.
"""

from collections.abc import Mapping
from dataclasses import replace

from pluralrm.benchmarks.dirt import dirt_of
from pluralrm.benchmarks.person_table import Columns, TableReader
from pluralrm.benchmarks.preferences import in_part, users_of, with_split
from pluralrm.benchmarks.ratings import rule_of
from pluralrm.benchmarks.rows import read_rows, shortened
from pluralrm.benchmarks.sources import find_sources, local_path, unclaimed
from pluralrm.card import Card
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Spec

QUESTIONS: Mapping[str, str] = {
    "offensiveness": "Which of these two comments is more offensive?",
    "politeness": "Which of these two emails is more polite?",
}
"""The columns of ratings, and what is asked of a pair, in our words."""
TRAITS = ("gender", "race", "age", "occupation", "education")

CARD = Card(
    name="popquorn",
    summary="POPQUORN: how offensive or polite a text is, rated by people of whom gender, race, age and more are known",
    licence="not stated; openly released",
    source="https://github.com/Jiaxin-Pei/Potato-Prolific-Dataset, dataset/offensiveness/raw_data.csv and others",
    labelled="by paid raters, each text by several, from 1 to 5",
    citation="Jiaxin Pei and David Jurgens. When Do Annotator Demographics Matter? Measuring the Influence of "
    "Annotator Demographics with the POPQUORN Dataset. LAW-XVII, 2023.",
)


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `popquorn:PATH`, the raw_data.csv of one kind of ratings."""
    path, users, rule, dirt = local_path(spec.target), users_of(spec), rule_of(spec), dirt_of(spec)
    sources = find_sources(path)
    location, first = next(read_rows(sources[0].file, lambda _: None), (None, {}))
    measure = next((name for name in QUESTIONS if name in first), "")
    if not measure:
        header = ", ".join(map(shortened, first)) or "none"
        raise BenchmarkError(
            f"{location or path}: found the columns {header}, wanted ratings in {' or '.join(QUESTIONS)}"
        )
    columns = Columns(
        "user_id", "instance_id", measure, "", "text", traits=TRAITS, required=frozenset({"text"}), named=False
    )
    reader = TableReader(columns, dirt, QUESTIONS[measure], is_rated=True)
    reader.read(sources)
    items = [replace(item, domain=measure) for item in reader.items(rule, seed=seed) if in_part(item.cluster, users)]
    if not items:
        raise BenchmarkError(f"{path.name}: found no item of users={users}, wanted at least one")
    return Benchmark(dirt.onto(rule.onto(with_split(unclaimed(CARD, path), users))), tuple(items), seed)
