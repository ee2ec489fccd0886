"""Is this environment one that can be learned? Says what is wrong with it, method by method."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctmle.envs.base import Env

SAMPLES = 8
REACH = 0.5
"""Methods are tried at start states moved by up to this much in every coordinate, and at the bounds of the control."""


def check_env(env: Any) -> None:
    """Raises ValueError with one line per problem: the attribute or method to fix, and how.

    Looks at attributes, then tries each method as the library will: by itself, compiled, over a batch, twice with the
    same arguments, and through its derivatives.
    """
    if not isinstance(env, Env):
        raise ValueError(
            f"{type(env).__name__} is not a ctmle.envs.Env: subclass it and write drift, diffusion, reward and reset;"
            " a plant without equations needs no Env (drive it with propose and observe)"
        )
    problems = list(_attributes(env)) or list(_methods(env)) or list(_memory(env)) or list(_kinematics(env))
    if problems:
        name = type(env).__name__
        raise ValueError("\n".join(f"{name}.{problem}" for problem in problems))


def _attributes(env: Env) -> Iterator[str]:
    names, size = env.state_names, len(env.state_names)
    if size == 0 or not all(isinstance(name, str) for name in names) or len(set(names)) < size:
        yield f"state_names: name every coordinate of the state, each once, not {names!r}"
    if not all(isinstance(i, int) and 0 <= i < size for i in env.angles) or len(set(env.angles)) < len(env.angles):
        yield f"angles: give indices of coordinates from 0 to {size - 1}, each once, not {env.angles!r}"
    low, high = np.asarray(env.control_low, float), np.asarray(env.control_high, float)
    if low.ndim != 1 or low.size == 0 or low.shape != high.shape:
        yield "control_low: control_low and control_high need one number for each control"
    elif not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low < high)):
        yield f"control_low: must be finite and below control_high, not {env.control_low} to {env.control_high}"
    pairs = env.kinematics
    if any(len(pair) != 2 or not all(isinstance(i, int) and 0 <= i < size for i in pair) for pair in pairs):
        yield f"kinematics: give pairs of indices of coordinates from 0 to {size - 1}, not {pairs!r}"
    elif len({position for position, _ in pairs}) < len(pairs):
        yield f"kinematics: gives two derivatives of the same coordinate: {pairs!r}"
    if not 0 < env.horizon < float("inf"):
        yield f"horizon: must be a positive number of seconds, not {env.horizon!r}"
    elif env.hold is not None and not 0 < env.hold <= env.horizon:
        yield f"hold: must be a positive number of seconds, at most the horizon {env.horizon:g}, not {env.hold!r}"
    if not 0 <= env.sensor_noise < float("inf"):
        yield f"sensor_noise: must be a number of at least 0, not {env.sensor_noise!r}"


def _methods(env: Env) -> Iterator[str]:
    size = len(env.state_names)
    key = jax.random.key(0)
    problem = _problem("reset", env.reset, (key,), [(size,)])
    if problem:
        yield problem
        return
    states, controls = _points(env)
    shapes = {"drift": [(size,)], "diffusion": [(size,), (size, size)], "reward": [()]}
    if env.has_goal:
        shapes["goal"] = [()]
    for name, allowed in shapes.items():
        problem, columns = None, (states,) if name == "goal" else (states, controls)
        for arguments in zip(*columns, strict=True):
            problem = problem or _problem(name, getattr(env, name), arguments, allowed)
        problem = problem or _batched(name, getattr(env, name), columns)
        if problem:
            yield problem
        elif name == "diffusion" and _has_negative_diagonal(env, states, controls):
            yield "diffusion: is negative at some states; give the diagonal of g, which is at least 0, or the matrix g"


def _kinematics(env: Env) -> Iterator[str]:
    states, controls = _points(env)
    drifts = np.asarray(jax.vmap(env.drift)(states, controls))
    for position, velocity in env.kinematics:
        if not np.allclose(drifts[:, position], states[:, velocity], rtol=1e-4, atol=1e-5):
            names = env.state_names
            yield (
                f"kinematics: says that the derivative of '{names[position]}' is '{names[velocity]}', and drift says"
                " otherwise; leave the pair out"
            )


def _has_negative_diagonal(env: Env, states: jax.Array, controls: jax.Array) -> bool:
    """Tell whether a diffusion that is given by its diagonal is negative. A matrix may have negative entries."""
    g = jax.vmap(env.diffusion)(states, controls)
    return g.ndim == states.ndim and bool(jnp.any(g < 0))


def _memory(env: Env) -> Iterator[str]:
    """Look for state in Python that calls change: a method must give what it gave before, and what it was traced to."""
    methods = {name: getattr(env, name) for name in ("drift", "diffusion", "reward")}
    states, controls = _points(env)
    first = (states[0], controls[0])
    before = {name: np.asarray(method(*first)) for name, method in methods.items()}
    for x, u in zip(states, controls, strict=True):
        env.reset(jax.random.key(2))
        for method in methods.values():
            method(x, u)
    for name, method in methods.items():
        if not np.array_equal(before[name], np.asarray(method(*first))):
            yield (
                f"{name}: gives another value after other methods were called; it must not read what they change: keep"
                " everything that changes in the state"
            )


def _points(env: Env) -> tuple[jax.Array, jax.Array]:
    """States around the start, and controls at their bounds and between."""
    start_key, move_key, control_key = jax.random.split(jax.random.key(1), 3)
    starts = jnp.stack([env.reset(key) for key in jax.random.split(start_key, SAMPLES)])
    moves = jax.random.uniform(move_key, starts.shape, starts.dtype, -REACH, REACH).at[0].set(0.0)
    low, high = jnp.asarray(env.control_low), jnp.asarray(env.control_high)
    shares = jax.random.uniform(control_key, (SAMPLES, low.size)).at[0].set(0.0).at[1].set(1.0)
    return starts + moves, low + shares * (high - low)


def _problem(
    name: str, method: Callable[..., Any], arguments: tuple[Any, ...], allowed: list[tuple[int, ...]]
) -> str | None:
    """What is wrong with one call, by itself and compiled."""
    try:
        value = method(*arguments)
    except Exception as error:
        return f"{name}: raises {_said(error)}"
    if not isinstance(value, jax.Array | np.ndarray | np.generic | float):
        return f"{name}: must give a JAX array, not {type(value).__name__}"
    value = np.asarray(value)
    if value.shape not in allowed:
        return f"{name}: must give shape {' or '.join(map(str, allowed))}, not {value.shape}"
    kind, wanted = (np.bool_, "true or false") if name == "goal" else (np.floating, "floating-point numbers")
    if not np.issubdtype(value.dtype, kind):
        return f"{name}: must give {wanted}, not {value.dtype}"
    where = "" if name == "reset" else f" at state {np.asarray(arguments[0]).tolist()}"
    if not np.all(np.isfinite(value)):
        return f"{name}: is NaN or inf{where}"
    if not np.array_equal(value, np.asarray(method(*arguments))):
        return f"{name}: gives another value for the same arguments{where}; take randomness from the key alone"
    try:
        compiled = np.asarray(jax.jit(method)(*arguments))
    except Exception as error:
        return f"{name}: cannot be compiled ({_said(error)}); write it with jax.numpy, and jnp.where in place of if"
    if not np.allclose(compiled, value, rtol=1e-3, atol=1e-4):
        return f"{name}: gives another value when compiled{where}; it must be a pure function of its arguments"
    return None if name in ("reset", "goal") else _slopes(name, method, arguments, where)


def _slopes(name: str, method: Callable[..., Any], arguments: tuple[Any, ...], where: str) -> str | None:
    """Planning differentiates the reward, and the oracle the dynamics."""
    slopes = jax.jacfwd(method, argnums=(0, 1))(*arguments)
    if not all(np.all(np.isfinite(np.asarray(slope))) for slope in slopes):
        return f"{name}: its derivative is NaN or inf{where}; look for sqrt, abs, norm or arccos at their edges"
    return None


def _batched(name: str, method: Callable[..., Any], columns: tuple[jax.Array, ...]) -> str | None:
    singly = np.stack([np.asarray(method(*arguments)) for arguments in zip(*columns, strict=True)])
    try:
        together = np.asarray(jax.vmap(method)(*columns))
    except Exception as error:
        return f"{name}: cannot be taken over a batch by jax.vmap ({_said(error)})"
    if not np.allclose(together, singly, rtol=1e-3, atol=1e-4):
        return f"{name}: gives other values over a batch by jax.vmap; it must treat each state by itself"
    return None


def _said(error: Exception) -> str:
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]}" if first else type(error).__name__
