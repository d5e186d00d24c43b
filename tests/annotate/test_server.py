"""The server of a plan: who gets in, what is taken, what is sent, and what never is."""

import http.client
import json
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pluralrm.annotate.judgments import read_judgments
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.server import AnnotationLimits
from pluralrm.annotate.service import ServerAddress
from pluralrm.annotate.store import FILE
from tests.annotate.plans import fours, pair_plan
from tests.annotate.serving import Served, judgment, send, serving

PLAN = pair_plan(6, each=3, items=9)
RNG = random.Random(7)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(PLAN, tmp_path_factory.mktemp("served") / "plan") as found:
        yield found


def screens(server: Served, whose: str, kind: str = "item") -> list[str]:
    """Return the handles of somebody's screens of one kind that nobody judged yet."""
    open_ = {one["item"] for one in server.state(whose) if not one["revision"]}
    return [one.handle for one in PLAN.by_annotator[whose] if one.kind == kind and one.handle in open_]


# ---------------------------------------------------------------- who gets in

ANNOTATORS: list[tuple[str, object]] = [("/api/state", None), ("/api/items/HANDLE", None), ("/api/judgments", {})]
ADMINS: list[tuple[str, object]] = [(f"/api/admin/{what}", None) for what in ("progress", "judgments", "labels")]


@pytest.mark.parametrize(("path", "body"), ANNOTATORS + ADMINS)
def test_without_a_token_of_the_page_nobody_gets_in(server: Served, path: str, body: object) -> None:
    path = path.replace("HANDLE", PLAN.screens[0].handle)
    wrong = server.tokens["a01" if "admin" in path else "admin"]
    whole = server.tokens["a01"]
    for token in ("", wrong, whole[:-1], whole + "A", whole.swapcase(), "null", "a01", "admin", "\xe9"):
        reply = server.ask(path, token=token, body=body)
        assert reply.status == 401
        assert reply.body == {"error": "no valid token. Open the link that was sent to you"}
    for header in (whole, f"Basic {whole}", f"bearer{whole}", f"Bearer  {whole}", f"Bearer {whole}, Bearer {whole}"):
        assert server.ask(path, token="", body=body, Authorization=header).status == 401
    assert server.ask(path, token="", body=body, Cookie=f"token={whole}").status == 401
    assert server.ask(f"{path}?token={whole}", token="", body=body).status == 401


def test_a_token_of_another_plan_or_one_that_was_replaced_is_refused(server: Served, tmp_path: Path) -> None:
    with serving(PLAN, tmp_path / "other") as other:
        assert other.ask("/api/state", "a01").status == 200
        assert server.ask("/api/state", token=other.tokens["a01"]).status == 401
    with serving(PLAN, tmp_path / "other") as again:  # everybody gets a new token
        assert again.ask("/api/state", token=other.tokens["a01"]).status == 401
        assert again.ask("/api/admin/progress", token=other.tokens["admin"]).status == 401


def test_an_item_of_somebody_else_is_as_unknown_as_one_that_is_not(server: Served) -> None:
    own, foreign = screens(server, "a01")[0], screens(server, "a02")[0]
    assert server.ask(f"/api/items/{own}", "a01").status == 200
    other, none = (server.ask(f"/api/items/{handle}", "a01") for handle in (foreign, "0" * 24))
    assert (other.status, other.raw) == (none.status, none.raw) == (404, b'{"error":"no such item of yours"}')
    said = server.say("a01", judgment(foreign, RNG))
    assert (said.status, said.raw) == (none.status, none.raw)
    for item in (PLAN.screens[0].item, "../admin", "%2e%2e/state", "1", ""):
        assert server.ask(f"/api/items/{item}", "a01").status in {404, 405}


def test_a_request_that_was_listened_to_does_nothing_for_another(server: Served) -> None:
    heard = judgment(screens(server, "a01")[0], RNG)
    assert server.say("a01", heard).body["outcome"] == "kept"
    assert server.say("a02", heard).status == 404
    assert server.ask("/api/judgments", token="", body=heard).status == 401
    assert server.say("a01", heard).body["outcome"] == "again"
    assert sum(said.id == heard["id"] for said in server.desk.store.every()) == 1  # type: ignore[union-attr]


