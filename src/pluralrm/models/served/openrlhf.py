"""A reward server with OpenRLHF's schema (`--reward.remote_url`): the URL of the spec is the route itself.

POST {"query": [TEXT], "prompts": [QUESTION], "labels": [""]} -> {"rewards": [2.99]}

It names no model and shows no tokens. Labels are empty: what the benchmark holds to be right never leaves it.
"""

from collections.abc import Mapping

from pluralrm.models.served.dialect import Dialect, Manner, Read, number_of, only, part
from pluralrm.models.served.spoken import Spoken


def _body(spoken: Spoken, manner: Manner) -> Mapping[str, object]:  # noqa: ARG001 - one manner is all it knows
    return {"query": [spoken.text], "prompts": [spoken.prompt], "labels": [""]}


def _read(value: object) -> Read:
    return Read((number_of(only(part(value, "rewards"), "'rewards'"), "'rewards'"),))


OPENRLHF = Dialect(
    name="remote",
    start="python -m openrlhf.cli.serve_rm --reward_pretrain MODEL --max_len 8192",
    body=_body,
    read=_read,
)
