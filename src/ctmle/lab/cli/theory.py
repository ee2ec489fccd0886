"""`ctmle theory`: every function in `ANSWERS` is a subcommand, and its signature and docstring are the help text.

Limits are in the types of the parameters. JAX is loaded only by functions that simulate or enumerate a class.
"""

import math
from collections.abc import Callable
from functools import partial, reduce, wraps
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import numpy as np
import tyro

from ctmle import theory
from ctmle.lab.cli.exact import ClassName, Positives, print_table
from ctmle.lab.cli.parse import parse
from ctmle.settings import (
    LARGEST_COUNT,
    Count,
    CountFromZero,
    Finite,
    Limit,
    NonNegative,
    OpenShare,
    Positive,
    SettingError,
    Share,
    problem as problem_of,
    typed,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LinearClassName = Literal["hidden-arm", "speed", "rotation", "volatility", "feedback"]
Problem = tyro.conf.OmitArgPrefixes[theory.Problem]
Counts = Annotated[tuple[int, ...], Limit("a whole number of at least 1, or several", 1, LARGEST_COUNT)]
Numbers = Annotated[tuple[float, ...], Limit("finite numbers, at least one", open_low=True, open_high=True)]
Samples = Annotated[int, Limit("at least 4", 4, LARGEST_COUNT)]
Second = Annotated[float, Limit("between 0 and 1 second", 0.0, 1.0, open_low=True)]
UP_TO_CONSTANTS = (
    "(the bound hides constants and logarithms: compare plans by these numbers, do not read them as promises)"
)
MOST_PANELS = 1_000_000


def variance(
    model_class: tyro.conf.Positional[ClassName] = "hidden-arm",
    *,
    noise: Positive = 0.2,
    separation: Positive = 0.1,
    gap: Positive = 1.0,
    run: str | None = None,
    samples: Samples = 2000,
    step: Second = 0.02,
    seed: CountFromZero = 0,
) -> None:
    """Total variance Var^u of every policy of a class, exact and by simulation; or of a trained policy (--run).

    Args:
        model_class: Class of models and policies.
        noise: Noise level of the class.
        separation: Hidden arm only: distance e between models.
        gap: Rotation only: the gap that its speeds alias with.
        run: A run folder of `ctmle train`: the variance of its final policy's reward, divided by its largest integral.
        samples: Simulated trajectories.
        step: Seconds between the points at which a simulated reward is taken.
        seed: Seed of the simulation.
    """
    if run is not None:
        _variance_of_run(run, samples, step, seed)
        return
    from ctmle.theory import exact

    models = exact.CLASSES[model_class](noise, gap, separation)
    bounded = isinstance(models, exact.LinearClass)
    columns = ["policy", "value", "Var^u", "simulated", "95% interval", *(["bound", "tight"] if bounded else [])]
    rows = []
    for policy in range(models.policies):
        seen = theory.estimate_variance(exact.class_returns(models, policy, samples, step, seed))
        value, total_variance = float(models.values[models.truth, policy]), float(models.variances[policy])
        cells = [f"{policy}", f"{value:.4f}", f"{total_variance:.4g}", f"{seen.variance:.4g}"]
        cells.append(f"{seen.low:.3g} to {seen.high:.3g}")
        if bounded:
            constants = exact.closed_loop_smoothness(models, policy)
            cells += [f"{bound(constants):.3g}" for bound in (theory.variance_bound, theory.variance_bound_tight)]
        rows.append(cells)
    print_table(f"{model_class}, noise {noise:g}, under the truth; {samples} simulated trajectories", columns, rows)


def _variance_of_run(path: str, samples: int, step: float, seed: int) -> None:
    import jax

    from ctmle.lab.run import Run
    from ctmle.lab.storage.run_folder import RunFolder

    folder = RunFolder.open(path)
    job = Run(folder.read_experiment())
    checkpoint = folder.read_checkpoint(job.fits)
    if not checkpoint.log.records:
        again = typed("resume", folder.path)
        raise ValueError(f"{folder.path} has no finished episode yet: continue it with `{again}`")
    policy, episode = job.output(job.restore(checkpoint), "final")
    returns = theory.simulated_returns(job.simulated.env, policy, jax.random.key(seed), trajectories=samples, step=step)
    seen = theory.estimate_variance(returns)
    print(
        f"Var^u = {seen.variance:.6g} (95% interval {seen.low:.6g} to {seen.high:.6g}, {seen.samples} trajectories)"
        f" of the mean reward over the horizon; policy of episode {episode}, mean {returns.mean():.4f}"
    )


def variance_bound(
    *,
    reward_lipschitz: NonNegative,
    drift_lipschitz: Positive,
    diffusion: NonNegative,
    horizon: Positive,
    policy_lipschitz: NonNegative = 0.0,
) -> None:
    """Bound of the paper's proposition on Var^u: with the right constant, as printed, and a tighter one.

    Args:
        reward_lipschitz: [L_b] Lipschitz constant of the reward.
        drift_lipschitz: [L_f] Lipschitz constant of the drift.
        diffusion: [G] Largest Frobenius norm of the diffusion.
        horizon: [T] Horizon in seconds.
        policy_lipschitz: [L_u] Lipschitz constant of the policy; 0 if the drift above is that of the closed loop.
    """
    constants = theory.Smoothness(reward_lipschitz, drift_lipschitz, policy_lipschitz, diffusion, horizon)
    print(f"Var^u <= {theory.variance_bound(constants):.6g}  (prop:var with the factor T it needs)")
    print(
        f"Var^u <= {theory.variance_bound_tight(constants):.6g}  (tighter: T L_b^2 (1+L_u)^2 times the integral of V)"
    )
    print(f"         {theory.variance_bound_printed(constants):.6g}  (as printed in the paper: not a bound)")


def hellinger(
    *, mean_p: Finite = 0.0, variance_p: Positive = 1.0, mean_q: Finite = 1.0, variance_q: Positive = 1.0
) -> None:
    """Squared Hellinger distance of two normal laws on a line, in closed form and by quadrature.

    Args:
        mean_p: Mean of the first.
        variance_p: Variance of the first.
        mean_q: Mean of the second.
        variance_q: Variance of the second.
    """
    widest = 12 * max(variance_p, variance_q) ** 0.5
    low, high = min(mean_p, mean_q) - widest, max(mean_p, mean_q) + widest
    panels = math.ceil((high - low) / min(variance_p, variance_q) ** 0.5) + 20
    if panels > MOST_PANELS:
        raise ValueError("the two variances are too far apart for a quadrature: bring them within a factor of 1e9")

    def log_normal(mean: float, variance: float) -> Any:
        return lambda x: -0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance))

    by_nodes = theory.hellinger2(log_normal(mean_p, variance_p), log_normal(mean_q, variance_q), low, high, panels)
    closed = theory.gaussian_hellinger2(
        np.array([mean_p]), np.array([[variance_p]]), np.array([mean_q]), np.array([[variance_q]])
    )
    print(f"H^2 = {float(closed):.10g}  (closed form)")
    print(f"H^2 = {by_nodes:.10g}  (quadrature)")


