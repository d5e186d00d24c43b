"""The script that starts a reward server and a training together, and ends the one with the other."""

import shlex
from collections.abc import Sequence
from string import Template

_SCRIPT = """#!/usr/bin/env bash
# Starts the reward server and verl together; when either ends, or this script is interrupted, so does the other.
set -euo pipefail
cd "$(dirname "$0")"

# As Hydra reads it; verl's environment needs pluralrm for this and for the rewards.
here="$(python3 -c 'import os; from pluralrm.training.verl.settings import quoted; print(quoted(os.getcwd()))')"
PLURALRM_REWARD_RUN="$(python3 -c 'import uuid; print(uuid.uuid4().hex)')"
export PLURALRM_REWARD_RUN
# The reward server may live in an environment of its own: PLURALRM=/path/to/.venv/bin/pluralrm ./launch.sh
PLURALRM="${PLURALRM:-pluralrm}"
mkdir -p "$OUT_DIR"
: > "$OUT_DIR/server.env" # an earlier training left one, which names its own server

started=()
trap 'kill ${started[@]+"${started[@]}"} 2>/dev/null || true; wait' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

echo "starting the reward server; what it says is in $PWD/$OUT_DIR/server.log" >&2
$MODULES"$PLURALRM" serve $SERVE --run "$PLURALRM_REWARD_RUN" > "$OUT_DIR/server.env" 2> "$OUT_DIR/server.log" &
server=$!
started+=("$server")

until grep -q PLURALRM_REWARD_IDENTITY "$OUT_DIR/server.env"; do
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$OUT_DIR/server.log" >&2
    echo "the reward server did not start" >&2
    exit 3
  fi
  sleep 1
done
source "$OUT_DIR/server.env"

# verl resumes from checkpoints that it finds. What they were trained against has to be what rewards them now.
if [ -d "$OUT_DIR/checkpoints" ] && ! grep -qsx "$PLURALRM_REWARD_IDENTITY" "$OUT_DIR/identity"; then
  echo "the checkpoints in $PWD/$OUT_DIR were trained against another reward server (model, condition or benchmark" >&2
  echo "differs); move that folder away to begin anew" >&2
  exit 5
fi
echo "$PLURALRM_REWARD_IDENTITY" > "$OUT_DIR/identity"

# Hydra writes its own record of the settings beside the checkpoints. Workers of a Ray cluster that runs already have
# another environment and another folder than this script: both are told them.
worker="+ray_kwargs.ray_init.runtime_env.env_vars.PLURALRM_REWARD"
python3 -m verl.trainer.main_ppo hydra.run.dir="$OUT_DIR/hydra" \\
$OVERRIDES \\
  data.train_files="'$here/train.parquet'" \\
  data.val_files="'$here/validation.parquet'" \\
  trainer.default_local_dir="'$here/$OUT_DIR/checkpoints'" \\
  trainer.validation_data_dir="'$here/$OUT_DIR/generations'" \\
  "${worker}_URL='$PLURALRM_REWARD_URL'" \\
  "${worker}_RUN='$PLURALRM_REWARD_RUN'" \\
  "${worker}_IDENTITY='$PLURALRM_REWARD_IDENTITY'" \\
  "$@" &
trainer=$!
started+=("$trainer")

while kill -0 "$trainer" 2>/dev/null; do
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$OUT_DIR/server.log" >&2
    echo "the reward server ended; the training is stopped, for it has no rewards" >&2
    exit 4
  fi
  sleep 1
done
wait "$trainer"
"""


def launch_script(serve: Sequence[str], overrides: Sequence[str], *, out: str, modules: str = "") -> str:
    """Return the script; what it is told is quoted for the shell. `modules` is where the server finds Python's."""
    path = f"PYTHONPATH={shlex.quote(modules)}${{PYTHONPATH:+:$PYTHONPATH}} " if modules else ""
    lines = " \\\n".join(f"  {shlex.quote(one)}" for one in overrides)
    told = {"OVERRIDES": lines, "OUT_DIR": out, "SERVE": shlex.join(serve), "MODULES": path}
    return Template(_SCRIPT).safe_substitute(told)  # in one pass; the shell's own variables stay
