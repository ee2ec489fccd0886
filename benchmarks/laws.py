"""Error and cost of transition laws by gap, against simulated densities, and the parameters that they recover.

    python benchmarks/laws.py [--starts 30] [--paths 20000] [--seed 0] [--quick]
    python benchmarks/laws.py --check

Three closed loops: Pendulum under a learned policy, Pendulum under a hand-written energy swing-up with a sharp switch
to linear feedback near the top, and CartPole under a learned policy. Looks start on trajectories of the closed loop,
at random times; their ends are drawn from the true SDE.

The truth is a simulated likelihood (Pedersen, 1995): from each start, `--paths` paths (CartPole: 5 times as many, for
its four dimensions) run in steps of 1/128 s until min(gap / 2, 1/16) s before the end of the gap. The density is the
mean over paths of the law by linearised moments over that last piece. A jackknife over two halves of the paths removes
the leading bias of the log of a mean; the halves also give the standard error of each column. `--check` compares this
estimate with the closed form on linear systems, and with last pieces of half the length on the three systems.

Errors are mean excess nats per look, log p_true - log p_law clipped at +-50, and in brackets the 90% quantile over
starts. `+ tail` mixes a law with 2% of a normal around the start of the gap, as wide as the data moves. The integral of
a density is the mean of p_law / p_true over looks: 1 for a normalised law. Cost is the time of value and gradient for
a network of the default size, over 250 gaps, relative to linearised moments at the same gap. Last, parameters of the
true form (theta' = w, w' = a sin(theta) + b u) fitted by Adam to 8000 looks at 1/2 s and 4000 at 1 s. The full run
takes about half an hour on one core.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg
from jaxtyping import Array, Float, PRNGKeyArray

import ctmle
from ctmle.agents import Oracle
from ctmle.envs import CartPole, Env, Pendulum
from ctmle.envs.base import sde_step
from ctmle.envs.observation import wrap_angle
from ctmle.models import SDE, Bridge, DiagonalNetwork, EulerCovariance, Gap, Law, LinearisedMoments
from ctmle.planning.actor_critic import ActorCritic
from ctmle.plants.simulated import simulate_many
from ctmle.schedules.base import Looks

GAPS = (0.125, 0.25, 0.5, 1.0)
STEP = 1 / 128
LAST_PIECE = 1 / 16
BLOCK = 5000
"""Paths per compiled call."""
CARTPOLE_FACTOR = 5

MOMENTS, BRIDGE = LinearisedMoments(), Bridge()
LAWS: dict[str, Law] = {
    "euler": EulerCovariance(),
    "moments": MOMENTS,
    "bridge": BRIDGE,
    "bridge, 2 passes": Bridge(passes=2),
    "bridge, 5 passes, 1/32 s": Bridge(passes=5, segment=0.03125),
}
TAILED = ("moments", "bridge", "bridge, 5 passes, 1/32 s")
FITTED = ("moments", "bridge")
TAIL = 0.02
WORST = 50.0
"""Nats per look beyond which errors are clipped."""

COST_BATCH, COST_REPEATS = 250, 7
PARAMETERS = ("a", "b", "g_theta", "g_w")
TRUE_VALUES = np.array([15.0, 3.0, 0.2, 0.2])
FIRST_GUESS = np.array([12.0, 2.4, 0.4, 0.4])
FIT_LOOKS = {0.5: 8000, 1.0: 4000}
"""At 1/2 s a look tells little of g_w: 2000 of them leave a standard error of 7%."""
FIT_UPDATES, FIT_RATE = 250, 0.03


class TrueForm(SDE):
    """The SDE of an environment, for any leading batch axes."""

    env: Env

    def drift(self, y: Array, u: Array) -> Array:
        return jnp.vectorize(self.env.drift, signature="(n),(m)->(n)")(y, u)

    def diffusion(self, y: Array, u: Array) -> Array:
        return jnp.vectorize(self.env.diffusion, signature="(n),(m)->(n)")(y, u)


class PendulumForm(SDE):
    """The pendulum's SDE with unknown parameters, given by the logarithms of a, b and both diffusions."""

    logs: Float[Array, " 4"]

    def drift(self, y: Array, u: Array) -> Array:
        a, b = jnp.exp(self.logs[:2])
        return jnp.stack([y[..., 1], a * jnp.sin(y[..., 0]) + b * u[..., 0]], axis=-1)

    def diffusion(self, y: Array, u: Array) -> Array:
        return jnp.broadcast_to(jnp.exp(self.logs[2:]), y.shape)


