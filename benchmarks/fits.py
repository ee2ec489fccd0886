"""How well runs of CT-MLE have fitted: a line each, with scores and what is believed after the last episode.

    python benchmarks/fits.py runs/learning/runs/*

`success` is the experience of the first policy that succeeded. `loss` is the mean of the fit's objective over the last
dynamics stage, `tail` the share of looks that the tail of the likelihood explains (networks only); `evidence` is that
of a basis, in nats per gap. `diffusion` is the learned one over the true one per coordinate, `fitting` and `planning`
are the seconds of all dynamics and policy stages. If the learned noise may be correlated, `gg'` has every entry of the
learned matrix over that of the true one, averaged over members and looks (`--observation angles` only).
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ctmle
from ctmle.lab.run import Run
from ctmle.lab.storage.run_folder import RunFolder
from ctmle.models.flow import noise_power

STAGES = ("dynamics", "policy")


def described(records: list[dict[str, Any]]) -> str:
    last = records[-1]
    pairs = zip(last.get("diffusion_learned", ()), last.get("diffusion_true", ()), strict=True)
    ratios = [f"{learned / true:.2f}" if true > 0 else f"{learned:.3f} (true: 0)" for learned, true in pairs]
    scores = " ".join(f"{record['score']:.3f}" for record in records)
    fitting, planning = (sum(record.get(f"{stage}_seconds", 0.0) for record in records) for stage in STAGES)
    fit = f"evidence {last['evidence']:.3g}" if "evidence" in last else f"loss {last['dynamics_loss']:.4g}"
    tail = f"; tail {last['tail_share']:.2%}" if "tail_share" in last else ""
    first = next((record for record in records if record["success"]), None)
    success = "-" if first is None else f"{first['experience_seconds']:.4g} s, {first['experience_looks']} looks"
    return (
        f"success {success}; scores {scores}; {fit}{tail}; diffusion {' '.join(ratios) or '-'};"
        f" fitting {fitting:.1f} s, planning {planning:.1f} s"
    )


def noise_entries(path: str) -> str:
    """Return the learned gg' over the true one, row by row."""
    result = ctmle.load(path)
    assert result.experiment is not None  # its environment is one of ours
    env, real = Run(result.experiment).simulated.env, np.asarray(result.data.real)
    states, controls = (jnp.asarray(np.asarray(column)[real]) for column in (result.data.states, result.data.controls))
    members = result.model.members
    y, u = (jnp.broadcast_to(column, (members, *column.shape)) for column in (states, controls))
    learned = jnp.mean(noise_power(result.model.diffusion(y, u), y), axis=(0, 1))
    true = jnp.mean(noise_power(jax.vmap(env.diffusion)(states, controls), states), axis=0)
    entries = zip(*(np.asarray(each)[np.tril_indices(len(true))] for each in (learned, true)), strict=True)
    return " ".join(f"{found / there:.2f}" if there else f"{found:.4f} (true: 0)" for found, there in entries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders of agents that fit a model")
    for path in parser.parse_args().runs:
        records = [record for record in RunFolder.open(path).read_metrics() if "score" in record]
        fitted = bool(records) and ("dynamics_loss" in records[-1] or "evidence" in records[-1])
        settings = RunFolder.open(path).read_settings()
        full = (settings.get("diffusion_matrix"), settings.get("observation")) == ("full", "angles")
        entries = f"; gg' {noise_entries(path)}" if fitted and full else ""
        print(f"{Path(path).name}: {described(records) if fitted else '-'}{entries}")


if __name__ == "__main__":
    main()