def eluder(
    model_class: tyro.conf.Positional[LinearClassName] = "hidden-arm",
    *,
    noise: Positive = 0.2,
    separation: Positive = 0.1,
    gaps: Positives = (0.25, 1.0),
    states: Numbers = (0.0, 1.0),
    epsilon: Positive = 0.01,
) -> None:
    """Eluder dimension of a class at points (policy, state, gap): exact if few points matter, else greedy.

    Args:
        model_class: Class of models and policies.
        noise: Noise level of the class.
        separation: Hidden arm only: distance e between models.
        gaps: Gaps at which models are compared (rotation: the first is the one that its speeds alias with).
        states: States at which models are compared (first coordinate; the others are 0).
        epsilon: [epsilon] Distances up to this count as small; the theorem uses 1 over the number of looks.
    """
    from ctmle.theory import exact
    from ctmle.theory.eluder import LARGEST_EXACT

    models: Any = exact.CLASSES[model_class](noise, gaps[0], separation)
    points = np.zeros((len(states), models.start.shape[0]))
    points[:, 0] = states
    psi = exact.hellinger_table(models, points, np.array(gaps))
    lower = theory.greedy_eluder_dimension(psi, epsilon)
    print(f"{models.models} models, {psi.shape[1]} points (policy, state, gap), epsilon {epsilon:g}")
    try:
        print(f"eluder dimension {theory.eluder_dimension(psi, epsilon)} (exact search); greedy: {lower}")
    except ValueError:
        print(f"eluder dimension at least {lower} (greedy; more than {LARGEST_EXACT} points matter: no exact search)")


def bracketing(
    *, dimension: Count = 2, bound: Positive = 2.0, epsilon: Positive = 0.01, drifts: Count = 9, diffusions: Count = 9
) -> None:
    """Bracketing numbers and eluder bounds of the paper's two quadratic classes.

    Args:
        dimension: [d] Number of features.
        bound: [B] Bound on the norms of the features.
        epsilon: [epsilon] Width of a bracket.
        drifts: [|F|] Number of drifts in the finite class.
        diffusions: [|G|] Number of diffusions in the finite class.
    """
    size = (dimension, bound, epsilon)
    print(f"finite class:   log C = {theory.log_bracketing_finite(drifts, diffusions):.6g}  (C = |F||G|)")
    print(f"                d_1/eps <~ {theory.eluder_bound_finite(*size):.6g}")
    print(f"infinite class: log C <= {theory.log_bracketing_quadratic(*size):.6g}  (the proof's own grid)")
    print(f"                log C <~ {theory.log_bracketing_quadratic_printed(*size):.6g}  (as printed)")
    print(f"                d_1/eps <~ {theory.eluder_bound_infinite(*size):.6g}  (d^2 B^3, as proved)")
    print(f"                d_1/eps <~ {theory.eluder_bound_finite(*size):.6g}  (B^2, as printed)")