class EnergySwingUp(eqx.Module):
    """Pump the pendulum's energy up to that of the top; within 0.4 rad of the top, switch to linear feedback."""

    def __call__(self, t: Array, y: Array) -> Array:
        theta, w = wrap_angle(y[..., 0]), y[..., 1]
        missing = 15.0 * (1 - jnp.cos(theta)) - 0.5 * w**2
        push = jnp.where(jnp.abs(theta) < 0.4, -10.0 * theta - 2.5 * w, missing * jnp.where(w >= 0, 1.0, -1.0))
        return jnp.clip(push, -2.0, 2.0)[..., None]


class NoControl(eqx.Module):
    def __call__(self, t: Array, y: Array) -> Array:
        return jnp.zeros((*y.shape[:-1], 1), y.dtype)


class Linear(Env):
    """dx = A x dt + level dW, whose transition density is known."""

    rows: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    level: float = eqx.field(static=True)
    state_names: tuple[str, ...] = eqx.field(static=True)
    angles: tuple[int, ...] = eqx.field(static=True, default=())
    control_low: tuple[float, ...] = eqx.field(static=True, default=(-1.0,))
    control_high: tuple[float, ...] = eqx.field(static=True, default=(1.0,))
    horizon: float = eqx.field(static=True, default=10.0)

    def drift(self, x: Array, u: Array) -> Array:
        return jnp.asarray(self.rows) @ x

    def diffusion(self, x: Array, u: Array) -> Array:
        return jnp.full_like(x, self.level)

    def reward(self, x: Array, u: Array) -> Array:
        return jnp.zeros(())

    def reset(self, key: PRNGKeyArray) -> Array:
        return jax.random.normal(key, (len(self.rows),))

    def log_prob(self, y: np.ndarray, y_next: np.ndarray, gap: float) -> np.ndarray:
        """Compute the closed form, by Van Loan's block exponential."""
        a, n = np.array(self.rows), len(self.rows)
        block = np.block([[-a, self.level**2 * np.eye(n)], [np.zeros((n, n)), a.T]])
        exponential = scipy.linalg.expm(block * gap)
        flow = exponential[n:, n:].T
        covariance = flow @ exponential[:n, n:]
        residual = y_next - y @ flow.T
        square = np.sum(residual * np.linalg.solve(covariance, residual[..., None])[..., 0], axis=-1)
        return -0.5 * (square + np.linalg.slogdet(2 * np.pi * covariance)[1])


class System(eqx.Module):
    """A closed loop, and how many paths its true densities take."""

    name: str = eqx.field(static=True)
    env: Env
    policy: Any
    paths: int = eqx.field(static=True)

    @property
    def sde(self) -> SDE:
        return TrueForm(self.env)

    def control(self, t: Array, y: Array) -> Array:
        return self.env.spec.clip(self.policy(t, y))

    def residual(self, y: Array, mean: Array) -> Array:
        return self.env.spec.observation.residual(y, mean)


class Pairs(eqx.Module):
    """Looks at both ends of gaps of one length."""

    y: Float[Array, "looks observed"]
    y_next: Float[Array, "looks observed"]
    gap: float = eqx.field(static=True)


class Tail(eqx.Module):
    """A normal around the start of each gap, as wide as data with this gap moves."""

    ceiling: Float[Array, " observed"]
    """Root mean square of increments, per square root of a second."""

    @staticmethod
    def of(system: System, pairs: Pairs) -> "Tail":
        moved = system.residual(pairs.y_next, pairs.y)
        return Tail(jnp.sqrt(jnp.mean(moved**2, axis=0) / pairs.gap))

    def mixed(self, system: System, pairs: Pairs, log_prob: Array, log_weight: Array | float) -> Array:
        scale = self.ceiling * math.sqrt(pairs.gap)
        far = jax.scipy.stats.norm.logpdf(system.residual(pairs.y_next, pairs.y), scale=scale).sum(-1)
        return jnp.logaddexp(jnp.log1p(-jnp.exp(log_weight)) + log_prob, log_weight + far)


