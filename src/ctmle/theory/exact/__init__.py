"""Exact CT-MLE on classes that can be enumerated: the classes, the algorithm, and studies over noise, gaps and seeds.

Everything here works in double precision by itself.
"""

from ctmle.theory.exact.agent import ExactChoice, ExactCTMLE, ExactState, Play, confidence_set, play, stack
from ctmle.theory.exact.classes import FiniteClass, GivenClass, LinearClass, given_class, linear_class, walk
from ctmle.theory.exact.examples import CLASSES, feedback, hidden_arm, rotation, speed, volatility
from ctmle.theory.exact.lattice import Lattice, LatticeClass, saturated
from ctmle.theory.exact.linear import Affine, LinearLaw, MatrixLaw, Spiral, matrix_law
from ctmle.theory.exact.properties import class_returns, closed_loop_smoothness, hellinger_table
from ctmle.theory.exact.reward import Bump, total_variances, values
from ctmle.theory.exact.study import CaseResult, ExactCase, Looking, play_case, play_cases

__all__ = [
    "CLASSES",
    "Affine",
    "Bump",
    "CaseResult",
    "ExactCTMLE",
    "ExactCase",
    "ExactChoice",
    "ExactState",
    "FiniteClass",
    "GivenClass",
    "Lattice",
    "LatticeClass",
    "LinearClass",
    "LinearLaw",
    "Looking",
    "MatrixLaw",
    "Play",
    "Spiral",
    "class_returns",
    "closed_loop_smoothness",
    "confidence_set",
    "feedback",
    "given_class",
    "hellinger_table",
    "hidden_arm",
    "linear_class",
    "matrix_law",
    "play",
    "play_case",
    "play_cases",
    "rotation",
    "saturated",
    "speed",
    "stack",
    "total_variances",
    "values",
    "volatility",
    "walk",
]
