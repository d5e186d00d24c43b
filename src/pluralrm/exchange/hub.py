"""A repository on the hub: texts of one commit, and a commit or pull request of what changes in them.

The token is that of the hub's own client (`hf auth login`, HF_TOKEN). It is sent to that host alone, and no file,
output or error of ours has it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from typing import Literal, NamedTuple

from pluralrm.errors import MissingExtraError, OutageError, PluralrmError, RunError, ServiceError, SpecError
from pluralrm.folders import hub_failures, is_hub_id
from pluralrm.http.addresses import Secret, parse_address

RepositoryKind = Literal["model", "dataset"]

_MAIN = "main"
_SECONDS = 60.0
_LONGEST = 200
"""Lines of a file's diff that are printed, and characters of a line."""


class HubChange(NamedTuple):
    """A file of a repository before and after."""

    path: str
    before: str
    after: str

    @property
    def diff(self) -> str:
        """What changes, as `diff -u` prints it; the beginning of a long one."""
        files = (f"a/{self.path}", f"b/{self.path}")
        lines = list(unified_diff(self.before.splitlines(), self.after.splitlines(), *files, lineterm=""))
        rest = [f"... {len(lines) - _LONGEST:,} more lines"] * (len(lines) > _LONGEST)
        return "\n".join(
            [*(f"{line[:_LONGEST]}{'…' * (len(line) > _LONGEST)}" for line in lines[:_LONGEST]), *rest, ""]
        )


@dataclass(frozen=True, slots=True)
class HubBranch:
    """Texts of a repository at one commit: of its main branch, or of an open pull request of ours."""

    revision: str
    commit: str | None
    """None for a repository without any."""
    texts: Mapping[str, str]
    """By path; a file that is not there is an empty text."""

    def changes(self, texts: Mapping[str, str]) -> list[HubChange]:
        """Return which files differ from these texts."""
        pairs = [HubChange(path, self.texts[path], text) for path, text in texts.items()]
        return [change for change in pairs if change.before != change.after]


class HubRepository:
    """A repository that exists, on the host of HF_ENDPOINT. Making one asks the hub nothing."""

    def __init__(self, name: str, kind: RepositoryKind) -> None:
        if not is_hub_id(name) or "@" in name:
            raise SpecError(f"{name!r} is no repository on the hub; wanted OWNER/NAME")
        try:
            from huggingface_hub import HfApi, constants, get_token
        except ImportError as exc:
            raise MissingExtraError("Pushing to the hub", "hub") from exc
        self._address = parse_address(constants.ENDPOINT)
        self._name, self._kind = name, kind
        self._secret = Secret("HF_TOKEN", "")
        with self._failures():
            token = get_token()
        if token and not self._address.guarded:
            raise ServiceError(f"{self._address.url} would get the hub's token unencrypted; wanted https://")
        self._secret = Secret("HF_TOKEN", token or "")
        self._token = token or False
        self._api = HfApi(endpoint=self._address.url, token=self._token, library_name="pluralrm")

    @property
    def target(self) -> str:
        """Host and path of the repository."""
        return f"{self._address.url.partition('://')[2]}/{'datasets/' * (self._kind == 'dataset')}{self._name}"

    def account(self, *, required: bool = True) -> str:
        """Return whose token it is; ServiceError without one, or '' where none is required."""
        if not self._token:
            if required:
                raise ServiceError(
                    f"no token for {self.target}: log in with 'hf auth login' or set HF_TOKEN. --dry-run needs none"
                )
            return ""
        with self._failures():
            return str(self._api.whoami()["name"])

    def branch(self, paths: Sequence[str], *, author: str = "", title: str = "") -> HubBranch:
        """Return texts of the author's open pull request of that title, or where there is none of the main branch."""
        with self._failures():
            revision = self._open_request(author, title) if author and title else _MAIN
            look_up = self._api.model_info if self._kind == "model" else self._api.dataset_info
            info = look_up(self._name, revision=revision)
            files = {file.rfilename for file in info.siblings or ()}
            texts = {path: self._text(path, info.sha or revision) if path in files else "" for path in paths}
        return HubBranch(revision, info.sha, texts)

    def _open_request(self, author: str, title: str) -> str:
        requests = self._api.get_repo_discussions(
            self._name, repo_type=self._kind, author=author, discussion_type="pull_request", discussion_status="open"
        )
        numbers = (each.num for each in requests if (each.author, each.title) == (author, title))
        return next((f"refs/pr/{number}" for number in numbers), _MAIN)

    def _text(self, path: str, revision: str) -> str:
        """Return a file's text, its line ends as they are. Nothing is kept in the cache of the hub's client."""
        from huggingface_hub import get_session, hf_hub_url

        url = hf_hub_url(self._name, path, repo_type=self._kind, revision=revision, endpoint=self._address.url)
        headers = {"Authorization": self._secret.header()} if self._token else {}
        response = get_session().get(url, headers=headers, timeout=_SECONDS)
        response.raise_for_status()
        try:
            return response.content.decode()
        except UnicodeDecodeError as exc:
            reason = f"{exc.reason} at byte {exc.start:,}"
            raise RunError(f"{path} of {self.target} is not UTF-8 ({reason}); save it as UTF-8") from exc

    def commit(self, base: HubBranch, changes: Sequence[HubChange], title: str, *, propose: bool = False) -> str:
        """Commit changes onto the commit that they were made from, or `propose` them; return the page of it.

        ServiceError where the repository has changed meanwhile.
        """
        from huggingface_hub import CommitOperationAdd

        with self._failures():
            info = self._api.create_commit(
                self._name,
                [CommitOperationAdd(change.path, change.after.encode()) for change in changes],
                commit_message=title,
                repo_type=self._kind,
                revision=base.revision,
                parent_commit=base.commit,
                create_pr=propose and base.revision == _MAIN,
            )
        return info.pr_url or info.commit_url

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Name what the hub's client raises inside."""
        kinds: tuple[type[Exception], ...] = (*hub_failures(), RuntimeError)
        try:
            yield
        except PluralrmError:
            raise
        except kinds as exc:
            # Not `from exc`: its request has the token.
            raise self._failure(exc) from None

    def _failure(self, exc: Exception) -> ServiceError:
        status = getattr(getattr(exc, "response", None), "status_code", None)
        hint = _HINTS.get(status or 0, "")
        if status == 404 or (status == 401 and not self._token):
            make = f"hf repos create {self._name} --type {self._kind}"
            hint = f"no such {self._kind}, or not for this account to read; '{make}' makes one"
        cause = exc.__cause__ if isinstance(exc, RuntimeError) else None  # of an upload of a large file
        reason = self._secret.hide(" ".join(str(cause or exc).split()))[:160]
        message = f"{self.target}: {hint or 'the hub refused'} ({reason})"
        down = status is None and isinstance(exc, OSError | hub_failures()[0])
        if down or status == 429 or (status or 0) >= 500:
            return OutageError(f"{self.target}: no answer ({reason}). Nothing is known to have changed", status)
        return ServiceError(message, status)


_CHANGED = "the repository has changed meanwhile; the same command reads it again"
_HINTS = {
    401: "the token is not accepted; log in again with 'hf auth login', or set HF_TOKEN",
    403: "this token may not write there; wanted one with write access, or a pull request: --pr",
    409: _CHANGED,
    412: _CHANGED,
}
