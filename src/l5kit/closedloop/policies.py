"""Policies of reinforcement learning as planners and as traffic: the files that ``l5kit train-rl`` writes."""

from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat


def open_policy(path: str) -> tuple[EgoSeat, str]:
    """Return a policy in its seat, and its digest.

    Raises:
        ModuleNotFoundError: The extra ``rl`` is not installed.
        FileNotFoundError: The training has not ended.
        InvalidArgumentError: The file is broken, or no policy.
        UnsupportedValueError: It was trained with observations or actions that it cannot drive with.
    """
    from l5kit.environment.policy_driver import PolicyDriver  # only policies need stable-baselines3

    driver = PolicyDriver.load(path)
    return driver.seat, driver.digest


def open_agent_policy(path: str) -> tuple[AgentSeat, str]:
    """Return a policy in a seat in which it drives other vehicles, and its digest; raises as :func:`open_policy`."""
    from l5kit.environment.policy_driver import PolicyDriver  # only policies need stable-baselines3

    driver = PolicyDriver.load(path)
    return driver.agent_seat, driver.digest
