"""Parts that the losses of the planning models have in common."""

import torch


def mean_over_steps(errors: torch.Tensor, available: torch.Tensor, available_only: bool) -> torch.Tensor:
    """Return the mean of weighted errors.

    Args:
        errors: Errors times weights, 0 in steps that are not available, shape (..., T, O).
        available: Above 0 (or True) in the steps that count, shape (..., T).
        available_only: Divide by the number of values in available steps, instead of by the number of all values as
            L5Kit 1.5 does. Without any available step the mean is then 0.

    Returns:
        A scalar.
    """
    if not available_only:
        return errors.mean()
    num_values = (available > 0).sum() * errors.shape[-1]
    return errors.sum() / num_values.clamp(min=1)


def missing_criterion(model: str) -> str:
    """Return the message of the error for a model that was made without a criterion and is to compute a loss."""
    return (
        f"{model} has no criterion, so it cannot compute a loss; give it an element-wise one such as"
        " torch.nn.MSELoss(reduction='none'), or call eval() for predictions"
    )
