"""Keep the level of a drug in its window: a system of your own in one class, and five lines that learn to do it."""

import jax
import jax.numpy as jnp

import ctmle
from ctmle import agents, envs, models, planning, schedules


class Dosing(envs.Env):
    """Blood and tissue levels: dosed into the blood at a rate u, exchanged, cleared, and noisy."""

    state_names: tuple[str, ...] = ("blood", "tissue")
    angles: tuple[int, ...] = ()
    control_low: tuple[float, ...] = (0.0,)
    control_high: tuple[float, ...] = (3.0,)
    horizon: float = 8.0

    def drift(self, x, u):
        exchange = 0.8 * (x[0] - x[1])
        return jnp.stack([u[0] - 0.5 * x[0] - exchange, exchange - 0.2 * x[1]])

    def diffusion(self, x, u):
        return 0.05 * jnp.ones(2)

    def reward(self, x, u):
        return jnp.exp(-4.0 * (x[1] - 1.0) ** 2)  # the tissue level should be 1

    def reset(self, key):
        return jnp.zeros(2)


if __name__ == "__main__":
    learner = models.SDELearner(members=5, updates=300, model=models.DiagonalNetwork(hidden=(64, 64)))
    agent = agents.CTMLE(learner, planning.ActorCritic(hidden=(64, 64)))
    result = ctmle.train(Dosing(), agent, schedules.Equidistant(gap=0.5), episodes=2)
    score = ctmle.evaluate(Dosing(), result.policy, jax.random.key(9))
    print(f"looks: {int(result.data.looks)}, mean reward after 3 s: {score.mean:.3f} (at most 1)")
