"""One dynamics update: what is trained, how gradients are clipped, how far optimism leans."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctmle.data import Dataset, sample_transitions, simulate
from ctmle.dynamics import Descent, Fit, NegativeLogLikelihood, SlicedScoreMatching, TransitionLaw, init_ensemble
from ctmle.dynamics.fit import LARGEST_LEAN, fit_updates, sample_losses
from ctmle.dynamics.loop import Span, Turn
from ctmle.dynamics.model import fit_scales, trained_part
from ctmle.envs import Pendulum
from ctmle.planning import Policy, init_feedback, random_signal
from ctmle.schedules import Equidistant

ENV = Pendulum(horizon=4.0)
SPEC = ENV.spec


def some_data() -> Dataset:
    data = None
    for number in range(2):
        key = jax.random.key(number)
        policy = Policy(init_feedback(SPEC, key, (8,)), random_signal(SPEC, key), jnp.zeros(()))
        looks = Equidistant(0.125).looks(key, 4.0)
        trajectory = simulate(ENV, policy, looks, key, step=0.05)
        data = (Dataset.empty(trajectory, 2) if data is None else data).add(trajectory)
    assert data is not None
    return data


def fit_with(objective, **changes) -> Fit:
    settings = {"control": "closed-loop", "chained": False, "subsequences": 5, "length": 5, "diffusion_rate": 10.0}
    return Fit(law=TransitionLaw(), objective=objective, descent=Descent(50, 2e-3), **(settings | changes))


def belief_in(data: Dataset, fit: Fit, members: int = 2):
    ensemble = init_ensemble(
        SPEC, jax.random.key(0), members=members, hidden=(16, 16), diffusion="constant", floor=0.01
    )
    return fit.init(fit_scales(ensemble, SPEC, data))


def signed_advantage(batch) -> jax.Array:
    """Of either sign, with a few samples far larger than the rest."""
    wave = jnp.sin(7.0 * batch.y[..., 1]) * jnp.exp(2.0 * jnp.abs(batch.y[..., 1]))
    return 3e-4 * wave


@pytest.mark.parametrize("objective", [NegativeLogLikelihood(), SlicedScoreMatching(0, False), SlicedScoreMatching(0)])
def test_optimism_reaches_its_share_of_the_gradient_and_no_sample_repels_the_model(objective):
    """The ratio is looked at where it acts: in gradients by the law's mean, sample by sample, and by parameters."""
    data, share = some_data(), 0.1
    fit = fit_with(objective)
    belief = belief_in(data, fit)
    key = jax.random.key(3)
    batch = sample_transitions(data, key, subsequences=5, length=5, chained=False)
    bonus = signed_advantage(batch)
    lean = jnp.clip(share * bonus / jnp.mean(jnp.abs(bonus)), -LARGEST_LEAN, LARGEST_LEAN)
    assert float(jnp.max(jnp.abs(lean))) == LARGEST_LEAN  # some samples are capped
    control = lambda t, y: jnp.zeros((*y.shape[:-1], 1))  # noqa: E731
    member = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, belief.ensemble)
    law = fit.law(member, control, batch.t, batch.y, batch.gap)
    residual = SPEC.observation.residual(batch.y_next, law.mean)

    of_fitting = jax.grad(lambda r: jnp.sum(objective(law, r, batch.gap, key)))
    of_planning = jax.grad(lambda r: jnp.sum(lean * objective.leverage(law, batch.gap) * law.log_prob(r)))
    fitting, planning = of_fitting(residual), of_planning(residual)
    along = jnp.sum(fitting * (fitting - planning), axis=-1)
    assert np.all(np.asarray(along) > 0)  # every sample still attracts the mean
    curved = [jax.jacfwd(gradient)(residual) for gradient in (of_fitting, of_planning)]
    of_samples = [np.einsum("gsigsj->gsij", curvature) for curvature in curved]
    ratios = np.abs(np.linalg.eigvals(np.linalg.solve(*of_samples))).max(axis=-1)
    assert 0.4 * share < ratios.mean() < 1.1 * share

    def by_parameters(weights):
        def loss(trained):
            ensemble = eqx.combine(trained, trained_part(belief.ensemble)[1])
            objective_, log_prob, leverage = sample_losses(fit, SPEC, ensemble, batch, key)
            return jnp.mean(weights[0] * objective_ + weights[1] * lean * leverage * log_prob)

        gradient = eqx.filter_grad(loss)(trained_part(belief.ensemble)[0])
        return np.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradient)))

    assert 0.001 < by_parameters((0.0, 1.0)) / by_parameters((1.0, 0.0)) < 0.3


def test_scales_are_measured_and_neither_differentiated_nor_known_to_the_optimiser():
    data, fit = some_data(), fit_with(NegativeLogLikelihood())
    belief = belief_in(data, fit)
    trained, fixed = trained_part(belief.ensemble)
    for name in ("input_scale", "drift_scale", "diffusion_ceiling"):
        assert getattr(trained, name) is None
        assert getattr(fixed, name) is not None
    counts = [len(jax.tree.leaves(eqx.filter(tree, eqx.is_array))) for tree in (trained, belief.optimiser)]
    assert counts[1] == 2 * counts[0] + 1  # Adam's two moments, and its counter
    after = fit_updates(fit, SPEC, data, None, jnp.asarray(0.0), belief, Span.of(0, 3, jax.random.key(0))).state
    for name in ("input_scale", "drift_scale", "diffusion_ceiling"):
        np.testing.assert_array_equal(getattr(after.ensemble, name), getattr(belief.ensemble, name))
    before, now = (b.ensemble.log_scale for b in (belief, after))
    assert before is not None
    assert now is not None
    assert not np.array_equal(before, now)


def test_each_member_is_clipped_by_its_own_norm():
    """A member whose gradient is a thousand times too large does not slow the others down."""
    descent = Descent(10, 1e-3, clip=1.0)
    parameters = jnp.zeros((2, 3))
    gradient = jnp.asarray([[1e3, 0.0, 0.0], [0.0, 0.5, 0.0]])
    turn = Turn(jnp.asarray(0), jnp.asarray(1.0), jax.random.key(0))
    norms = jnp.linalg.norm(gradient, axis=1)
    _, state = descent(parameters, gradient, norms, descent.init(parameters), turn)
    moments = next(leaf for leaf in jax.tree.leaves(state) if leaf.shape == (2, 3))
    np.testing.assert_allclose(moments, 0.1 * np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]]), rtol=1e-6)
