"""What is controlled: an Ito SDE  dx = f(x, u) dt + g(x, u) dW  with a reward b(x, u) per unit of time."""

from abc import abstractmethod
from collections.abc import Callable
from inspect import signature
from typing import Annotated, Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ctmle.envs.observation import Observation, ObservationKind
from ctmle.registry import ENVIRONMENTS, no_such
from ctmle.settings import Limit, NonNegative, Positive, SettingError, check_limits

State = Float[Array, " state"]
Noise = State | Float[Array, "state state"]
Control = Float[Array, " control"]
Scalar = Float[Array, ""]
States = Float[Array, "*batch state"]
Observed = Float[Array, "*batch observed"]
VectorField = Callable[[Float[Array, "..."], States], States]
NoiseField = Callable[[Float[Array, "..."], States], States | Float[Array, "*batch state state"]]
Correlation = Annotated[float, Limit("strictly between -1 and 1", -1.0, 1.0, open_low=True, open_high=True)]


class Sensor(eqx.Module):
    """Measurement of an observed state at a look."""

    @abstractmethod
    def measure(self, y: Observed, key: PRNGKeyArray) -> Observed:
        """Draw a measurement of the state."""


class Exact(Sensor):
    """The state itself, without noise."""

    def measure(self, y: Observed, key: PRNGKeyArray) -> Observed:
        return y


class NoisySensor(Sensor):
    """Every observed coordinate with independent normal noise of the same standard deviation."""

    noise: float = eqx.field(static=True)

    def measure(self, y: Observed, key: PRNGKeyArray) -> Observed:
        return y + self.noise * jax.random.normal(key, y.shape, y.dtype)


def sensor_with(noise: float) -> Sensor:
    """Return the sensor whose noise has this standard deviation."""
    return NoisySensor(noise) if noise > 0 else Exact()


class Spec(eqx.Module):
    """Everything about a system that an agent may know: all but its drift and its diffusion.

    The paper gives the agent the reward b, the start x_ini and the horizon T; it must learn the dynamics. `env.spec` is
    the spec of an `Env`; for a plant of your own without equations, fill one in.
    """

    state_reward: Callable[[State, Control], Scalar] | None
    """None: the reward is not known, and has to be learned from what the plant pays."""
    state_reset: Callable[[PRNGKeyArray], State] | None
    """None: what is known of starts is where episodes started."""
    observation: Observation
    control_low: tuple[float, ...] = eqx.field(static=True)
    control_high: tuple[float, ...] = eqx.field(static=True)
    horizon: float = eqx.field(static=True)
    sensor: Sensor = Exact()
    kinematics: tuple[tuple[int, int], ...] = eqx.field(static=True, default=())
    """Pairs of state coordinates (i, j) where the derivative of coordinate i is coordinate j, but for noise."""
    hold: float | None = eqx.field(static=True, default=None)
    """Seconds for which a control is held, from a measurement to the next one; none: control is continuous."""
    state_goal: Callable[[State], Bool[Array, ""]] | None = None
    """Whether a state is where it should be; none: the reward alone says so."""
    state_hazard: Callable[[State, Control], Scalar] | None = None
    """The rate at which episodes end by themselves; none: it is not known, or they never do."""

    @property
    def control_size(self) -> int:
        return len(self.control_low)

    def reset(self, key: PRNGKeyArray) -> Float[Array, " observed"]:
        """Draw a start, as it is observed. Starts must be known."""
        assert self.state_reset is not None  # callers ask only then
        return self.observation.encode(self.state_reset(key))

    def reward(self, y: Float[Array, "*batch observed"], u: Float[Array, "*batch control"]) -> Float[Array, "*batch"]:
        """Compute the reward per unit of time at observed states, for any leading batch axes. It must be known."""
        assert self.state_reward is not None  # callers ask only then
        return self._at_states(self.state_reward, y, u)

    def hazard(self, y: Float[Array, "*batch observed"], u: Float[Array, "*batch control"]) -> Float[Array, "*batch"]:
        """Compute the rate of ends at observed states, for any leading batch axes. It must be known."""
        assert self.state_hazard is not None  # callers ask only then
        return self._at_states(self.state_hazard, y, u)

    def _at_states(
        self,
        function: Callable[[State, Control], Scalar],
        y: Float[Array, "*batch observed"],
        u: Float[Array, "*batch control"],
    ) -> Float[Array, "*batch"]:
        flat_x = self.observation.decode(y).reshape(-1, self.observation.state_size)
        return jax.vmap(function)(flat_x, u.reshape(-1, u.shape[-1])).reshape(y.shape[:-1])

    def reached(self, y: Float[Array, "*batch observed"]) -> Bool[Array, "*batch"]:
        """Tell which observed states are at the goal, for any leading batch axes. There must be a goal."""
        assert self.state_goal is not None  # callers ask only then
        flat_x = self.observation.decode(y).reshape(-1, self.observation.state_size)
        return jax.vmap(self.state_goal)(flat_x).reshape(y.shape[:-1])

    def clip(self, u: Float[Array, "*batch control"]) -> Float[Array, "*batch control"]:
        return jnp.clip(u, jnp.asarray(self.control_low, u.dtype), jnp.asarray(self.control_high, u.dtype))


