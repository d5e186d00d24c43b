"""The server's counters in the text format of Prometheus."""

from collections.abc import Iterator, Mapping, Sequence

from pluralrm.serve.batching import Counters

_EDGES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


def exposition(
    counters: Counters, answered: Mapping[tuple[str, int], int], queued: int, seconds: Sequence[float]
) -> str:
    """Return everything that was counted; `seconds` are those of the latest requests."""
    return "\n".join([*_lines(counters, answered, queued), *_latencies(seconds), ""])


def _lines(counters: Counters, answered: Mapping[tuple[str, int], int], queued: int) -> Iterator[str]:
    yield "# TYPE pluralrm_requests_total counter"
    for (route, status), count in sorted(answered.items()):
        yield f'pluralrm_requests_total{{route="{_escaped(route)}",status="{status}"}} {count}'
    numbers = {
        "pluralrm_candidates_total": counters.candidates,
        "pluralrm_candidates_computed_total": counters.distinct,
        "pluralrm_batches_total": counters.batches,
        "pluralrm_queries_total": counters.queries,
        "pluralrm_refused_total": counters.refused,
        "pluralrm_late_total": counters.late,
    }
    for name, count in numbers.items():
        yield f"# TYPE {name} counter"
        yield f"{name} {count}"
    yield "# TYPE pluralrm_scoring_seconds_total counter"
    yield f"pluralrm_scoring_seconds_total {counters.seconds:.6f}"
    yield "# TYPE pluralrm_failures_total counter"
    for kind, count in sorted(counters.failures.items()):
        yield f'pluralrm_failures_total{{kind="{kind}"}} {count}'
    yield "# TYPE pluralrm_queued_candidates gauge"
    yield f"pluralrm_queued_candidates {queued}"


def _latencies(seconds: Sequence[float]) -> Iterator[str]:
    yield "# HELP pluralrm_request_seconds of the latest requests, ten thousand at most"
    yield "# TYPE pluralrm_request_seconds histogram"
    for edge in _EDGES:
        yield f'pluralrm_request_seconds_bucket{{le="{edge:g}"}} {sum(one <= edge for one in seconds)}'
    yield f'pluralrm_request_seconds_bucket{{le="+Inf"}} {len(seconds)}'
    yield f"pluralrm_request_seconds_sum {sum(seconds):.6f}"
    yield f"pluralrm_request_seconds_count {len(seconds)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