@dataclass(frozen=True)
class Truth:
    """Simulated log-densities of looks, by the two halves of the paths and by all of them."""

    halves: np.ndarray
    whole: np.ndarray

    @property
    def log_prob(self) -> np.ndarray:
        return 2 * self.whole - self.halves.mean(axis=0)

    @property
    def standard_error(self) -> np.ndarray:
        """Return that of the mean over all looks, by gap. Looks of one start share their paths."""
        of_starts = 0.5 * (self.halves[0] - self.halves[1]).mean(axis=-1)
        return np.sqrt(np.sum(of_starts**2, axis=-1)) / of_starts.shape[-1]


@dataclass(frozen=True)
class Sample:
    """Looks of a system, by gap, start and end, with their true log-densities."""

    system: System
    starts: Float[Array, "starts observed"]
    ends: Float[Array, "gaps starts ends observed"]
    truth: Truth

    def pairs(self, gap: float) -> Pairs:
        ends = self.ends[GAPS.index(gap)]
        starts = jnp.broadcast_to(self.starts[:, None], ends.shape)
        return Pairs(starts.reshape(-1, ends.shape[-1]), ends.reshape(-1, ends.shape[-1]), gap)

    def by_start(self, values: Array) -> np.ndarray:
        return np.asarray(values, np.float64).reshape(self.ends.shape[1:3])


def say(message: str) -> None:
    print(f"[{time.perf_counter() - BEGUN:5.0f} s] {message}", file=sys.stderr, flush=True)


BEGUN = time.perf_counter()


def gap_of(system: System, pairs: Pairs) -> Gap:
    none, observation = jnp.zeros(len(pairs.y)), system.env.spec.observation
    seconds = none + pairs.gap
    return Gap(system.control, none, pairs.y, seconds, pairs.gap, end=pairs.y_next, observation=observation)


@eqx.filter_jit
def log_probs(law: Law, system: System, pairs: Pairs) -> Float[Array, " looks"]:
    found, residual = law.seen(system.sde, gap_of(system, pairs))
    return found.log_prob(residual)


def fine_path(system: System, y: Array, steps: int, key: PRNGKeyArray) -> Array:
    """Return where paths from points y are after so many fine steps."""
    sde = system.sde

    def drift(t: Array, y: Array) -> Array:
        return sde.drift(y, system.control(t, y))

    def diffusion(t: Array, y: Array) -> Array:
        return sde.diffusion(y, system.control(t, y))

    def step(y: Array, i: Array) -> tuple[Array, None]:
        dw = math.sqrt(STEP) * jax.random.normal(jax.random.fold_in(key, i), y.shape)
        return sde_step(drift, diffusion, jnp.zeros(y.shape[:-1]), y, jnp.asarray(STEP), dw), None

    return jax.lax.scan(step, y, jnp.arange(steps))[0]


@eqx.filter_jit
def block_density(system: System, start: Array, ends: Array, longest: float, key: PRNGKeyArray) -> Array:
    """Estimate the log-densities of the ends (by gap) of gaps from one start, by one block of paths.

    Gaps share their paths; the law by linearised moments covers the last piece, of at most `longest` seconds.
    """
    y, done, found = jnp.broadcast_to(start, (BLOCK, len(start))), 0, []
    law = LinearisedMoments(longest_step=STEP)
    for number, gap in enumerate(GAPS):
        last = min(gap / 2, longest)
        steps = round((gap - last) / STEP)
        y, done = fine_path(system, y, steps - done, jax.random.fold_in(key, number)), steps
        none = jnp.zeros(BLOCK)
        kernel = law(system.sde, Gap(system.control, none, y, none + last, last))

        def at(end: Array, kernel: Any = kernel) -> Array:
            return jax.nn.logsumexp(kernel.log_prob(system.residual(end, kernel.mean))) - math.log(BLOCK)

        found.append(jax.lax.map(at, ends[number]))
    return jnp.stack(found)


def simulated_truth(system: System, starts: Array, ends: Array, key: PRNGKeyArray, longest: float) -> Truth:
    half = max(1, round(system.paths / (2 * BLOCK)))
    found = []
    for number, start in enumerate(starts):
        keys = jax.random.split(jax.random.fold_in(key, number), 2 * half)
        found.append([block_density(system, start, ends[:, number], longest, k) for k in keys])
    blocks = np.asarray(found, np.float64).reshape(len(starts), 2, half, len(GAPS), -1)
    blocks = np.moveaxis(blocks, 0, 3)  # halves, blocks, gaps, starts, ends

    def mean(logs: np.ndarray, axis: int) -> np.ndarray:
        return np.logaddexp.reduce(logs, axis=axis) - math.log(logs.shape[axis])

    halves = mean(blocks, 1)
    return Truth(halves, mean(halves, 0))