class Env(eqx.Module):
    """A controlled SDE. A system of your own is one subclass: four methods and five attributes.

    `state_names` and `angles` (indices of coordinates that live on a circle) describe the state, `control_low` and
    `control_high` bound the control, `horizon` is T in seconds. Methods take one state and must be pure JAX functions.
    Other fields are settings of the system: limits in their types (`ctmle.settings`) are checked. Two of them every
    system has: `hold` and `sensor_noise`. `goal` is optional.
    """

    tuned: ClassVar[dict[str, dict[str, Any]]] = {}
    """Options that suit this system: for every agent under "", for one agent under its name, and for one preset of an
    agent under "AGENT PRESET"."""
    kinematics: ClassVar[tuple[tuple[int, int], ...]] = ()
    """Pairs (i, j) of coordinates where the derivative of coordinate i is coordinate j: only the other drifts are
    learned. The noise of all coordinates is."""

    hold: Positive | None = eqx.field(static=True, default=None, kw_only=True)
    """Seconds for which a control is held: a digital controller measures the state at every tick of this period. None:
    control is continuous, and sees the state itself at every instant."""
    sensor_noise: NonNegative = eqx.field(static=True, default=0.0, kw_only=True)
    """Standard deviation of the normal noise in every coordinate of a look, and of what a held control is computed
    from."""

    state_names: eqx.AbstractVar[tuple[str, ...]]
    angles: eqx.AbstractVar[tuple[int, ...]]
    control_low: eqx.AbstractVar[tuple[float, ...]]
    control_high: eqx.AbstractVar[tuple[float, ...]]
    horizon: eqx.AbstractVar[float]

    def __check_init__(self) -> None:
        check_limits(self)

    @abstractmethod
    def drift(self, x: State, u: Control) -> State:
        """f(x, u): the expected change of the state per unit of time."""

    @abstractmethod
    def diffusion(self, x: State, u: Control) -> Noise:
        """g(x, u): the diffusion matrix, or its diagonal."""

    @abstractmethod
    def reward(self, x: State, u: Control) -> Scalar:
        """b(x, u): reward per unit of time; at most 1 in the environments here."""

    @abstractmethod
    def reset(self, key: PRNGKeyArray) -> State:
        """A start state x_ini."""

    def goal(self, x: State) -> Bool[Array, ""] | None:
        """Whether x is where it should be, for the success rule `goal`. None: this system has no such rule."""
        return None

    @property
    def has_goal(self) -> bool:
        return type(self).goal is not Env.goal

    @property
    def spec(self) -> Spec:
        """The spec in physical coordinates."""
        return self.spec_for("angles")

    def spec_for(self, observation: ObservationKind) -> Spec:
        return Spec(
            state_reward=self.reward,
            state_reset=self.reset,
            observation=Observation(len(self.state_names), self.angles, observation),
            control_low=self.control_low,
            control_high=self.control_high,
            horizon=self.horizon,
            sensor=sensor_with(self.sensor_noise),
            kinematics=self.kinematics,
            hold=self.hold,
            state_goal=cast(Any, self.goal) if self.has_goal else None,
        )


class NoisyEnv(Env):
    """An environment with the same constant noise level for every coordinate, and settings for it and the horizon.

    This is our reading of the paper's noise 'at every time step'. Subclasses replace the defaults that do not suit.
    """

    sigma: NonNegative = eqx.field(static=True, default=2.0)
    """[sigma] Noise level; the diffusion is sigma * unit on every coordinate."""
    unit: Positive = eqx.field(static=True, default=0.1)
    """Diffusion per sigma, such that sigma = 2 is hard but solvable."""
    horizon: Positive = eqx.field(static=True, default=10.0)
    """[T] Length of an episode and of each test trajectory, in seconds."""
    correlation: Correlation = eqx.field(static=True, default=0.0)
    """Correlation of the noise between every two coordinates."""

    def __check_init__(self) -> None:
        check_limits(self)
        size = len(self.state_names)
        # The smallest eigenvalue of a matrix with equal correlations is the smaller of 1 - c and 1 + (size - 1) c.
        if not 1 + (size - 1) * self.correlation > 0:
            wanted = f"above {-1 / (size - 1):.4g} (-1/{size - 1}) with {size} coordinates"
            raise SettingError(type(self).__name__, "correlation", "correlation", wanted, self.correlation)

    def diffusion(self, x: State, u: Control) -> Noise:
        level, size = self.sigma * self.unit, x.shape[-1]
        if self.correlation == 0:
            return jnp.full_like(x, level)
        correlations = np.full((size, size), self.correlation) + (1 - self.correlation) * np.eye(size)
        return jnp.asarray(level * np.linalg.cholesky(correlations), x.dtype)


def make(name: str, **settings: Any) -> Env:
    """Make the environment of that name. Raises ValueError, with a near match, for an unknown name or setting."""
    kind = ENVIRONMENTS.load(name)
    known = list(signature(kind).parameters)
    for setting in settings:
        if setting not in known:
            raise ValueError(no_such(f"setting of '{name}'", setting, known))
    return kind(**settings)


def sde_step(
    drift: VectorField,
    diffusion: NoiseField,
    t: Float[Array, "..."],
    x: States,
    dt: Float[Array, "..."],
    dw: States,
) -> States:
    """Take one step of an Ito SDE, true or learned: Heun for the drift, Euler-Maruyama for the noise.

    Strong order 1 for additive noise and 1/2 otherwise, weak order 1, and second order in the drift alone.
    """
    noise = spread(diffusion(t, x), dw)
    here = drift(t, x)
    there = drift(t + dt, x + here * dt + noise)
    return x + 0.5 * (here + there) * dt + noise


def spread(g: Float[Array, "..."], dw: States) -> States:
    """Return g dW, for a matrix g or the diagonal of one."""
    return jnp.sum(g * dw[..., None, :], axis=-1) if g.ndim > dw.ndim else g * dw
