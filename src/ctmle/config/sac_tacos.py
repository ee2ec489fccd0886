"""Settings of SAC-TaCoS."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SacTacosConfig:
    """Soft actor-critic that decides what to do and for how long (Treven et al., 2024)."""

    initial_trajectories: int = 3
    """[N_0] Trajectories of random decisions before the first episode."""
    trajectories_per_episode: int = 1
    """[N_inc] Trajectories added after each episode."""

    tick: float = 0.05
    """Unit of holds in seconds."""
    min_hold: int = 1
    """[t_min] Shortest hold in ticks."""
    max_hold: int = 30
    """[t_max] Longest hold in ticks."""
    switch_cost: float = 0.002
    """[c] What a decision costs, in units of reward times seconds. Large: long holds, few looks."""
    gamma: float = 0.99
    """Discount per tick; the discount of a hold is exp(-beta * hold) with exp(-beta * tick) = gamma."""
    bootstrap_at_horizon: bool = True
    """The horizon is a time limit, and value beyond it counts. Otherwise it is the end, and nothing comes after."""

    hidden: tuple[int, ...] = (64, 64)
    """Hidden widths of actor and critics (ReLU; the critics' layers are normalised)."""
    updates_per_decision: float = 10.0
    """Gradient steps per decision."""
    batch: int = 128
    """Decisions per gradient step."""
    replay_capacity: int = 65_536
    """Newest decisions to learn from."""
    policies_kept: int = 32
    """Newest trajectories that are kept with their policies."""
    actor_rate: float = 1e-3
    """Learning rate of the actor."""
    critic_rate: float = 1e-3
    """Learning rate of the critics."""
    temperature_rate: float = 1e-3
    """Learning rate of the entropy's temperature."""
    initial_temperature: float = 0.1
    """The temperature to start with."""
    target_entropy: float = -0.5
    """Entropy that the policy is held to, per dimension of an action (its controls and its hold)."""
    target_rate: float = 0.02
    """[tau] How far the target critics move towards the critics at each gradient step."""
    pessimism: float = 0.0
    """How far values lean from the twin critics' mean (0) to their minimum (1)."""
    reward_scale: float = 20.0
    """Rewards are multiplied by this before they are learned from."""
    gradient_clip: float = 10.0
    """Largest norm of a gradient."""

    chunk: int = 500
    """Gradient steps per compiled call: how often progress is shown."""