def trajectories(system: System, gap: float, count: int, key: PRNGKeyArray) -> Array:
    """Simulate trajectories with looks so far apart: shape (trajectories, looks, observed)."""
    times = gap * jnp.arange(round(system.env.horizon / gap) + 1)
    looks = Looks(times)
    return simulate_many(system.env, system.policy, looks, jax.random.split(key, count), step=STEP).states


def data(system: System, gap: float, count: int, key: PRNGKeyArray) -> Pairs:
    """Return so many consecutive looks of trajectories."""
    per_trajectory = round(system.env.horizon / gap)
    states = trajectories(system, gap, math.ceil(count / per_trajectory), key)
    size = states.shape[-1]
    return Pairs(states[:, :-1].reshape(-1, size)[:count], states[:, 1:].reshape(-1, size)[:count], gap)


def sampled(system: System, starts: int, ends: int, key: PRNGKeyArray, longest: float = LAST_PIECE) -> Sample:
    start_key, time_key, end_key, truth_key = jax.random.split(key, 4)
    states = trajectories(system, 0.125, starts, start_key)
    chosen = states[jnp.arange(starts), jax.random.randint(time_key, (starts,), 0, states.shape[1] - 1)]
    run = eqx.filter_jit(fine_path)
    many = jnp.repeat(chosen, ends, axis=0)
    later = [run(system, many, round(gap / STEP), jax.random.fold_in(end_key, n)) for n, gap in enumerate(GAPS)]
    there = jnp.stack(later).reshape(len(GAPS), starts, ends, -1)
    return Sample(system, chosen, there, simulated_truth(system, chosen, there, truth_key, longest))


def learned(env: Env, seed: int, *, episodes: int, updates: int) -> Any:
    agent = Oracle(env, ActorCritic(hidden=(32, 32), updates=updates, bootstrap_episodes=1))
    result = ctmle.train(env, agent, episodes=episodes, seed=seed)
    say(f"policy of {type(env).__name__}: score {result.records[-1]['score']:.3f}")
    return result.policy


def systems(seed: int, paths: int, quick: bool) -> list[System]:
    pendulum, cartpole = Pendulum(), CartPole()
    updates = 150 if quick else 300
    return [
        System("N: Pendulum, learned policy", pendulum, learned(pendulum, seed, episodes=4, updates=updates), paths),
        System("E: Pendulum, energy swing-up", pendulum, EnergySwingUp(), paths),
        System(
            "C: CartPole, learned policy",
            cartpole,
            learned(cartpole, seed, episodes=3, updates=updates),
            paths if quick else CARTPOLE_FACTOR * paths,
        ),
    ]


def excess(sample: Sample) -> dict[str, dict[float, np.ndarray]]:
    """Compute log p_true - log p_law of each law, by gap, for every start and end."""
    found: dict[str, dict[float, np.ndarray]] = {}
    for number, gap in enumerate(GAPS):
        pairs = sample.pairs(gap)
        truth, tail = sample.truth.log_prob[number], Tail.of(sample.system, pairs)
        for name, law in LAWS.items():
            log_prob = log_probs(law, sample.system, pairs)
            found.setdefault(name, {})[gap] = truth - sample.by_start(log_prob)
            if name in TAILED:
                mixed = tail.mixed(sample.system, pairs, log_prob, math.log(TAIL))
                found.setdefault(f"{name} + tail", {})[gap] = truth - sample.by_start(mixed)
    return found


def error_cell(differences: np.ndarray) -> str:
    clipped = np.clip(np.nan_to_num(differences, nan=WORST), -WORST, WORST)
    starts = clipped.mean(axis=-1)
    return f"{starts.mean():.3f} ({np.quantile(starts, 0.9):.3f})"


def integral_cell(differences: np.ndarray) -> str:
    ratios = np.exp(np.clip(-differences, -WORST, WORST)).mean(axis=-1)
    return f"{ratios.mean():.3f} +- {ratios.std(ddof=1) / math.sqrt(len(ratios)):.3f}"