def test_no_other_site_can_read_or_send(server: Served) -> None:
    handle = screens(server, "a03")[0]
    for path, body in (("/api/state", None), ("/api/judgments", judgment(handle, RNG)), ("/", None)):
        reply = server.ask(path, "a03", body=body, Origin="https://elsewhere.example")
        assert not any(name.startswith("access-control") for name in reply.headers)
        assert "set-cookie" not in reply.headers
    # What a form of another site can send without asking first: no header of its own, and none of these types.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        said = server.ask("/api/judgments", "a03", body=judgment(handle, RNG, revision=2), Content_Type=kind)
        assert said.status in {415, 422}


def test_tokens_lie_on_disk_as_hashes_alone(server: Served) -> None:
    kept = b"".join(path.read_bytes() for path in server.folder.rglob("*") if path.is_file())
    assert PLAN.screens[0].handle.encode() in kept
    for token in server.tokens.values():
        assert token.encode() not in kept
    assert (server.folder / FILE).stat().st_mode & 0o077 == 0


def test_refused_tokens_of_one_address_run_out_and_valid_ones_do_not(tmp_path: Path) -> None:
    with serving(PLAN, tmp_path / "plan", limits=AnnotationLimits(requests=40, refused=5)) as server:
        guessed = [server.ask("/api/state", token=f"guess{number}") for number in range(9)]
        assert [reply.status for reply in guessed] == [401] * 5 + [429] * 4
        assert int(guessed[-1].headers["retry-after"]) >= 1
        asked = [server.ask("/api/state", "a01").status for _ in range(45)]
        assert asked[:40] == [200] * 40
        assert asked[-1] == 429
        assert server.ask("/api/state", "a02").status == 200


@pytest.mark.parametrize("proxy", ["", "127.0.0.1"])
def test_whom_a_request_is_forwarded_for_is_believed_of_the_named_proxy_alone(tmp_path: Path, proxy: str) -> None:
    limits = AnnotationLimits(refused=3)
    with serving(PLAN, tmp_path / "plan", limits=limits, address=ServerAddress(port=0, proxy=proxy)) as server:
        server.tokens["nobody"] = "forged"
        asked = [server.ask("/api/state", "nobody", X_Forwarded_For=f"192.0.2.{number}") for number in range(6)]
        assert [reply.status for reply in asked] == ([401] * 6 if proxy else [401] * 3 + [429] * 3)
        again = [server.ask("/api/state", "nobody", X_Forwarded_For="192.0.2.9").status for _ in range(5)]
        assert again[-1] == 429


# ---------------------------------------------------------------- what is taken


def test_a_judgment_is_kept_changed_and_taken_back(server: Served) -> None:
    handle = screens(server, "a04")[0]
    place = [one["item"] for one in server.state("a04")].index(handle)
    first, second = judgment(handle, RNG, comment="first"), judgment(handle, RNG, revision=2, comment="second")
    undo = {**judgment(handle, RNG, revision=3), "answers": None}
    for said, judged in ((first, True), (second, True), (undo, False)):
        assert server.say("a04", said).body == {"outcome": "kept", "meant": None}
        assert server.state("a04")[place] == {"item": handle, "revision": said["revision"], "judged": judged}
        assert server.ask(f"/api/items/{handle}", "a04").body["said"] == {"answers": said["answers"]}
    late = server.say("a04", judgment(handle, RNG, revision=2))
    assert (late.status, late.body["outcome"]) == (409, "stale")
    reused = server.say("a04", {**second, "answers": judgment(handle, RNG)["answers"]})
    assert (reused.status, reused.body["outcome"]) == (409, "reused")


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"id": "1"}, "id"),
        ({"id": "G" * 32}, "id"),
        ({"revision": 0}, "revision"),
        ({"revision": True}, "revision"),
        ({"revision": "1"}, "revision"),
        ({"seconds": -1}, "seconds"),
        ({"seconds": 1e9}, "seconds"),
        ({"seconds": "NaN"}, "seconds"),
        ({"annotator": "a02"}, "annotator"),
        ({"item": ""}, "item"),
        ({"answers": {}}, "answers"),
        ({"answers": []}, "answers"),
        ({"answers": "a"}, "answers"),
    ],
)
def test_what_is_no_judgment_is_refused_by_the_name_of_the_field(
    server: Served, changes: dict[str, object], names: str
) -> None:
    handle = screens(server, "a05")[0]
    reply = server.say("a05", {**judgment(handle, RNG, comment="do not repeat me"), **changes})
    assert reply.status == 422
    assert names in reply.body["error"]
    assert b"do not repeat" not in reply.raw
    assert not next(one for one in server.state("a05") if one["item"] == handle)["revision"]


