"""No prompt is cut: verl loads this class by `data.custom_cls` of the export.

verl itself cuts a prompt that is too long on its left, where the user's posts are, and says so in a warning at most.
"""

from verl.utils.dataset.rl_dataset import RLHFDataset

from pluralrm.errors import BenchmarkError


class WholePrompts(RLHFDataset):  # type: ignore[misc] # verl has no types
    """verl's own data set, which is refused where a prompt has more tokens than there is room for."""

    def maybe_filter_out_long_prompts(self, dataframe: object = None) -> object:
        """Return the rows, all of them; BenchmarkError where verl would leave one out as too long."""
        self.filter_overlong_prompts = True
        rows = super().maybe_filter_out_long_prompts(dataframe)
        if missing := len(dataframe) - len(rows):  # type: ignore[arg-type] # a datasets.Dataset
            files = ", ".join(map(str, self.original_data_files))
            raise BenchmarkError(
                f"{files}: {missing} of {missing + len(rows)} prompts have more than {self.max_prompt_length} tokens, "
                "or the policy has no chat template; show fewer posts, or export with --set prompt_tokens=N"
            )
        return rows
