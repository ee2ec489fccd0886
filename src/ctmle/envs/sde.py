"""One step of a diagonal Ito SDE: the same for the true system and for a learned one."""

from collections.abc import Callable

from jaxtyping import Array, Float

States = Float[Array, "*batch state"]
VectorField = Callable[[Float[Array, "..."], States], States]


def sde_step(
    drift: VectorField,
    diffusion: VectorField,
    t: Float[Array, "..."],
    x: States,
    dt: Float[Array, "..."],
    dw: States,
) -> States:
    """Heun for the drift, Euler-Maruyama for the noise.

    Strong order 1 for additive noise and 1/2 otherwise, weak order 1, and second order in the drift alone.
    """
    spread = diffusion(t, x) * dw
    here = drift(t, x)
    there = drift(t + dt, x + here * dt + spread)
    return x + 0.5 * (here + there) * dt + spread