@pytest.mark.parametrize(
    "changes",
    [
        {"overall": "A"},
        {"overall": None},
        {"scores_a": {"factuality": 6, "relevance": 1, "helpfulness": 1}},
        {"scores_a": {"factuality": 2.5, "relevance": 1, "helpfulness": 1}},
        {"scores_b": {"factuality": 1}},
        {"comment": "x" * 5001},
        {"task": "four"},
        {"preferred": "A"},
    ],
)
def test_answers_that_do_not_fit_are_refused(server: Served, changes: dict[str, object]) -> None:
    said = judgment(screens(server, "a05")[0], RNG)
    said["answers"] |= changes
    assert server.say("a05", said).status == 422


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"answers":' * 5_000,
        b'{"revision": ' + b"9" * 5_000 + b"}",
        b'{"seconds": NaN}',
        b'{"a": 1, "a": 2}',
    ],
)
def test_what_is_no_json_of_ours_is_refused_and_the_server_goes_on(server: Served, body: bytes) -> None:
    reply = server.ask("/api/judgments", "a05", body=body)
    assert reply.status in {400, 422}
    assert list(reply.body) == ["error"]
    assert server.ask("/api/state", "a05").status == 200


@pytest.mark.parametrize(
    "text", ["\ud800", "\x00", "\u202e\u2066", "\U0001f600" * 2_500, "'; DROP TABLE submissions --"]
)
def test_a_comment_is_kept_as_it_was_written_or_refused(server: Served, text: str) -> None:
    handle = screens(server, "a05")[0]
    said = judgment(handle, RNG, comment=text)
    status = server.say("a05", said).status
    assert status == (422 if text == "\ud800" else 200)
    if status == 200:
        assert server.ask(f"/api/items/{handle}", "a05").body["said"]["answers"]["comment"] == text
        assert server.say("a05", {**judgment(handle, RNG, revision=2), "answers": None}).status == 200


def test_a_body_that_is_too_long_is_refused_whether_it_says_so_or_not(server: Served) -> None:
    said = judgment(screens(server, "a05")[0], RNG)
    padded = json.dumps(said).encode() + b" " * 70_000
    assert server.ask("/api/judgments", "a05", body=padded).status == 413
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    headers = {"Authorization": f"Bearer {server.tokens['a05']}", "Content-Type": "application/json"}
    connection.request("POST", "/api/judgments", iter([padded[:40_000], padded[40_000:]]), headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    assert server.say("a05", said).status == 200


def test_a_connection_that_breaks_in_the_middle_leaves_nothing(server: Served) -> None:
    handle = screens(server, "a06")[0]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    headers = {"Authorization": f"Bearer {server.tokens['a06']}", "Content-Length": "900"}
    send(connection, "/api/judgments", token="", body=json.dumps(judgment(handle, RNG)).encode()[:200], **headers)
    connection.close()
    assert not next(one for one in server.state("a06") if one["item"] == handle)["revision"]


def test_whoever_sends_half_a_request_and_no_more_is_not_waited_for(tmp_path: Path) -> None:
    """Half a head, half a judgment: both connections are closed, and others are served meanwhile."""
    with serving(PLAN, tmp_path / "plan", limits=AnnotationLimits(seconds=3)) as server:
        handle = PLAN.by_annotator["a01"][0].handle
        body = json.dumps(judgment(handle, RNG)).encode()
        head = f"POST /api/judgments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['a01']}\r\n"
        whole = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=240) as first,
            socket.create_connection(("127.0.0.1", server.port), timeout=240) as second,
        ):
            first.sendall(head.encode())
            second.sendall(whole + body[:-1])
            assert server.ask("/api/state", "a01").status == 200
            said = b"".join(iter(lambda: first.recv(65_536), b""))
            assert said.startswith(b"HTTP/1.1 408")
            assert b'{"error": "the head of the request did not arrive' in said
            assert second.recv(65_536) == b""
        assert not next(one for one in server.state("a01") if one["item"] == handle)["revision"]


def test_one_connection_too_many_is_refused(tmp_path: Path) -> None:
    with serving(PLAN, tmp_path / "plan", limits=AnnotationLimits(connections=1)) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=240) as kept:
            kept.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert kept.recv(100).startswith(b"HTTP/1.1 200")
            assert server.ask("/api/state", "a01").status == 503
        while (status := server.ask("/api/state", "a01").status) == 503:
            time.sleep(0.05)
        assert status == 200


# ---------------------------------------------------------------- what is sent


