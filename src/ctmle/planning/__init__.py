"""What we do: policies, imagined trajectories, the actor-critic, exploration."""

from ctmle.planning.actor_critic import (
    ActorCritic as ActorCritic,
    Critic as Critic,
    Improver as Improver,
    returns_to_go as returns_to_go,
)
from ctmle.planning.exploration import Exploration as Exploration, SmoothSignals as SmoothSignals, plain as plain
from ctmle.planning.policy import (
    Feedback as Feedback,
    Policy as Policy,
    Signal as Signal,
    init_feedback as init_feedback,
    random_signal as random_signal,
    silent_signal as silent_signal,
)
from ctmle.planning.rollout import Rollout as Rollout, rollout as rollout
from ctmle.planning.starts import Memory as Memory, MixedStarts as MixedStarts, Starts as Starts
