"""Work spread over devices is the same work."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import AGENT

import ctmle.training.devices as devices_module
from ctmle.envs import Pendulum
from ctmle.models import DiagonalNetwork
from ctmle.plants import simulate
from ctmle.schedules import Equidistant
from ctmle.training.devices import LARGE, mean_gradient, mesh_for

ENV = Pendulum(horizon=4.0)


def ensemble_of(members: int):
    return DiagonalNetwork(hidden=(8,), diffusion="constant").init(ENV.spec, jax.random.key(0), members)


@pytest.mark.parametrize(("members", "devices"), [(1, 1), (2, 2), (3, 1), (10, 2)])
def test_every_device_has_the_same_number_of_members(members, devices):
    mesh = mesh_for({"model": ensemble_of(members), "other": jnp.zeros(3)})
    assert (1 if mesh is None else mesh.size) == devices


def test_without_an_ensemble_there_is_nothing_to_spread():
    assert mesh_for((jnp.zeros((2, 2)),)) is None


def test_the_mean_gradient_over_devices_is_that_over_members():
    key = jax.random.key(1)
    points, shared = jax.random.normal(key, (2, 5, 2)), jnp.asarray([0.3, -0.7])

    def loss(shared, parts):
        ensemble, y = parts
        drift = ensemble.drift(y, y @ shared[:, None])
        return jnp.mean(drift**2), jnp.moveaxis(drift, 0, 1)

    arguments = shared, (ensemble_of(2), points)
    (value, extra), gradient = mean_gradient(loss, *arguments)
    with jax.set_mesh(mesh_for(arguments)):
        (spread_value, spread_extra), spread_gradient = eqx.filter_jit(mean_gradient)(loss, *arguments)
    np.testing.assert_allclose(spread_value, value, rtol=1e-6)
    np.testing.assert_allclose(spread_extra, extra, rtol=1e-6)
    np.testing.assert_allclose(spread_gradient, gradient, rtol=1e-5)


@pytest.mark.parametrize("samples", [6, 7])
@pytest.mark.parametrize("size", [3, LARGE + 1])
def test_the_mean_gradient_over_samples_is_theirs_whether_they_can_be_split_or_not(samples, size):
    key = jax.random.key(2)
    points, weights = jax.random.normal(key, (samples, size)), {"w": jnp.ones(size), "b": jnp.asarray(0.1)}

    def loss(weights, points):
        return jnp.mean((points @ weights["w"] + weights["b"]) ** 2) / size, None

    (value, _), gradient = mean_gradient(loss, weights, points)
    with jax.set_mesh(mesh_for(ensemble_of(2))):
        (spread_value, _), spread_gradient = eqx.filter_jit(mean_gradient)(loss, weights, points)
    np.testing.assert_allclose(spread_value, value, rtol=1e-5)
    for name in weights:
        np.testing.assert_allclose(spread_gradient[name], gradient[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("stage", [0, 1], ids=["dynamics", "policy"])
def test_spread_updates_are_those_on_one_device(stage, monkeypatch):
    """To rounding, which differs because sums are taken in another order; and what comes back is on one device."""
    agent, schedule = AGENT, Equidistant(0.125)
    state = agent.init(ENV.spec, jax.random.key(0))
    for number in range(2):
        state, policy, looks = agent.propose(state, schedule)
        state = agent.observe(state, simulate(ENV, policy, looks, jax.random.key(number), step=0.05))
    state = eqx.tree_at(lambda s: s.stage, state, jnp.asarray(stage, jnp.int32))
    spread = agent.advance(state, schedule)
    monkeypatch.setattr(devices_module, "mesh_for", lambda tree: None)
    alone = agent.advance(state, schedule)
    for a, b in zip(*(jax.tree.leaves(eqx.filter(s, eqx.is_inexact_array)) for s in (spread, alone)), strict=True):
        assert len(a.sharding.device_set) == 1
        assert jax.typeof(a).sharding.mesh.empty  # or whoever is given it would be traced anew
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