def test_what_others_said_is_sent_to_nobody_but_the_admin(server: Served) -> None:
    canary = "zq-canary-of-a06"
    for handle in screens(server, "a06")[1:4]:
        assert server.say("a06", judgment(handle, RNG, comment=canary)).status == 200
    for name in sorted(set(server.tokens) - {"a06", "admin"}):
        sent = server.ask("/api/state", name).raw
        sent += b"".join(server.ask(f"/api/items/{one.handle}", name).raw for one in PLAN.by_annotator[name])
        assert canary.encode() not in sent
        assert b"a06" not in sent
    assert server.ask("/api/admin/judgments", "admin").raw.count(canary.encode()) == 3


def test_only_an_example_tells_what_was_meant_and_only_once_it_is_judged(server: Served) -> None:
    for screen in PLAN.by_annotator["a02"]:
        shown = server.ask(f"/api/items/{screen.handle}", "a02").body
        assert "meant" not in json.dumps({**shown, "prompt": "", "answers": [], "posts": [], "narrative": ""})
        assert shown["example"] == (screen.kind == "example")
        meant = server.say("a02", judgment(screen.handle, RNG)).body["meant"]
        preferred = PLAN.item[screen.item].preferred
        assert preferred is not None
        assert meant == ("AB"[screen.order.index(preferred)] if screen.kind == "example" else None)
    undone = server.say("a02", {**judgment(PLAN.by_annotator["a02"][0].handle, RNG, revision=2), "answers": None})
    assert undone.body["meant"] is None


def test_an_annotator_is_sent_these_fields_and_no_others(server: Served) -> None:
    fields = "handle number of task mode example prompt answers narrative posts paraphrases said".split()  # noqa: SIM905
    for screen in PLAN.by_annotator["a01"]:
        assert list(server.ask(f"/api/items/{screen.handle}", "a01").body) == fields
    whole = server.ask("/api/state", "a01").body
    assert list(whole) == ["space", "items"]
    assert {tuple(one) for one in whole["items"]} == {("item", "revision", "judged")}


def test_the_arm_decides_whether_the_narrative_is_sent(server: Served) -> None:
    for name, arm in PLAN.arm.items():
        shown = [server.ask(f"/api/items/{one.handle}", name).body for one in PLAN.by_annotator[name][:4]]
        assert all(bool(one["narrative"]) == (arm == "narrative") for one in shown)
        assert all(one["posts"] for one in shown)


def test_the_pages_are_the_same_for_everybody_and_hold_nothing_of_an_item(server: Served) -> None:
    for path in ("/", "/admin"):
        (page,) = {server.ask(path, whose).raw for whose in ("", "a01", "a02", "admin")}
        told = page.decode()
        for item in PLAN.items:
            assert not any(text in told for text in (item.prompt, *item.candidates, *item.posts[:1], item.id))
        assert not any(screen.handle in told for screen in PLAN.screens)


def test_headers_leave_a_browser_little_to_do(server: Served) -> None:
    page, admin = server.ask("/"), server.ask("/admin")
    for reply in (page, admin):
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "*" not in policy
        assert policy.removesuffix("; frame-ancestors 'none'") in reply.raw.decode()
    for reply in (page, admin, server.ask("/api/state", "a01"), server.ask("/api/state"), server.ask("/nowhere")):
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "server" not in reply.headers
    for path in ("/docs", "/redoc", "/openapi.json", "/plan.json", "/judgments.sqlite", "/..%2fplan.json"):
        assert server.ask(path, "admin").status == 404


# ---------------------------------------------------------------- what is kept in the end


def test_the_export_is_read_back_as_every_judgment(server: Served, tmp_path: Path) -> None:
    (tmp_path / "judgments.jsonl").write_bytes(server.ask("/api/admin/judgments", "admin").raw)
    assert read_judgments(PLAN, tmp_path / "judgments.jsonl") == read_judgments(PLAN, server.folder)


def test_four_answers_are_asked_for_and_kept(tmp_path: Path) -> None:
    plan = make_plan(fours(), PlanRequest(3, each=2, items=6), key="k")
    with serving(plan, tmp_path / "plan") as server:
        screen = plan.by_annotator["a02"][-1]
        shown = server.ask(f"/api/items/{screen.handle}", "a02").body
        assert (shown["task"], len(shown["answers"])) == ("four", 4)
        assert server.say("a02", judgment(screen.handle, RNG, task="four")).status == 200
        assert server.say("a02", judgment(screen.handle, RNG, revision=2, task="pair")).status == 422
        (kept,) = read_judgments(plan, server.folder)
        assert kept.answers is not None
        assert kept.answers.task == "four"
