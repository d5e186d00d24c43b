"""Means over the tokens that count; what stands at the others, a NaN too, reaches nothing."""

import torch


def total(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the sum where the mask is true."""
    return torch.where(mask, values, 0.0).sum()


def mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean where the mask is true, of at least one value."""
    return total(values, mask) / mask.sum()


def per_row(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return each row's sum where the mask is true: (rows,)."""
    return torch.where(mask, values, 0.0).sum(dim=-1)
