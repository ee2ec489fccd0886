"""`ctmle theory ...`: each question is answered in a few lines."""

from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ctmle import theory
from ctmle.config.theory import (
    BetaQuestion,
    BoundQuestion,
    BracketingQuestion,
    ComplexityQuestion,
    EluderQuestion,
    HellingerQuestion,
    OUQuestion,
    PlanQuestion,
    QuadraticQuestion,
    TheoryCommand,
    VarianceBoundQuestion,
)
from ctmle.lab.cli.dispatch import run

UP_TO_CONSTANTS = (
    "(the bound hides constants and logarithms: compare plans by these numbers, do not read them as promises)"
)


@run.register
def _theory(command: TheoryCommand) -> None:
    answer(command.question)


@singledispatch
def answer(question: Any) -> None:
    raise TypeError(f"not a question: {question!r}")


@answer.register
def _variance_bound(q: VarianceBoundQuestion) -> None:
    constants = theory.Smoothness(q.reward_lipschitz, q.drift_lipschitz, q.policy_lipschitz, q.diffusion, q.horizon)
    print(f"Var^u <= {theory.variance_bound(constants):.6g}  (prop:var with the factor T it needs)")
    print(
        f"Var^u <= {theory.variance_bound_tight(constants):.6g}  (tighter: T L_b^2 (1+L_u)^2 times the integral of V)"
    )
    print(f"         {theory.variance_bound_printed(constants):.6g}  (as printed in the paper: not a bound)")


@answer.register
def _hellinger(q: HellingerQuestion) -> None:
    for name in ("variance_p", "variance_q"):
        if not 0 < getattr(q, name) < np.inf:
            raise ValueError(f"--{name.replace('_', '-')} must be a positive number, not {getattr(q, name)}")
    laws = ((q.mean_p, q.variance_p), (q.mean_q, q.variance_q))
    (m_p, v_p), (m_q, v_q) = ((np.array([mean]), np.array([[variance]])) for mean, variance in laws)
    widest = 12 * max(q.variance_p, q.variance_q) ** 0.5
    low, high = min(q.mean_p, q.mean_q) - widest, max(q.mean_p, q.mean_q) + widest
    panels = int(np.ceil((high - low) / min(q.variance_p, q.variance_q) ** 0.5)) + 20
    if panels > 1_000_000:
        raise ValueError("the two variances are too far apart for a quadrature: bring them within a factor of 1e9")
    by_nodes = theory.hellinger2(_log_normal(*laws[0]), _log_normal(*laws[1]), low, high, panels)
    print(f"H^2 = {float(theory.gaussian_hellinger2(m_p, v_p, m_q, v_q)):.10g}  (closed form)")
    print(f"H^2 = {by_nodes:.10g}  (quadrature)")


def _log_normal(mean: float, variance: float) -> Any:
    return lambda x: -0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance))


@answer.register
def _eluder(q: EluderQuestion) -> None:
    from ctmle.theory.eluder import LARGEST_EXACT
    from ctmle.theory.exact.cases import CLASSES

    if not q.gaps or not q.states:
        raise ValueError("--gaps and --states must have at least one number each")
    models: Any = CLASSES[q.model_class](q.noise, q.gaps[0], q.separation)
    states = np.zeros((len(q.states), models.start.shape[0]))
    states[:, 0] = q.states
    psi = theory.hellinger_table(models, states, np.array(q.gaps))
    lower = theory.greedy_eluder_dimension(psi, q.epsilon)
    print(f"{models.models} models, {psi.shape[1]} points (policy, state, gap), epsilon {q.epsilon:g}")
    try:
        print(f"eluder dimension {theory.eluder_dimension(psi, q.epsilon)} (exact search); greedy: {lower}")
    except ValueError:
        print(f"eluder dimension at least {lower} (greedy; more than {LARGEST_EXACT} points matter: no exact search)")


@answer.register
def _bracketing(q: BracketingQuestion) -> None:
    d, bound, epsilon = q.dimension, q.bound, q.epsilon
    finite = theory.log_bracketing_finite(q.drifts, q.diffusions)
    print(f"finite class:   log C = {finite:.6g}  (C = |F||G|)")
    print(f"                d_1/eps <~ {theory.eluder_bound_finite(d, bound, epsilon):.6g}")
    print(f"infinite class: log C <= {theory.log_bracketing_quadratic(d, bound, epsilon):.6g}  (the proof's own grid)")
    print(f"                log C <~ {theory.log_bracketing_quadratic_printed(d, bound, epsilon):.6g}  (as printed)")
    print(f"                d_1/eps <~ {theory.eluder_bound_infinite(d, bound, epsilon):.6g}  (d^2 B^3, as proved)")
    print(f"                d_1/eps <~ {theory.eluder_bound_finite(d, bound, epsilon):.6g}  (B^2, as printed)")


@answer.register
def _beta(q: BetaQuestion) -> None:
    print(f"beta = {_theory_beta(q.models, q.episodes, q.delta):.6g}  (5 log(N |F||G| / delta), the theorem's)")
    print(f"beta = {theory.ville_beta(q.models, q.delta):.6g}  (log(2 |F||G| / delta): covers as well, for any N)")


def _theory_beta(models: int, episodes: int, delta: float) -> float:
    return theory.theory_beta(episodes, theory.log_bracketing_finite(models, 1), delta)


