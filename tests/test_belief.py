"""In which models policies are improved: confidence sets, and an improver that chooses from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_agent import SCHEDULE, drive
from test_basis import ENV, fitted, made_up_rows
from tiny import BASIS

from ctmle.models import ConfidenceSet, OneSample, Optimist, Penalty
from ctmle.models.basis_learner import draw
from ctmle.models.belief import theory_beta, ville_beta
from ctmle.models.evidence import Rows, design, posterior, prior_scales
from ctmle.options import apply
from ctmle.planning.actor_critic import ActorCriticState


def optimist(radius: float = 3.0, price: float = 0.0) -> Optimist:
    fit = fitted()
    return Optimist(fit.mean, fit.posterior.mean, fit.posterior.root, jnp.asarray(radius), jnp.asarray(price))


def test_a_point_is_as_unlikely_as_it_is_long():
    """The log posterior density at a point z is |z|^2 / 2 below its maximum."""
    found, z = fitted().posterior, 0.3 * jax.random.normal(jax.random.key(0), fitted().posterior.mean.shape)
    root, away = np.asarray(found.root[0], float), np.asarray(found.root[0] @ z[0], float)
    below = 0.5 * np.sum(np.linalg.solve(root, away) ** 2)
    assert below == pytest.approx(0.5 * float(jnp.sum(z**2)), rel=1e-3)
    assert float(optimist(price=0.02).cost(z)) == pytest.approx(0.02 * below, rel=1e-3)


def test_the_start_is_the_estimate_and_points_move_its_drift():
    one, y, u = optimist(), jnp.asarray([[[0.4, 1.0]]] * 3), jnp.ones((3, 1, 1))
    estimate = fitted().mean.member(0).drift(y[0], u[0])
    np.testing.assert_allclose(one.sde(one.start, 3).drift(y, u)[2], estimate, rtol=1e-4, atol=1e-4)
    z = jax.random.normal(jax.random.key(1), one.start.shape)
    assert abs(float((one.sde(z, 3).drift(y, u)[2] - estimate)[0, 1])) > 1e-3


def test_moves_stay_in_the_set():
    one = optimist(radius=2.0)
    ahead = jax.random.normal(jax.random.key(0), one.start.shape)
    point = one.moved(one.start, ahead, 0.25)
    assert float(jnp.linalg.norm(point)) == pytest.approx(0.5, rel=1e-4)
    for _ in range(8):
        point = one.moved(point, ahead, 0.25)
    assert float(jnp.linalg.norm(point)) == pytest.approx(2.0, rel=1e-4)
    np.testing.assert_allclose(point, 2.0 * ahead / jnp.linalg.norm(ahead), rtol=1e-4, atol=1e-6)


def test_villes_set_has_the_truth():
    """Truths drawn from the prior, each with data of its own: the set misses at most one in twenty."""
    rows, units, waves, scales = made_up_rows(0.3, count=60)
    some_waves, some_scales = jax.tree.map(lambda leaf: leaf[0], (waves, scales))
    prior = prior_scales(some_scales, 20, 1)
    drawn = prior * jax.random.normal(jax.random.key(2), (40, len(prior)))
    random, inside, betas = np.random.default_rng(0), [], []
    values = np.asarray(design(rows.inputs[:, 0], some_waves, some_scales, 1))
    for truth in np.asarray(drawn):
        moved = 0.1 * values @ truth + 0.3 * 0.1**0.5 * random.normal(size=60)
        seen = Rows(rows.inputs, rows.weights, jnp.asarray(moved, jnp.float32)[:, None], rows.seconds, rows.real)
        found = posterior(seen, units, waves, scales, jnp.asarray([1e-3]))
        z = np.linalg.solve(np.asarray(found.root[0], float), truth - np.asarray(found.mean[0]))
        betas.append(ville_beta(found, prior[None], 0.05))
        inside.append(0.5 * np.sum(z**2) <= betas[-1])
    assert np.mean(inside) >= 0.95
    assert np.mean(betas) < 60


def test_radii():
    found, prior = fitted().posterior, jnp.ones_like(fitted().posterior.mean)
    assert ConfidenceSet(beta=8.0).radius(found, prior, 80, 1) == pytest.approx(4.0)
    theory = ConfidenceSet(beta="theory").radius(found, prior, 80, 2)
    assert 0.5 * theory**2 == pytest.approx(theory_beta(found, 80, 2, 0.05))
    stricter = (ConfidenceSet(delta=delta).radius(found, prior, 80, 1) for delta in (0.01, 0.1))
    assert next(stricter) > next(stricter)


def test_models_of_each_belief():
    mean, drawn = fitted().posterior.mean, draw(fitted().posterior, jax.random.key(0), 4)
    np.testing.assert_array_equal(OneSample().weights(mean, drawn), jnp.stack([drawn[0]] * 4))
    np.testing.assert_array_equal(ConfidenceSet().weights(mean, drawn), jnp.stack([mean] * 4))


@pytest.mark.parametrize("plan_in", ["set", "penalty"])
def test_policy_and_model_ascend_together(plan_in):
    agent = apply(BASIS, {"plan_in": plan_in, "policy_updates": 40, "policy_rounds": 1, "chunk": 40, "beta": 6.0})
    state, _, _ = agent.propose(drive(agent, agent.init(ENV.spec, jax.random.key(0)), 2), SCHEDULE)
    improved: ActorCriticState = state.trained["improver"]
    assert improved.favourite is not None
    one, (point, _) = agent.world(state).optimist, improved.favourite
    norm = float(jnp.linalg.norm(point))
    assert float(one.radius) == pytest.approx(12**0.5, rel=1e-4)
    assert 0.05 < norm <= float(one.radius) * 1.001
    if plan_in == "penalty":
        assert agent.learner.belief == Penalty(beta=6.0)
