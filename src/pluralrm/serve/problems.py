"""What goes wrong, as a client reads it: a status, a type from a small set, and what to do."""

from starlette.responses import JSONResponse, Response


class ProblemError(Exception):
    """An answer that is no score. `retry_after` seconds later the same request may succeed; None: it never will."""

    def __init__(self, status: int, kind: str, detail: str, *, retry_after: float | None = None) -> None:
        self.status, self.kind, self.detail, self.retry_after = status, kind, detail, retry_after
        super().__init__(detail)

    def response(self) -> Response:
        """Return it as JSON."""
        headers = {} if self.retry_after is None else {"retry-after": f"{max(1, round(self.retry_after))}"}
        told = {"error": {"type": self.kind, "message": self.detail, "retry": self.retry_after is not None}}
        return JSONResponse(told, self.status, headers)