def beta(*, models: Count = 81, episodes: Count = 1000, delta: OpenShare = 0.1) -> None:
    """Radius of the confidence sets of a finite class.

    Args:
        models: [|F||G|] Number of models.
        episodes: [N] Number of episodes.
        delta: [delta] Largest probability with which the sets may miss the truth.
    """
    theorem, ville = theory.theory_beta(episodes, math.log(models), delta), theory.ville_beta(models, delta)
    print(f"beta = {theorem:.6g}  (5 log(N |F||G| / delta), the theorem's)")
    print(f"beta = {ville:.6g}  (log(2 |F||G| / delta): covers as well, for any N)")


def bound(
    *,
    variance: Share,
    gap: Positive,
    horizon: Positive,
    dimension: Positive,
    episodes: Count = 1000,
    models: Count = 81,
    delta: OpenShare = 0.1,
    reward_bound: Positive = 1.0,
) -> None:
    """Right-hand side of the theorem's regret bound, up to its constant.

    Args:
        variance: [Var] Mean of Var^{u_n} over the episodes.
        gap: [Delta] Gap of an equidistant grid.
        horizon: [T] Horizon in seconds.
        dimension: [d] Eluder dimension at both scales of the theorem.
        episodes: [N] Number of episodes.
        models: [|F||G|] Number of models, for beta.
        delta: [delta] Probability with which the bound may fail.
        reward_bound: [b_max] Largest reward per second.
    """
    if gap > horizon:
        raise ValueError(f"--gap must lie between 0 and the horizon {horizon:g}, not {gap}")
    gaps, radius = math.ceil(horizon / gap - 1e-9), theory.theory_beta(episodes, math.log(models), delta)
    value = theory.regret_bound(
        episodes=episodes,
        looks=max(2, episodes * gaps),
        delta=delta,
        beta=radius,
        eluder=(dimension, dimension),
        gap_squares=episodes * gaps * (horizon / gaps) ** 2,
        variances=episodes * variance,
        reward_bound=reward_bound,
    )
    print(f"Regret({episodes}) <~ {value:.6g} with beta = {radius:.4g} {UP_TO_CONSTANTS}")
    if value > episodes:
        print(f"that is more than the trivial bound N = {episodes}: the theorem says nothing at this size")


def complexity(problem: Problem, *, out: str | None = None) -> None:
    """lambda-total complexity against the gap, as a table and a plot.

    Args:
        out: Plot of the trade-off (PNG); none: runs/complexity.png.
    """
    path = _png(out, "runs/complexity.png")
    best = theory.minimising_gap(problem) or theory.largest_harmless_gap(problem)
    counts = sorted({max(1, round(problem.horizon / best * factor)) for factor in (0.1, 0.3, 1.0, 3.0, 10.0)})
    rows = [
        (f"{p.gap:.4g}", f"{p.episodes}", f"{p.looks_per_episode}", f"{p.looks}", f"{p.cost:.6g}")
        for p in (theory.plan_at(problem, gaps) for gaps in counts)
    ]
    columns = ("gap (s)", "episodes", "looks per episode", "looks", "cost")
    print_table(f"lambda-total complexity, lambda = {problem.look_price:g}", columns, rows)
    print(f"minimising gap: {theory.minimising_gap(problem):.6g} s {UP_TO_CONSTANTS}")
    _draw_trade_off(path, problem, best)


def plan(problem: Problem, *, out: str | None = None) -> None:
    """Cheapest plan by the paper's lambda-total complexity: gap, number of episodes, number of looks.

    It holds up to the constants and logarithms that the bound hides: compare plans by it, do not read N as a promise.

    Args:
        out: Plot of the trade-off (PNG); none: runs/plan.png.
    """
    path = _png(out, "runs/plan.png")
    chosen, price = theory.plan(problem), problem.look_price
    random = f", of which {chosen.gaps} at random times" if problem.random_looks else ""
    print(f"gap:      {chosen.gap:.4g} s ({chosen.gaps} gaps in {problem.horizon:g} s)")
    print(f"looks:    {chosen.looks_per_episode} per episode{random}")
    print(f"episodes: {chosen.episodes}, so {chosen.looks} looks in all")
    print(f"cost:     {chosen.cost:.6g} = (1 - {price:g}) episodes + {price:g} looks")
    print(
        f"in the continuum the best gap is {theory.minimising_gap(problem):.4g} s; up to"
        f" {theory.largest_harmless_gap(problem):.4g} s the gap at most doubles the episodes"
    )
    print(UP_TO_CONSTANTS)
    _draw_trade_off(path, problem, chosen.gap)