def print_table(title: str, columns: list[str], rows: dict[str, list[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name, cells in rows.items():
        print(f"| {' | '.join([name, *cells])} |")
    sys.stdout.flush()


def print_errors(sample: Sample) -> dict[str, str]:
    """Print a system's table; return the integral of each density at 1/2 s."""
    found = excess(sample)
    rows = {name: [error_cell(values[gap]) for gap in GAPS] for name, values in found.items()}
    rows["standard error of the truth"] = [f"{error:.4f}" for error in sample.truth.standard_error]
    looks = math.prod(sample.ends.shape[1:3])
    title = f"{sample.system.name}: excess nats per look, {looks} looks, {sample.system.paths} paths a start"
    print_table(title, ["law", *(f"{gap:g} s" for gap in GAPS)], rows)
    return {name: integral_cell(values[0.5]) for name, values in found.items()}


def value_and_gradient(law: Law, system: System, pairs: Pairs) -> Callable[[SDE], Any]:
    def loss(sde: SDE) -> Array:
        found, residual = law.seen(sde, gap_of(system, pairs))
        return -jnp.mean(found.log_prob(residual))

    return eqx.filter_jit(eqx.filter_value_and_grad(loss))


def seconds_of(call: Callable[[], Any], calls: int) -> float:
    begun = time.perf_counter()
    for _ in range(calls):
        jax.block_until_ready(call())
    return (time.perf_counter() - begun) / calls


def costs(system: System, key: PRNGKeyArray, repeats: int) -> dict[str, list[str]]:
    """Time each law next to linearised moments; the last row has the latter's milliseconds."""
    rows: dict[str, list[str]] = {name: [] for name in LAWS}
    ensemble, milliseconds = DiagonalNetwork().init(system.env.spec, key, 1), []
    network = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, ensemble.stacked)
    for gap in GAPS:
        pairs = data(system, gap, COST_BATCH, key)
        calls = {name: value_and_gradient(law, system, pairs) for name, law in LAWS.items()}
        spent: dict[str, list[float]] = {name: [] for name in LAWS}
        for call in calls.values():
            jax.block_until_ready(call(network))
        for _ in range(repeats):
            for name, call in calls.items():
                spent[name].append(seconds_of(lambda call=call: call(network), 2))
        base = np.array(spent["moments"])
        milliseconds.append(f"{1e3 * np.median(base):.2f}")
        for name, times in spent.items():
            rows[name].append(f"{np.median(np.array(times) / base):.1f}")
    return {**rows, "moments, milliseconds": milliseconds}


@eqx.filter_jit
def fitted(law: Law, system: System, pairs: Pairs, tail: Tail | None, updates: int) -> Float[Array, " 4"]:
    """Maximise the likelihood of all pairs by Adam. A tail of weight eps is phased in, as eps^(1 / phase)."""
    optimiser = optax.adam(optax.cosine_decay_schedule(FIT_RATE, updates, 0.01))

    def loss(logs: Array, step: Array) -> Array:
        found, residual = law.seen(PendulumForm(logs), gap_of(system, pairs))
        log_prob = found.log_prob(residual)
        if tail is not None:
            phase = jnp.clip(2 * step / updates, 0.01, 1.0)
            log_prob = tail.mixed(system, pairs, log_prob, math.log(TAIL) / phase)
        return -jnp.mean(log_prob)

    def update(carry: tuple[Any, Any], step: Array) -> tuple[tuple[Any, Any], None]:
        logs, state = carry
        gradient = jax.grad(loss)(logs, step)
        gradient = gradient * jnp.minimum(1.0, 10.0 / jnp.linalg.norm(gradient))
        change, state = optimiser.update(gradient, state)
        return (optax.apply_updates(logs, change), state), None

    logs: Any = jnp.log(jnp.asarray(FIRST_GUESS, jnp.float32))
    (logs, _), _ = jax.lax.scan(update, (logs, optimiser.init(logs)), jnp.arange(updates))
    return jnp.exp(logs)


def recovered(system: System, key: PRNGKeyArray, looks: dict[float, int], updates: int) -> dict[str, list[str]]:
    rows = {}
    for gap, count in looks.items():
        pairs = data(system, gap, count, key)
        for name in FITTED:
            without = (None,) if name == "moments" else ()
            for tail in (*without, Tail.of(system, pairs)):
                found = np.asarray(fitted(LAWS[name], system, pairs, tail, updates), np.float64)
                cells = [
                    f"{value:.3g} ({error:+.1%})" for value, error in zip(found, found / TRUE_VALUES - 1, strict=True)
                ]
                label = f"{gap:g} s, {name}{' + tail' if tail else ''}"
                rows[label] = cells
                say(f"{label}: {' '.join(cells)}")
    return rows


def check(found: list[System], starts: int, key: PRNGKeyArray) -> None:
    """Compare simulated densities with closed forms, and with last pieces of half the length."""
    falling = ((0.0, 1.0), (15.0, 0.0))
    held = ((0.0, 1.0, 0.0, 0.0), (3.0, -3.0, 18.0, 5.0), (0.0, 0.0, 0.0, 1.0), (-6.0, 6.0, -30.0, -10.0))
    rows = {}
    for name, matrix, level, factor in (("falling, 2", falling, 0.2, 1), ("held, 4", held, 0.15, CARTPOLE_FACTOR)):
        env = Linear(rows=matrix, level=level, state_names=tuple("abcd"[: len(matrix)]), horizon=1.0)
        sample = sampled(System(name, env, NoControl(), factor * found[0].paths), starts, 8, key)
        cells = []
        for number, gap in enumerate(GAPS):
            pairs = sample.pairs(gap)
            exact = env.log_prob(np.asarray(pairs.y, np.float64), np.asarray(pairs.y_next, np.float64), gap)
            off = (sample.truth.log_prob[number] - sample.by_start(jnp.asarray(exact))).mean()
            cells.append(f"{off:+.4f} ({sample.truth.standard_error[number]:.4f})")
        rows[f"linear, {name} dimensions: simulated - closed form"] = cells
        say(f"{name}: {' '.join(cells)}")
    for system in found:
        long = sampled(system, starts, 8, key)
        short = sampled(replace(system, paths=2 * system.paths), starts, 8, key, LAST_PIECE / 2)
        off = (long.truth.log_prob - short.truth.log_prob).mean(axis=(1, 2))
        error = np.hypot(long.truth.standard_error, short.truth.standard_error)
        cells = [f"{o:+.4f} ({e:.4f})" for o, e in zip(off, error, strict=True)]
        rows[f"{system.name}: last piece 1/16 s - 1/32 s"] = cells
        say(f"{system.name}: {' '.join(cells)}")
    columns = ["mean difference in nats (standard error)", *(f"{gap:g} s" for gap in GAPS)]
    print_table("Check of the simulated densities", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=30, help="starts of gaps per system")
    parser.add_argument("--ends", type=int, default=16, help="ends of a gap, per start and gap")
    parser.add_argument("--paths", type=int, default=20_000, help="simulated paths per start")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a smoke run: few starts, paths, updates")
    parser.add_argument("--check", action="store_true", help="only compare the simulated densities with known ones")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.starts, arguments.paths = min(arguments.starts, 4), min(arguments.paths, 2 * BLOCK)
    check_key, sample_key, cost_key, fit_key = jax.random.split(jax.random.key(arguments.seed), 4)
    found = systems(arguments.seed, arguments.paths, arguments.quick)
    if arguments.check:
        check(found, arguments.starts, check_key)
        return
    integrals = {}
    for system in found:
        sample = sampled(system, arguments.starts, arguments.ends, sample_key)
        integrals[system.name] = print_errors(sample)
        say(f"errors of {system.name}")
    rows = {name: [each[name] for each in integrals.values()] for name in integrals[found[0].name]}
    print_table("Integral of the density at 0.5 s (standard error over starts)", ["law", *integrals], rows)
    rows = costs(found[0], cost_key, 3 if arguments.quick else COST_REPEATS)
    title = f"Cost of value and gradient over {COST_BATCH} gaps, relative to `moments`"
    print_table(title, ["law", *(f"{gap:g} s" for gap in GAPS)], rows)
    say("costs")
    updates, looks = (40, {gap: count // 10 for gap, count in FIT_LOOKS.items()}) if arguments.quick else (None, None)
    rows = recovered(found[0], fit_key, looks or FIT_LOOKS, updates or FIT_UPDATES)
    truth = ", ".join(f"{name} = {value:g}" for name, value in zip(PARAMETERS, TRUE_VALUES, strict=True))
    counts = ", ".join(f"{count} looks at {gap:g} s" for gap, count in (looks or FIT_LOOKS).items())
    print_table(f"Parameters recovered; truth {truth}; {counts}", ["gap and law", *PARAMETERS], rows)


if __name__ == "__main__":
    main()
