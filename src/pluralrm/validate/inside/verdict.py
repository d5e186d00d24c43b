"""How tests end: with a verdict that stands, whatever they catch."""


class VerdictError(BaseException):
    """Ends the tests with a verdict. Not an Exception: a test that catches one must not catch this."""

    def __init__(self, kind: str, reason: str) -> None:
        self.kind, self.reason = kind, reason
        super().__init__(kind, reason)


DECIDED: list[VerdictError] = []
"""The first verdict stands, also where a bare `except` in the tests has caught it."""


def decide(kind: str, reason: str) -> VerdictError:
    """Return the end of the tests, to be raised: `wrong`; `unsupported`, for a reason that lies in them; else `fit`."""
    DECIDED.append(VerdictError(kind, reason))
    return DECIDED[0]
