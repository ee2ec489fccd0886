"""What is controlled: an Ito SDE  dx = f(x, u) dt + g(x, u) dW  with a reward b(x, u) per unit of time."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ctmle.envs.observation import Observation, ObservationKind

State = Float[Array, " state"]
Control = Float[Array, " control"]
Scalar = Float[Array, ""]


class Spec(eqx.Module):
    """What an agent may know of a system: all but its drift and its diffusion.

    The paper gives the agent the reward b, the start x_ini and the horizon T; the dynamics it must learn. An `Env` has
    its spec ready (`env.spec`); for a plant of your own without equations, fill one in.
    """

    state_reward: Callable[[State, Control], Scalar]
    state_reset: Callable[[PRNGKeyArray], State]
    observation: Observation
    control_low: tuple[float, ...] = eqx.field(static=True)
    control_high: tuple[float, ...] = eqx.field(static=True)
    horizon: float = eqx.field(static=True)

    @property
    def control_size(self) -> int:
        return len(self.control_low)

    def reset(self, key: PRNGKeyArray) -> Float[Array, " observed"]:
        """One draw of the start, as it is observed."""
        return self.observation.encode(self.state_reset(key))

    def reward(self, y: Float[Array, "*batch observed"], u: Float[Array, "*batch control"]) -> Float[Array, "*batch"]:
        """Reward per unit of time at observed states, for any leading batch axes."""
        flat_x = self.observation.decode(y).reshape(-1, self.observation.state_size)
        rewards = jax.vmap(self.state_reward)(flat_x, u.reshape(-1, u.shape[-1]))
        return rewards.reshape(y.shape[:-1])

    def clip(self, u: Float[Array, "*batch control"]) -> Float[Array, "*batch control"]:
        return jnp.clip(u, jnp.asarray(self.control_low, u.dtype), jnp.asarray(self.control_high, u.dtype))


class Env(eqx.Module):
    """A controlled SDE. A system of your own is one subclass: four methods and five attributes.

    `state_names` and `angles` (indices of coordinates that live on a circle) describe the state, `control_low` and
    `control_high` bound the control, `horizon` is T in seconds. Methods take one state and must be pure JAX functions.
    """

    state_names: eqx.AbstractVar[tuple[str, ...]]
    angles: eqx.AbstractVar[tuple[int, ...]]
    control_low: eqx.AbstractVar[tuple[float, ...]]
    control_high: eqx.AbstractVar[tuple[float, ...]]
    horizon: eqx.AbstractVar[float]

    @abstractmethod
    def drift(self, x: State, u: Control) -> State:
        """f(x, u): the expected change of the state per unit of time."""

    @abstractmethod
    def diffusion(self, x: State, u: Control) -> State:
        """g(x, u): the diagonal of the diffusion matrix."""

    @abstractmethod
    def reward(self, x: State, u: Control) -> Scalar:
        """b(x, u): reward per unit of time; at most 1 in the environments here."""

    @abstractmethod
    def reset(self, key: PRNGKeyArray) -> State:
        """A start state x_ini."""

    @property
    def spec(self) -> Spec:
        """What an agent may know, seen in physical coordinates."""
        return self.spec_for("angles")

    def spec_for(self, observation: ObservationKind) -> Spec:
        return Spec(
            state_reward=self.reward,
            state_reset=self.reset,
            observation=Observation(len(self.state_names), self.angles, observation),
            control_low=self.control_low,
            control_high=self.control_high,
            horizon=self.horizon,
        )


def check_noise_and_horizon(sigma: float, unit: float, horizon: float) -> None:
    """The checks that every environment here shares."""
    if not 0 <= sigma < float("inf"):
        raise ValueError(f"sigma must be a finite number of at least 0, not {sigma}")
    if not 0 < unit < float("inf"):
        raise ValueError(f"unit must be a positive number, not {unit}")
    if not 0 < horizon < float("inf"):
        raise ValueError(f"horizon must be a positive number of seconds, not {horizon}")


def constant_diffusion(sigma: float, unit: float, x: State) -> State:
    """g = sigma * unit on every coordinate: how we read the paper's noise N(0, sigma^2 I) 'at every time step'."""
    return jnp.full_like(x, sigma * unit)
