"""Chat templates: what transformers renders is rendered alike; what reaches out or never ends is refused."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.errors import ModelError
from pluralrm.models.neural.folder import ChatTemplate, load_chat_template
from pluralrm.templates import Message
from tests.models.neural.tokenizers import TEMPLATES

CHAT = [Message("user", " Which <b>flour</b>?\n"), Message("assistant", "\nRye & spelt. ")]
ODD = ("", "\n\nx\n", "<think>\na\n</think>\n\nb", "</think>")
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def _render(source: str, *, prompting: bool = False) -> str:
    return ChatTemplate(source, SPECIAL).render(CHAT, prompting=prompting)


# ---------------------------------------------------------------- what a template can count on


def test_turns_trims_and_named_tokens_are_written_as_the_template_says() -> None:
    assert _render(
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m['content']|trim }}{{ eos_token }}{% endfor %}"
    ) == ("<s>[user]Which <b>flour</b>?</s>[assistant]Rye & spelt.</s>")


def test_prompting_asks_for_the_turn_of_the_assistant() -> None:
    assert _render("{% if add_generation_prompt %}go{% else %}done{% endif %}") == "done"
    assert _render("{% if add_generation_prompt %}go{% else %}done{% endif %}", prompting=True) == "go"


def test_today_is_the_same_day_every_day() -> None:
    assert _render("{{ strftime_now('%d %b %Y') }}") == "26 Jul 2024"


def test_blocks_leave_no_lines_behind() -> None:
    assert _render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n") == "a\n  b\nc"


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("{{ messages[0]|tojson }}", '{"role": "user", "content": " Which <b>flour</b>?\\n"}'),
        ("{{ {'b': 1, 'a': 'é'}|tojson(sort_keys=true) }}", '{"a": "é", "b": 1}'),
        ("{{ [1, [2]]|tojson(indent=1) }}", "[\n 1,\n [\n  2\n ]\n]"),
        ("{{ undefined_name }}|{{ tools is none }}|{{ documents is defined }}", "|True|True"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "2"),
        ("{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "user"),
        ("{% generation %}{% set x = 1 %}{{ 'said' }}{% endgeneration %}{{ x }}", "said"),
        ("{% macro turn(m) %}<{{ m.role }}>{% endmacro %}{{ turn(messages[1]) }}", "<assistant>"),
        ("{{ messages|map(attribute='role')|join('+') }}", "user+assistant"),
        ("{{ dict(a=1).items()|list }}{{ 'x' ~ 1 ~ none }}", "[('a', 1)]x1None"),
        ("{{ '%s-%d' % ('a', 2) }}{{ '{:>3}'.format(7) }}{{ 'ab' * 2 }}{{ 2 ** 3 }}", "a-2  7abab8"),
        ("{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages[1:]|length }}", "11"),
        ("{{ messages[-1].content.strip().split('&')[0].rstrip() }}", "Rye"),
    ],
)
def test_the_usual_helpers_are_there(source: str, written: str) -> None:
    assert _render(source) == written


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_braces_in_a_text_stay_the_braces_that_they_are(texts: list[str]) -> None:
    messages = [Message("user", text + "{{ 7 * 7 }}{% raw %}") for text in texts]
    rendered = ChatTemplate("{% for m in messages %}<{{ m.content }}>{% endfor %}").render(messages)
    assert rendered == "".join(f"<{message.content}>" for message in messages)


@pytest.mark.hf
@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=25, deadline=None)
@given(
    system=st.none() | st.text(max_size=20),
    texts=st.lists(st.text(max_size=40) | st.sampled_from(ODD), min_size=1, max_size=4),
    prompting=st.booleans(),
)
def test_text_equals_that_of_transformers(name: str, system: str | None, texts: list[str], *, prompting: bool) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    turns = [Message("assistant" if place % 2 else "user", text) for place, text in enumerate(texts)]
    messages = [*([Message("system", system)] if system and name != "model-role" else []), *turns]
    as_dicts = [message._asdict() for message in messages]
    [expected], _ = render_jinja_template(
        [as_dicts],
        chat_template=TEMPLATES[name],
        add_generation_prompt=prompting,
        date_string="26 Jul 2024",
        **SPECIAL,
    )
    assert ChatTemplate(TEMPLATES[name], SPECIAL).render(messages, prompting=prompting) == expected


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("{{ ''.__class__.__mro__ }}", "__mro__|__class__"),
        ("{{ messages['__class__'] }}", "__class__"),
        ("{{ messages|attr('__class__') }}", "__class__"),
        ("{{ messages|map(attribute='a.__class__')|list }}", "__class__"),
        ("{% if false %}{{ x._private }}{% endif %}", "_private"),
        ("{% set ns = namespace() %}{% set ns._x = 1 %}", "_x"),
        ("{% include 'other' %}", "include"),
        ("{% import 'other' as o %}", "import"),
        ("{% extends 'other' %}", "extends"),
        ("{% block a %}{% endblock %}", "block"),
        ("{% for x in messages recursive %}{{ loop(x) }}{% endfor %}", "recursively"),
    ],
)
def test_a_template_that_spells_what_it_must_not_reach_is_refused_unread(source: str, named: str) -> None:
    with pytest.raises(ModelError, match=f"refused: line 1: .*({named})"):
        ChatTemplate(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages['_' ~ '_class__'].x }}",
        "{{ (['x']|map(attribute='_' ~ '_class__')|first).x }}",
        "{{ '{0.__class__.__mro__}'.format(1) }}",
        "{{ cycler.next() }}",
        "{{ lipsum(n=5) }}",
        "{{ self.x() }}",
        "{{ open('/etc/hostname').read() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({}) }}",
        "{{ 'x'.encode() }}",
        "{{ (5).to_bytes(4, 'big') }}",
        "{{ raise_exception('no system role') }}",
        "{{ namespace.mro() }}",
        "{{ 1 / 0 }}",
        "{{ none + 1 }}",
    ],
)
def test_what_a_template_reaches_for_while_it_runs_is_refused(source: str) -> None:
    with pytest.raises(ModelError):
        _render(source)


def test_a_hostile_template_leaves_no_file(tmp_path) -> None:
    marker = tmp_path / "ran"
    reach = (
        "cycler.__init__.__globals__.os.system('touch {0}')",
        "''.__class__.__base__.__subclasses__()",
        "open('{0}', 'w')",
    )
    for expression in reach:
        with pytest.raises(ModelError):
            _render("{{ " + expression.format(marker) + " }}")
    assert not marker.exists()


def test_a_message_of_the_template_reaches_the_user() -> None:
    with pytest.raises(ModelError, match="no system role here"):
        _render("{{ raise_exception('no system role here') }}")


def test_a_template_with_a_mistake_names_it() -> None:
    with pytest.raises(ModelError, match=r"cannot be read: .*endfor"):
        ChatTemplate("{% for m in messages %}")


_AGAIN = "{% set ns = namespace(s='aaaaaaaa', l=[1]) %}{% for i in range(60) %}"
BOMBS = {
    "a text repeated": "{{ 'a' * 10**9 }}",
    "repeated from the left": "{{ 1000000000 * 'a' }}",
    "a list repeated": "{{ messages * 10**9 }}",
    "a power": "{{ 9**9**9 }}",
    "squares": "{% set ns = namespace(x=3) %}{% for i in range(40) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}"
    "{% endfor %}{% endfor %}",
    "loops that filter": "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "text in loops": "{% for a in range(99999) %}{% for b in range(99999) %}" + "x" * 500 + "{% endfor %}{% endfor %}",
    "a long range": "{{ range(10**9)|list }}",
    "center": "{{ 'a'|center(10**9) }}",
    "a method": "{{ 'a'.center(10**9) }}",
    "zfill": "{{ 'a'.zfill(10**9) }}",
    "tabs": "{{ '\t'.expandtabs(10**9) }}",
    "bytes": "{{ (5).to_bytes(10**9) }}",
    "a filter by name": "{{ ['a']|map('center', 10**9)|list }}",
    "a wide number": "{{ '%1000000000d' % 1 }}",
    "a width from outside": "{{ '%*d' % (10**9, 1) }}",
    "a precise number": "{{ '%.1000000000f' % 1.5 }}",
    "a wide field": "{{ '{:>1000000000}'.format(1) }}",
    "a field in a field": "{{ '{:{}}'.format('a', 10**9) }}",
    "a field by name": "{{ '{a:{b}}'.format_map({'a': 'x', 'b': 10**9}) }}",
    "a wide date": "{{ strftime_now('%1000000000Y') }}",
    "doubling by ~": _AGAIN + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    "doubling by +": _AGAIN + "{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "doubling by set": _AGAIN + "{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}{% endfor %}",
    "doubling by replace": _AGAIN + "{% set ns.s = ns.s|replace('a', ns.s) %}{% endfor %}",
    "doubling by join": _AGAIN + "{% set ns.s = ns.s.join(ns.s) %}{% endfor %}",
    "doubling by escape": _AGAIN + "{% set ns.s = ('<<' ~ ns.s ~ ns.s)|e|string %}{% endfor %}",
    "a list of itself": _AGAIN + "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
    "a tuple of itself": _AGAIN + "{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ ns.l == 1 }}",
    "a dict of itself": _AGAIN + "{% set ns.l = dict(a=ns.l, b=ns.l) %}{% endfor %}{{ ns.l|tojson }}",
    "a list by a filter": _AGAIN + "{% set ns.l = [x, x]|map('default', ns.l)|list %}{% endfor %}{{ ns.l }}",
    "JSON of far": "{{ [1, [2]]|tojson(indent=10**9) }}",
    "JSON by a text": "{{ range(90000)|list|tojson(indent='x' * 100000) }}",
    "indented far": "{{ 'a\nb'|indent(10**9) }}",
    "a macro of itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "a macro twice": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a macro for nothing": "{% macro f(n) %}" + "x" * 9000 + "{% if n %}{% set a = f(n - 1) %}{% set b = f(n - 1) %}"
    "{% endif %}{% endmacro %}{{ f(60) }}",
    "splits": "{% for i in range(9999) %}{% set x = ('a' * 99999).split('a') %}{% endfor %}",
    "slices": "{% set a = 'a' * 999999 %}{% for i in range(99999) %}{% set b = a[1:] %}{% endfor %}",
    "comparisons": "{% set a = 'a' * 300000 %}{% set b = 'a' * 299999 + 'a' %}{% for i in range(99999) %}{{ a == b }}"
    "{{ 'b' in a }}{% endfor %}",
    "tests": "{% set a = 'a' * 300000 %}{{ (['b'] * 100000)|select('in', a)|list }}",
    "many fields": "{{ ('{0}' * 99999).format('a' * 99999) }}",
    "many names": "{{ ('%(a)s' * 99999) % {'a': 'a' * 99999} }}",
    "a search from behind": "{{ ('a' * 400000).rfind('ab' ~ 'a' * 200000) }}",
    "a strip": "{{ ('a' * 300000).strip('b' * 300000 ~ 'a') }}",
    "a key": "{% set ns = namespace(t=(1, 2)) %}{% for i in range(15) %}{% set ns.t = ns.t + ns.t %}{% endfor %}"
    "{% set d = {} %}{% for i in range(99999) %}{{ d[ns.t] }}{% endfor %}",
    "a long path": "{% set ns = namespace() %}{% set ns.a = ns %}"
    "{{ ([ns] * 30000)|map(attribute='a.' * 30000 ~ 'a')|list|length }}",
    "an indent by a text": "{{ ('a\n' * 100000)|indent('a' * 100000) }}",
    "sorting": "{% for i in range(99999) %}{% set a = range(50000)|list|sort %}{% endfor %}",
    "nesting": "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "a long sum": "{{ " + "1 + " * 20000 + "1 }}",
    "many ifs": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "a long source": "x" * 500_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_template_without_end_is_stopped(name: str) -> None:
    with pytest.raises(ModelError):
        _render(BOMBS[name])


def test_no_bomb_takes_much_memory() -> None:
    script = (
        "from tests.models.neural.test_chat import BOMBS, _render\n"
        "from pluralrm.errors import ModelError\n"
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "for source in BOMBS.values():\n"
        "    try: _render(source)\n"
        "    except ModelError: continue\n"
        "    raise AssertionError(source[:200])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_long_conversation_is_within_the_budget(name: str) -> None:
    long = [Message(turn.role, turn.content * 20_000) for turn in CHAT] * 3
    assert len(ChatTemplate(TEMPLATES[name], SPECIAL).render(long)) > 500_000


# ---------------------------------------------------------------- where it comes from


def _folder(tmp_path, **config: object):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_the_file_goes_before_the_config_and_the_override_before_both(tmp_path) -> None:
    folder = _folder(tmp_path, chat_template="in the config")
    assert load_chat_template(folder).source == "in the config"
    (folder / "chat_template.jinja").write_text("in the file")
    assert load_chat_template(folder).source == "in the file"
    (folder / "mine.jinja").write_text("mine")
    assert load_chat_template(folder, folder / "mine.jinja").source == "mine"


def test_of_several_templates_the_default_one_is_taken(tmp_path) -> None:
    several = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "chat"}]
    assert load_chat_template(_folder(tmp_path, chat_template=several)).source == "chat"
    with pytest.raises(ModelError, match="rag, tool_use"):
        load_chat_template(_folder(tmp_path, chat_template=[several[0], {"name": "rag", "template": "x"}]))


def test_a_folder_without_a_template_says_what_to_write(tmp_path) -> None:
    with pytest.raises(ModelError, match=r"chat=FILE\.jinja.*format=pair"):
        load_chat_template(tmp_path)
    with pytest.raises(ModelError, match="cannot be read"):
        load_chat_template(tmp_path, tmp_path / "none.jinja")


def test_special_tokens_come_from_the_config_unless_the_tokenizer_tells(tmp_path) -> None:
    tokens = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": None}
    folder = _folder(tmp_path, chat_template="{{ bos_token }}{{ eos_token }}{{ pad_token }}", **tokens)
    assert load_chat_template(folder).render(CHAT) == "<s></s>"
    assert load_chat_template(folder, special={"bos_token": "<b>"}).render(CHAT) == "<b>"


def test_the_hash_follows_the_source_and_the_tokens() -> None:
    hashes = {ChatTemplate("a").hash, ChatTemplate("b").hash, ChatTemplate("a", SPECIAL).hash}
    assert len(hashes) == 3
    assert ChatTemplate("a", dict(reversed(SPECIAL.items()))).hash == ChatTemplate("a", SPECIAL).hash