def _draw_trade_off(path: Path, problem: theory.Problem, gap: float) -> None:
    from ctmle.theory.plots import plot_trade_off

    _save(path, plot_trade_off(problem, gap))
    print(f"trade-off: {path}")


def quadratic(
    *,
    times: Numbers = (
        0.3,
        0.8,
        1.5,
        2.5,
    ),
    samples: Count = 20000,
    step: Positive = 1e-3,
    seed: CountFromZero = 0,
    out: str | None = None,
) -> None:
    """Quadratic density of the construction example, compared with a simulation of its SDE.

    Args:
        times: Times at which histograms are drawn, between 0 and pi.
        samples: Simulated trajectories.
        step: Longest step of the simulation.
        seed: Seed of the simulation.
        out: Plot (PNG); none: runs/quadratic.png.
    """
    from scipy.stats import kstest

    from ctmle.theory.plots import plot_quadratic

    path, ordered = _png(out, "runs/quadratic.png"), np.array(sorted(times))
    simulated = theory.quadratic.simulate(ordered, samples, step=step, seed=seed)
    _save(path, plot_quadratic(ordered, simulated))
    for t, seen in zip(ordered, simulated, strict=True):
        distance: Any = kstest(seen, theory.quadratic.distribution, args=(float(t),)).statistic
        print(f"t = {t:g}: Kolmogorov-Smirnov distance {distance:.4f}")
    print(f"(a correct sampler stays below {1.36 / math.sqrt(samples):.4f} in 95% of cases)")
    print(f"histograms over densities: {path}")


def ou(
    *,
    time: Positive = 0.5,
    start: Finite = 1.0,
    rate: Positive = 1.0,
    noise: Positive = 1.0,
    terms: Counts = (1, 2, 5, 10, 20, 40),
) -> None:
    """Truncation error of the spectral expansion of the Ornstein-Uhlenbeck process.

    Args:
        time: [t] Time after the start.
        start: [y_0] Initial state.
        rate: [gamma] Mean-reversion rate.
        noise: Diffusion.
        terms: Numbers of terms.
    """
    ou, rows, scale = theory.ornstein_uhlenbeck, [], noise / (2 * rate) ** 0.5
    y = np.linspace(-6 * scale, 6 * scale, 601)
    exact = ou.transition_density(y, start, time, rate, noise)
    for count in sorted(terms):
        arguments = (start, time, count, rate, noise)
        errors = [np.max(np.abs(form(y, *arguments) - exact)) for form in (ou.expansion, ou.expansion_printed)]
        rows.append((str(count), f"{errors[0]:.3g}", f"{ou.truncation_bound(*arguments):.3g}", f"{errors[1]:.3g}"))
    title = f"OU expansion at t = {time:g}, y0 = {start:g}: largest error over |y| <= 6 sd"
    print_table(title, ("terms", "error", "bound", "error as printed"), rows)
    print("(as printed, the factor sqrt(p_s(y) / p_s(y0)) is missing, and the error does not vanish)")


ANSWERS = (variance, variance_bound, hellinger, eluder, bracketing, beta, bound, complexity, plan, quadratic, ou)


def main(arguments: list[str]) -> None:
    """Answer the question that the words ask."""
    how = "Calculators for the paper's theory: variances, bounds and plans."
    question = parse(QUESTIONS, arguments, "ctmle theory", description=how)
    hints = get_type_hints(question.func, include_extras=True)
    for name, value in question.keywords.items():
        wanted = problem_of(hints[name], value)
        if wanted is not None:
            raise SettingError("theory", name, name, wanted, value)
    question()


def _subcommand(answer: Callable[..., None]) -> Any:
    """Make a subcommand with the signature of a function; parsing it gives the call as a `functools.partial`."""
    deferred = wraps(answer)(lambda *args, **kwargs: partial(answer, *args, **kwargs))
    return Annotated[Any, tyro.conf.subcommand(answer.__name__.replace("_", "-"), constructor=deferred)]


QUESTIONS: Any = reduce(or_, map(_subcommand, ANSWERS))


def _png(out: str | None, default: str) -> Path:
    path = Path(default if out is None else out)
    if path.suffix != ".png":
        raise ValueError(f"--out {path} must end in .png")
    return path


def _save(path: Path, figure: "Figure") -> None:
    from ctmle.lab.report.pictures import save

    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
