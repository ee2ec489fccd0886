"""Exact CT-MLE on classes that can be enumerated: the classes, the algorithm, and studies over noise, gaps and seeds.

Everything here works in double precision by itself.
"""

from ctmle.theory.exact.agent import (
    ExactChoice as ExactChoice,
    ExactCTMLE as ExactCTMLE,
    ExactState as ExactState,
    Play as Play,
    play as play,
    stack as stack,
)
from ctmle.theory.exact.classes import (
    FiniteClass as FiniteClass,
    GivenClass as GivenClass,
    LinearClass as LinearClass,
    class_returns as class_returns,
    closed_loop_smoothness as closed_loop_smoothness,
    given_class as given_class,
    hellinger_table as hellinger_table,
    linear_class as linear_class,
)
from ctmle.theory.exact.examples import (
    CLASSES as CLASSES,
    feedback as feedback,
    hidden_arm as hidden_arm,
    rotation as rotation,
    speed as speed,
    volatility as volatility,
)
from ctmle.theory.exact.lattice import LatticeClass as LatticeClass, saturated as saturated
from ctmle.theory.exact.linear import (
    Bump as Bump,
    LinearLaw as LinearLaw,
    MatrixLaw as MatrixLaw,
    Spiral as Spiral,
    matrix_law as matrix_law,
    total_variances as total_variances,
    values as values,
)
from ctmle.theory.exact.study import (
    CaseResult as CaseResult,
    ExactCase as ExactCase,
    Looking as Looking,
    play_cases as play_cases,
)
