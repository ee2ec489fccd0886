"""Example classes that make the paper's claims visible. `noise` scales the diffusion and arms are policies.

A class is hard only if a wrong model promises a better policy and data under one policy says nothing about the others.
Most classes are therefore products: every arm has its own unknown, and the models are all combinations.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ctmle.settings import Positive
from ctmle.theory.exact.classes import FiniteClass, LinearClass, linear_class
from ctmle.theory.exact.lattice import saturated
from ctmle.theory.exact.linear import Bump, Spiral, matrix_law
from ctmle.theory.limits import check
from ctmle.training.double import in_double

HORIZON = 4.0
"""T of every class, in seconds."""


@in_double
def hidden_arm(noise: float, separation: float, arms: int = 4, horizon: float = HORIZON) -> LinearClass:
    """dx = (-x + theta_u) dt + noise dW; theta in {0, e, 2e}^arms, truth (0, ..., 0, e), goal 1.

    In some model each arm goes to 2e. A smaller e takes longer to rule out and costs less regret per episode.
    """
    check(Positive, noise=noise, separation=separation, horizon=horizon)
    variants, truth, reward = [3] * arms, [0] * (arms - 1) + [1], _bump([1.0], [0.5], horizon)
    pushes = separation * np.arange(3.0)[:, None]
    return _arms(variants, truth, reward, np.zeros(1), decay=1.0, push=pushes, noise=noise)


@in_double
def speed(
    noise: float,
    known: float = 12.0,
    speeds: tuple[float, float] = (6.0, 60.0),
    arms: int = 4,
    horizon: float = HORIZON,
) -> LinearClass:
    """dx = -k_u x dt + noise sqrt(2 k_u) dW from 1 to the goal 0.

    Arm 0 has the known speed. The others have the first of `speeds`, but the second, which would beat arm 0, is
    possible too. All speeds have the same stationary law, so looks that are far apart cannot distinguish them.
    """
    check(Positive, noise=noise, horizon=horizon)
    rates = np.array([[known, known]] + [list(speeds)] * (arms - 1))
    variants, reward = [1] + [2] * (arms - 1), _bump([0.0], [0.3], horizon)
    return _arms(variants, [0] * arms, reward, np.ones(1), decay=rates, noise=noise * np.sqrt(2 * rates))


@in_double
def rotation(noise: float, gap: float, arms: int = 4, horizon: float = HORIZON) -> LinearClass:
    """dz = (-0.1 + i w_u) z dt + noise dW in the plane, from 1 with the goal at 1; w in 2 pi {0, 1, 2} / gap.

    Arm 0 is known to turn slowly; the others turn twice per gap. Looks on the grid, and on a grid of half the gap,
    cannot distinguish that from not turning at all, which would be better.
    """
    check(Positive, noise=noise, gap=gap, horizon=horizon)
    turns = 2 * math.pi / gap * np.array([[0.0] * 3] + [[2.0, 0.0, 1.0]] * (arms - 1))
    turns[0] = 0.5
    variants, goal = [1] + [3] * (arms - 1), np.array([1.0, 0.0])
    return _arms(variants, [0] * arms, _bump(goal, [0.5, 0.5], horizon), goal, decay=0.1, turn=turns, noise=noise)


@in_double
def volatility(noise: float, ratio: float = 1.3, arms: int = 4, horizon: float = HORIZON) -> LinearClass:
    """dx = -x dt + s_u dW with the goal 0 at the start; s in noise * {1, ratio}, and in truth the larger.

    Arm 0 has a known volatility between the two. Only the diffusion is unknown in this class.
    """
    check(Positive, noise=noise, horizon=horizon)
    if ratio <= 1:
        raise ValueError(f"ratio must be above 1 (the truth is the larger volatility), not {ratio}")
    levels = noise * np.array([[math.sqrt(ratio)] * 2] + [[ratio, 1.0]] * (arms - 1))
    variants, reward = [1] + [2] * (arms - 1), _bump([0.0], [0.5], horizon)
    return _arms(variants, [0] * arms, reward, np.zeros(1), decay=1.0, noise=levels)


@in_double
def feedback(noise: float, horizon: float = HORIZON) -> LinearClass:
    """A cart with linear feedback and unknown motor, friction and noise; data under one policy informs about all.

    dx = v dt, dv = (-c v + k u) dt + g dW; k in {0.5, 1, 2}, c in {0.2, 1}, g in noise * {1, 1.5}, truth (1, 0.2, 1);
    policies u = K_1 (1 - x) - K_2 v for five pairs of gains and the constant u = 0.5; reward for x near 1. The best
    damping depends on motor and friction.
    """
    check(Positive, noise=noise, horizon=horizon)
    gains = [(4.0, 0.5), (4.0, 1.0), (4.0, 2.0), (4.0, 4.0), (2.0, 1.0), (0.0, 0.0)]
    constants = np.array([0.0] * 5 + [0.5])
    models = list(itertools.product((0.5, 1.0, 2.0), (0.2, 1.0), (1.0, 1.5)))
    drift, push, spread = (np.zeros((len(gains), len(models), *shape)) for shape in ((2, 2), (2,), (2, 2)))
    for (u, (k_x, k_v)), (i, (motor, friction, level)) in itertools.product(enumerate(gains), enumerate(models)):
        drift[u, i] = [[0.0, 1.0], [-motor * k_x, -friction - motor * k_v]]
        push[u, i] = [0.0, motor * (k_x + constants[u])]
        spread[u, i, 1, 1] = noise * level
    laws = matrix_law(jnp.asarray(drift), jnp.asarray(push), jnp.asarray(spread), horizon)
    which = np.repeat(np.arange(len(models))[:, None], len(gains), axis=1)
    truth, reward = models.index((1.0, 0.2, 1.0)), _bump([1.0, 0.0], [0.3, np.inf], horizon)
    return linear_class(laws, which, truth, reward, np.zeros(2))


CLASSES: dict[str, Callable[[float, float, float], FiniteClass]] = {
    "hidden-arm": lambda noise, gap, separation: hidden_arm(noise, separation),
    "speed": lambda noise, gap, separation: speed(noise),
    "rotation": lambda noise, gap, separation: rotation(noise, gap),
    "volatility": lambda noise, gap, separation: volatility(noise),
    "feedback": lambda noise, gap, separation: feedback(noise),
    "saturated": lambda noise, gap, separation: saturated(noise),
}
"""Builders by name. All take (noise, gap, separation) and ignore what their class does not have."""


def _arms(
    variants: list[int],
    truth: list[int],
    reward: Bump,
    start: Float[np.ndarray, " size"],
    *,
    decay: float | np.ndarray,
    noise: float | np.ndarray,
    push: float | np.ndarray = 0.0,
    turn: float | np.ndarray = 0.0,
) -> LinearClass:
    """Class of all combinations of the arms' variants; `truth` has the true variant of every arm.

    The constants of the spirals are numbers or tables that broadcast to [arms, variants] (`push`: [.., size]).
    """
    table = (len(variants), max(variants))
    shapes = (table, table, (*table, len(start)), table)
    constants = (jnp.asarray(constant, float) for constant in (decay, turn, push, noise))
    laws = Spiral(*map(jnp.broadcast_to, constants, shapes))
    combinations = [list(model) for model in itertools.product(*(range(n) for n in variants))]
    return linear_class(laws, np.array(combinations), combinations.index(truth), reward, start)


def _bump(goal: Sequence[float] | np.ndarray, width: Sequence[float], horizon: float) -> Bump:
    return Bump(jnp.asarray(goal, float), jnp.asarray(width, float), horizon)
