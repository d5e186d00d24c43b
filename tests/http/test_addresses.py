"""Which URLs are taken, what counts as this machine, and where a key goes."""

import pytest

from pluralrm.errors import ServiceError
from pluralrm.http import Address, Secret, parse_address, read_key

KEY = "sk-canary-0123456789/+abc"


@pytest.mark.parametrize(
    ("url", "spelling"),
    [
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("HTTPS://API.Example.org", "https://api.example.org"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("https://example.org:443/a/b%20c/", "https://example.org:443/a/b%20c"),
        ("http://localhost:1/", "http://localhost:1"),
    ],
)
def test_a_url_has_one_spelling(url: str, spelling: str) -> None:
    assert parse_address(url).url == spelling


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org",
        "gopher://127.0.0.1:70/_x",
        "unix:///run/server.sock",
        "127.0.0.1:8000",
        "http://",
        "http:///v1",
        "http://example.org:port",
        "http://example.org:99999",
        "http://exa mple.org",
        "http://example.org\\@127.0.0.1",
        "http://exam\nple.org",
        "http://%31%32%37.0.0.1",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://example.org/v1?api-key=x",
        "http://example.org/v1?",
        "http://example.org/v1#x",
        "http://例え.jp",
        "http://-dash.org",
    ],
)
def test_anything_but_a_plain_http_url_is_refused(url: str) -> None:
    with pytest.raises(ServiceError):
        parse_address(url)


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{KEY}@example.org/v1",
        f"http://{KEY}@example.org/v1",
        f"http://example.org/v1?key={KEY}",
        f"http://example.org/v1#{KEY}",
        f"ftp://:{KEY}@example.org",
        f"http://u%40{KEY}@exa mple.org",
        f"http://{KEY}%40example.org",
        f"http://user:{KEY}@[::1",
        f"http://user:{KEY}@example.org:port",
    ],
)
def test_a_url_that_holds_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ServiceError) as error:
        parse_address(url)
    assert KEY not in str(error.value)
    assert KEY[:12] not in repr(error.value)


def test_without_a_url_the_environment_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert parse_address().url == "http://127.0.0.1:9/v1"
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ServiceError, match="OPENAI_BASE_URL"):
        parse_address()


@pytest.mark.parametrize("url", ["http://127.0.0.1", "http://127.9.9.9:1", "https://localhost", "http://[::1]:8000/v1"])
def test_this_machine_is_loopback(url: str) -> None:
    assert parse_address(url).loopback


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1",
        "http://0.0.0.0:8000",
        "http://127.0.0.1.nip.io",
        "http://localhost.example.org",
        "http://2130706433",
        "http://127.1",
        "http://169.254.169.254",
        "http://[::ffff:8.8.8.8]",
    ],
)
def test_nothing_else_counts_as_this_machine(url: str) -> None:
    assert not parse_address(url).loopback


def test_a_key_comes_from_the_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    found = read_key(Address("https://example.org"))
    assert found is not None
    assert found.header() == f"Bearer {KEY}"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert read_key(Address("https://example.org")) is None


def test_a_key_that_was_not_named_goes_nowhere_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("LAB_KEY", KEY)
    assert read_key(Address("http://10.0.0.5:8000/v1")) is None
    assert read_key(Address("http://127.0.0.1:8000/v1")) is not None
    assert read_key(Address("http://10.0.0.5:8000/v1"), "LAB_KEY") is not None


def test_a_named_key_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_KEY", raising=False)
    with pytest.raises(ServiceError, match="LAB_KEY"):
        read_key(Address("https://example.org"), "LAB_KEY")


@pytest.mark.parametrize("key", [f"{KEY}\r\nX-Evil: 1", f"{KEY} {KEY}", f"{KEY}é"])
def test_a_key_that_is_no_header_is_refused_without_showing_it(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", key)
    with pytest.raises(ServiceError) as error:
        read_key(Address("https://example.org"), "LAB_KEY")
    assert KEY not in str(error.value)


def test_a_secret_shows_itself_to_nobody() -> None:
    secret = Secret("LAB_KEY", KEY)
    assert KEY not in f"{secret!r} {secret}"


@pytest.mark.parametrize("spelling", [KEY, KEY.replace("/", "\\/"), KEY.replace("/", "%2F").replace("+", "%2B")])
def test_a_secret_is_taken_out_of_what_a_server_echoes(spelling: str) -> None:
    assert Secret("LAB_KEY", KEY).hide(f"invalid key: {spelling}!") == "invalid key: [key]!"


def test_a_placeholder_is_no_secret() -> None:
    said = "The result set is EMPTY."
    assert Secret("LAB_KEY", "EMPTY").hide(said) == said
