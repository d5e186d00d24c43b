"""What a page says of itself is found out where it is wrong, and what its blocks need is put up, on this machine."""

from pathlib import Path

import pytest

from tests.docs.child import play
from tests.docs.pages import Block, blocks
from tests.docs.props import find, tier
from tests.docs.stage import PageError, Stage, played

PAGE = """
<!-- file: mine.py -->
```python
VALUE = 1
```

```python
import mine
print("said", mine.VALUE + 1)
```

```text
said {said}
```

<!-- exit: {exit} -->
```bash
pluralrm score pocket-prb -m longst
```

A sentence.

<!-- output -->
```text
pluralrm: unknown model 'longst'. Did you mean 'longest'?...
```
"""


def written(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


@pytest.mark.parametrize(
    ("said", "code", "complaint"),
    [("2", "2", ""), ("3", "2", "page.md:12: the page says\nsaid 3"), ("2", "0", "page.md:17: pluralrm score")],
)
def test_a_page_that_is_wrong_is_found_out(tmp_path: Path, said: str, code: str, complaint: str) -> None:
    done = play(written(tmp_path, PAGE.format(said=said, exit=code)), tmp_path)
    assert (done.returncode == 0) is (not complaint)
    assert complaint in done.stderr


@pytest.mark.parametrize("text", ["```python\nleft = 'open'\n", "<!-- file: a.txt -->\n\nA sentence.\n"])
def test_a_fence_left_open_and_a_mark_without_a_block_are_errors(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"never closed|has no block"):
        blocks(written(tmp_path, text))


SERVED = """
<!-- needs: a chat server -->
```python
import os
from pluralrm.chat import ChatRequest, ServedChat

url = "{url}"
with ServedChat("any-name", url=url) as chat:
    for reply in chat.complete([ChatRequest((("user", "What do you know of me?"),))]):
        print(f"{{url}}: {{reply.text}}")
```

```text
{url}: {said}
```
"""


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "https://api.openai.com/v1"])
@pytest.mark.parametrize("said", ["Likes bread, and short answers.", "Nothing."])
def test_the_address_of_a_server_is_replaced_and_nothing_else(tmp_path: Path, url: str, said: str) -> None:
    done = play(written(tmp_path, SERVED.format(url=url, said=said)), tmp_path)
    assert (done.returncode == 0) is (said != "Nothing.")
    assert f"what is printed is\n{url}: Likes bread" in done.stderr or done.returncode == 0


def test_a_block_that_needs_two_servers_is_refused_since_their_addresses_cannot_be_told_apart() -> None:
    text = "asked = 'http://127.0.0.1:8000'\n"
    block = Block(Path("page.md"), 1, "python", text, {"needs": "this; that"}, adjacent=False)
    with pytest.raises(PageError, match="two servers"):
        Stage({"this": "http://127.0.0.1:1", "that": "http://127.0.0.1:2"}).play(block)


def test_no_page_reaches_another_machine(tmp_path: Path) -> None:
    reach = "import socket\nsocket.create_connection(('192.0.2.1', 80))\n"
    done = play(written(tmp_path, f"```python\n{reach}```\n"), tmp_path)
    assert done.returncode != 0
    assert "reached out to ('192.0.2.1', 80)" in done.stderr


NEEDY = """
```python
print("plain")
```

<!-- needs: torch -->
```bash
pluralrm list models
```

```text
it prints something else
```

<!-- needs: a chat server -->
```python
print("served")
```
"""


def test_the_blocks_of_a_tier_are_played_by_its_tests_with_those_that_need_nothing(tmp_path: Path) -> None:
    page = written(tmp_path, NEEDY)
    plain, listed, output, served = blocks(page)
    assert played(page) == [plain, served]
    assert played(page, "hf") == [plain, listed, output]
    assert play(page, tmp_path).returncode == 0
    done = play(page, tmp_path, "hf")
    assert done.returncode != 0
    assert "it prints something else" in done.stderr


def test_a_need_that_nothing_meets_is_an_error() -> None:
    with pytest.raises(KeyError):
        find("a fleet of servers")
    with pytest.raises(ValueError, match="no test has all of it"):
        tier(["torch", "the extra embed"])
    assert tier(["the hub", "torch"]) == "hf"
    assert tier([]) == ""
