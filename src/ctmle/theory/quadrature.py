"""Composite Gauss-Legendre quadrature."""

import numpy as np
from jaxtyping import Float

POINTS = 8
"""Nodes per panel. A panel about as long as the integrand's own scale is integrated to about 1e-12."""


def nodes_and_weights(
    low: float, high: float, panels: int, points: int = POINTS
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Nodes and weights of `panels` equal panels with `points` Gauss-Legendre nodes each."""
    node, weight = np.polynomial.legendre.leggauss(points)
    edges = np.linspace(low, high, panels + 1)
    half = np.diff(edges)[:, None] / 2
    middle = (edges[:-1, None] + edges[1:, None]) / 2
    return (middle + half * node).ravel(), (half * weight).ravel()
