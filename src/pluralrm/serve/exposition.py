"""The server's counters in the text format of Prometheus."""

from collections.abc import Iterator, Mapping

from pluralrm.serve.batching import Counters
from pluralrm.serve.connections import Doors

_EDGES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Latencies:
    """How long requests took, counted by how long: Prometheus reckons with counts that only grow."""

    def __init__(self) -> None:
        self.within = dict.fromkeys(_EDGES, 0)
        self.count, self.sum = 0, 0.0

    def add(self, seconds: float) -> None:
        """Count one request."""
        self.count += 1
        self.sum += seconds
        for edge in self.within:
            self.within[edge] += seconds <= edge


def exposition(
    counters: Counters,
    answered: Mapping[tuple[str, int], int],
    *,
    latencies: Latencies,
    queued: int,
    doors: Doors,
) -> str:
    """Return everything that was counted."""
    return "\n".join([*_lines(counters, answered, queued, doors), *_histogram(latencies), ""])


def _lines(counters: Counters, answered: Mapping[tuple[str, int], int], queued: int, doors: Doors) -> Iterator[str]:
    yield "# TYPE pluralrm_requests_total counter"
    for (route, status), count in sorted(answered.items()):
        yield f'pluralrm_requests_total{{route="{_escaped(route)}",status="{status}"}} {count}'
    numbers = {
        "pluralrm_candidates_total": counters.candidates,
        "pluralrm_candidates_computed_total": counters.distinct,
        "pluralrm_batches_total": counters.batches,
        "pluralrm_queries_total": counters.queries,
        "pluralrm_broken_queries_total": counters.broken,
        "pluralrm_repeated_calls_total": counters.again,
        "pluralrm_refused_total": counters.refused,
        "pluralrm_late_total": counters.late,
        "pluralrm_connections_refused_total": doors.refused,
        "pluralrm_connections_slow_total": doors.slow,
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


def _histogram(found: Latencies) -> Iterator[str]:
    yield "# TYPE pluralrm_request_seconds histogram"
    for edge, count in found.within.items():
        yield f'pluralrm_request_seconds_bucket{{le="{edge:g}"}} {count}'
    yield f'pluralrm_request_seconds_bucket{{le="+Inf"}} {found.count}'
    yield f"pluralrm_request_seconds_sum {found.sum:.6f}"
    yield f"pluralrm_request_seconds_count {found.count}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
