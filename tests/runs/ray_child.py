"""Children for tests of Ray: `python -m tests.runs.ray_child VERB ARGUMENT...`.

score OUT ON   the runs of the kill test on a cluster
listen         a cluster of our own: what its processes listen on, and what their environment says of tokens and reports
"""

import json
import os
import sys
from pathlib import Path

import pluralrm
from tests.builders import bakery

SLOW = "python:tests.builders:SlowLength,milliseconds=6"
MODELS, CONDITIONS = [SLOW, "longest", "bm25"], ["none", "recent:2"]


def score(out: str, on: str = "") -> None:
    pluralrm.score(bakery(400), MODELS, CONDITIONS, out=out, on=on, progress=False)


def descendants(process: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    family = [process]
    for member in family:
        family += parents.get(member, [])
    return family


def listening(processes: list[int]) -> list[str]:
    """Return the addresses, as the kernel writes them, on which these processes take connections."""
    owned = set()
    for process in processes:
        try:
            owned |= {str(file.readlink()) for file in Path(f"/proc/{process}/fd").iterdir()}
        except OSError:
            continue
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in owned:
                addresses.append(fields[1].partition(":")[0])
    return addresses


def servers(processes: list[int]) -> dict[str, list[str]]:
    """Return what the environment of each of Ray's servers says of Ray, by the server's file.

    Workers and agents write their title over what /proc shows of them; they are left out, and so is what is no server.
    """
    files = {}
    for process in processes:
        try:
            arguments = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
            environment = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
        except OSError:
            continue
        for argument in arguments[:3]:
            if "/site-packages/ray/" in argument:
                files[Path(argument).name] = sorted(line for line in environment if line.startswith("RAY_"))
    return files


def listen() -> None:
    from pluralrm.cluster import Cluster

    with Cluster("ray") as cluster:
        cluster.map(pow, [(2, 3)])
        ours = descendants(os.getpid())
        sys.stdout.write(json.dumps({"listening": listening(ours), "servers": servers(ours)}))


if __name__ == "__main__":
    if sys.argv[1] == "score":
        score(*sys.argv[2:])
    else:
        listen()