@answer.register
def _bound(q: BoundQuestion) -> None:
    problem = theory.Problem(q.variance, q.horizon, 1.0, q.dimension, 0.0, reward_bound=q.reward_bound)
    if not 0 < q.gap <= q.horizon:
        raise ValueError(f"--gap must lie between 0 and the horizon {q.horizon:g}, not {q.gap}")
    gaps, beta = int(np.ceil(q.horizon / q.gap - 1e-9)), _theory_beta(q.models, q.episodes, q.delta)
    value = theory.regret_bound(
        episodes=q.episodes,
        looks=max(2, q.episodes * gaps),
        delta=q.delta,
        beta=beta,
        eluder_fine=problem.dimension,
        eluder=problem.dimension,
        gap_squares=q.episodes * gaps * (q.horizon / gaps) ** 2,
        variances=q.episodes * q.variance,
        reward_bound=q.reward_bound,
    )
    print(f"Regret({q.episodes}) <~ {value:.6g} with beta = {beta:.4g} {UP_TO_CONSTANTS}")
    if value > q.episodes:
        print(f"that is more than the trivial bound N = {q.episodes}: the theorem says nothing at this size")


def _problem(q: ComplexityQuestion) -> theory.Problem:
    return theory.Problem(
        variance=q.variance,
        horizon=q.horizon,
        epsilon=q.epsilon,
        dimension=q.dimension,
        look_price=q.look_price,
        random_looks=q.random_looks,
        reward_bound=q.reward_bound,
    )


@answer.register
def _complexity(q: ComplexityQuestion) -> None:
    problem, console = _problem(q), Console(highlight=False)
    best = theory.minimising_gap(problem) or theory.largest_harmless_gap(problem)
    table = Table(title=f"lambda-total complexity, lambda = {q.look_price:g}")
    for name in ("gap (s)", "episodes", "looks per episode", "looks", "cost"):
        table.add_column(name, justify="right")
    for gaps in sorted({max(1, round(q.horizon / best * factor)) for factor in (0.1, 0.3, 1.0, 3.0, 10.0)}):
        p = theory.plan_at(problem, gaps)
        table.add_row(f"{p.gap:.4g}", f"{p.episodes}", f"{p.looks_per_episode}", f"{p.looks}", f"{p.cost:.6g}")
    console.print(table)
    print(f"minimising gap: {theory.minimising_gap(problem):.6g} s {UP_TO_CONSTANTS}")
    _draw(q, problem, best, "runs/complexity.png")


@answer.register
def _plan(q: PlanQuestion) -> None:
    problem = _problem(q)
    chosen = theory.plan(problem)
    random = f", of which {chosen.gaps} at random times" if q.random_looks else ""
    print(f"gap:      {chosen.gap:.4g} s ({chosen.gaps} gaps in {q.horizon:g} s)")
    print(f"looks:    {chosen.looks_per_episode} per episode{random}")
    print(f"episodes: {chosen.episodes}, so {chosen.looks} looks in all")
    print(f"cost:     {chosen.cost:.6g} = (1 - {q.look_price:g}) episodes + {q.look_price:g} looks")
    print(f"in the continuum the best gap is {theory.minimising_gap(problem):.4g} s; up to"
          f" {theory.largest_harmless_gap(problem):.4g} s the gap at most doubles the episodes")  # fmt: skip
    print(UP_TO_CONSTANTS)
    _draw(q, problem, chosen.gap, "runs/plan.png")


def _draw(q: ComplexityQuestion, problem: theory.Problem, gap: float, default: str) -> None:
    from ctmle.lab.report.theory import plot_trade_off

    path = _picture(q.out, default)
    plot_trade_off(path, problem, gap)
    print(f"trade-off: {path}")


@answer.register
def _quadratic(q: QuadraticQuestion) -> None:
    from ctmle.lab.report.theory import plot_quadratic

    times = np.array(sorted(q.times))
    if len(times) == 0:
        raise ValueError("--times must have at least one number between 0 and pi")
    samples = theory.quadratic.simulate(times, q.samples, step=q.step, seed=q.seed)
    path = _picture(q.out, "runs/quadratic.png")
    plot_quadratic(path, times, samples)
    for t, seen in zip(times, samples, strict=True):
        print(f"t = {t:g}: Kolmogorov-Smirnov distance {_ks(seen, float(t)):.4f}")
    print(f"(a correct sampler stays below {1.36 / np.sqrt(q.samples):.4f} in 95% of cases)")
    print(f"histograms over densities: {path}")


def _ks(samples: np.ndarray, t: float) -> float:
    expected = theory.quadratic.distribution(np.sort(samples), t)
    steps = np.arange(len(samples) + 1) / len(samples)
    return float(max(np.max(steps[1:] - expected), np.max(expected - steps[:-1])))


@answer.register
def _ou(q: OUQuestion) -> None:
    ou = theory.ornstein_uhlenbeck
    scale = q.noise / (2 * q.rate) ** 0.5 if q.rate > 0 else np.nan
    y = np.linspace(-6 * scale, 6 * scale, 601)
    exact = ou.transition_density(y, q.start, q.time, q.rate, q.noise)
    table = Table(title=f"OU expansion at t = {q.time:g}, y0 = {q.start:g}: largest error over |y| <= 6 sd")
    for name in ("terms", "error", "bound", "error as printed"):
        table.add_column(name, justify="right")
    for terms in sorted(q.terms):
        arguments = (q.start, q.time, terms, q.rate, q.noise)
        errors = [np.max(np.abs(form(y, *arguments) - exact)) for form in (ou.expansion, ou.expansion_printed)]
        table.add_row(str(terms), f"{errors[0]:.3g}", f"{ou.truncation_bound(*arguments):.3g}", f"{errors[1]:.3g}")
    Console(highlight=False).print(table)
    print("(as printed, the factor sqrt(p_s(y) / p_s(y0)) is missing, and the error does not vanish)")


def _picture(out: str | None, default: str) -> Path:
    path = Path(out or default)
    if path.suffix != ".png":
        raise ValueError(f"--out {path} must end in .png")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
