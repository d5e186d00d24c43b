"""Runs the code that is judged, and calls its functions as it is asked to. It knows no test, and decides nothing.

Whatever the code does to this process, it can only change what it answers.
"""

import sys
import types

from pluralrm.validate.inside import UnfitError, decode, encode, limit, open_channel


def main() -> None:
    """Load the code, then answer one request after the other until the process outside has enough."""
    channel = open_channel()
    setup = channel.read()
    limit(setup)
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    raised = _load(module, str(setup["code"]))
    while True:
        request = channel.read()
        channel.write({"turn": request["turn"], **(raised or _answer(module, request))})


def _load(module: types.ModuleType, code: str) -> dict[str, object]:
    try:
        exec(compile(code, "<reply>", "exec"), module.__dict__)  # noqa: S102 - what the sandbox is for
    except BaseException as exc:  # noqa: BLE001 - the code may raise anything, SystemExit too
        return {"raised": _error_json(exc)}
    return {}


def _answer(module: types.ModuleType, request: dict[str, object]) -> dict[str, object]:
    names = request.get("find")
    if isinstance(names, list):
        # A module that the code imports is none of its functions.
        defined = [name for name in names if hasattr(module, name)]
        return {"found": [name for name in defined if type(getattr(module, name)) is not types.ModuleType]}
    try:
        args, kwargs = decode(request["args"]), decode(request["kwargs"])
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            return {"unfit": "arguments that cannot be read"}
        value = getattr(module, str(request["name"]))(*args, **kwargs)
        return {"value": encode(value), "args": encode(args) if value is None else None}
    except UnfitError as exc:
        return {"unfit": str(exc)}
    except BaseException as exc:  # noqa: BLE001 - the code may raise anything, SystemExit too
        return {"raised": _error_json(exc)}


def _error_json(exc: BaseException) -> dict[str, object]:
    """Return the names of an exception's classes, nearest first, and its message."""
    try:
        message = str(exc)[:500]
    except Exception:  # noqa: BLE001 - the message is the code's own
        message = ""
    return {"classes": [kind.__name__ for kind in type(exc).__mro__], "message": message}
