"""Keep the level of a drug in its window: a system of your own, in one class and one loop."""

import jax
import jax.numpy as jnp

from ctmle import CTMLEConfig, EvaluationConfig, agents, envs, evaluate, schedules, simulate


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


env, schedule = Dosing(), schedules.Equidistant(gap=0.5)
agent = agents.CTMLE(CTMLEConfig(ensemble=5, dynamics_hidden=(64, 64), policy_hidden=(64, 64), dynamics_updates=300))
state = agent.init(env.spec, jax.random.key(0))
for n in range(5):  # three trajectories that explore, then two episodes
    state, policy, times = agent.propose(state, schedule)  # believe, plan, decide when to look
    trajectory = simulate(env, policy, times, jax.random.key(n))  # or a real plant
    state = agent.observe(state, trajectory)
score = evaluate(env, agent.policy(state), jax.random.key(9), EvaluationConfig())
print(f"looks: {int(state.data.looks)}, mean reward after 3 s: {score.mean:.3f} (at most 1)")
