"""Evaluates our task in a process of its own: python -m tests.exchange.child REPLIES.json LOG_DIR [multiple|generate].

Inspect leaves streams open, and its warnings of that are no failures of ours.
"""

import json
import sys
from pathlib import Path

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, multiple_choice

from pluralrm.exchange.inspect import task


def main(replies: str, logs: str, solver: str) -> None:
    said = json.loads(Path(replies).read_text(encoding="utf-8"))

    def reply(messages: list[object], *_: object) -> ModelOutput:
        text = str(getattr(messages[-1], "text", ""))
        output = ModelOutput.from_content("mockllm/model", next(said[key] for key in said if key in text))
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # or else it fetches a tokenizer
        return output

    model = get_model("mockllm/model", custom_outputs=reply)
    solvers = {"multiple": multiple_choice, "generate": generate}
    evaluate(task("pocket-prb"), model=model, solver=solvers[solver](), log_dir=logs, display="none")


if __name__ == "__main__":
    main(*sys.argv[1:])
