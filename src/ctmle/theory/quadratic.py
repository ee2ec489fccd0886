"""The quadratic density of the construction example for prop:qua, and the SDE that has it.

p(y | t) = sqrt(2/pi) exp(-2 y^2) q^2 with q = cos t + 2 y sin t and diffusion 1. The paper leaves the drift as an
integral, but it has a closed form. With the node n(t) = -cot(t)/2, where the density vanishes, and r = y - n(t):

    f(y, t) = -2 y + 2 sin t / q + (y sin 2t + cos 2t) / q^2  =  -2 y + (1 + cot(t)/2) / r - 1 / (4 r^2)

The term -1/(4 r^2) pulls all mass that the moving node meets across it, from right to left.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from ctmle.settings import Positive
from ctmle.theory.limits import AtLeastOne, check

Points = Float[np.ndarray, " points"]
Times = Float[np.ndarray, " times"]
Advance = Callable[[Points, float, float], Points]

NEAR = 1.0
"""Distance from the node within which the drift is split and its singular part is integrated exactly."""


def density(y: Points, t: float) -> Points:
    """Density p(y | t)."""
    return math.sqrt(2 / math.pi) * np.exp(-2 * y**2) * _amplitude(y, t) ** 2


def distribution(y: Points, t: float) -> Points:
    """CDF of `density`."""
    bump = np.exp(-2 * y**2) / math.sqrt(2 * math.pi)
    return ndtr(2 * y) - bump * (2 * math.sin(t) ** 2 * y + math.sin(2 * t))


def drift(y: Points, t: float) -> Points:
    """Drift of the Fokker-Planck equation for diffusion 1. It divides no tiny tails, so it is accurate everywhere."""
    q = _amplitude(y, t)
    return -2 * y + 2 * math.sin(t) / q + (y * math.sin(2 * t) + math.cos(2 * t)) / q**2


def simulate(
    times: Times, samples: int, *, step: float = 5e-4, seed: int = 0, advance: Advance | None = None
) -> Float[np.ndarray, "times samples"]:
    """Samples of the SDE at increasing `times` in (0, pi), started from p(. | 0).

    `advance(y, t, h)` makes a step without its noise. Near the node the default splits it into the exact flow of
    -1/(4 r^2), a cube root that passes through zero, the exact flow of (1 + cot(t)/2) / r, and the rest.
    """
    check(AtLeastOne, samples=samples)
    check(Positive, step=step)
    if times[0] <= 0 or times[-1] >= math.pi or np.any(np.diff(times) <= 0):
        raise ValueError("times must increase strictly between 0 and pi, where the node is on the line")
    advance = advance or _split_step
    random = np.random.default_rng(seed)
    y, t, seen = 0.5 * random.standard_normal(samples), 0.0, []
    for end in times:
        steps = math.ceil((end - t) / step)
        h = (end - t) / steps
        for k in range(steps):
            y = advance(y, t + k * h, h) + math.sqrt(h) * random.standard_normal(samples)
        t = float(end)
        seen.append(y)
    return np.stack(seen)


def simulate_plainly(
    times: Times, samples: int, *, step: float = 5e-4, seed: int = 0
) -> Float[np.ndarray, "times samples"]:
    """Samples by plain Euler-Maruyama, to show that it overshoots at the node."""
    return simulate(times, samples, step=step, seed=seed, advance=lambda y, t, h: y + h * drift(y, t))


def _split_step(y: Points, t: float, h: float) -> Points:
    middle = t + h / 2
    node, pull = -0.5 / math.tan(middle), 1 + 0.5 / math.tan(middle)
    r = y - node
    through = np.cbrt(r**3 - 0.75 * h)
    away = np.sign(through) * np.sqrt(np.maximum(through**2 + 2 * h * pull, 0.0))
    near = np.abs(r) < NEAR
    far = np.where(near, node + NEAR, y)
    return np.where(near, node + away - 2 * h * y, y + h * drift(far, middle))


def _amplitude(y: Points, t: float) -> Points:
    return math.cos(t) + 2 * y * math.sin(t)
