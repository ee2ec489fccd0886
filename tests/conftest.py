"""Tests run strict: shapes and types are checked at run time, dtypes are not promoted silently, warnings are errors."""

from collections.abc import Iterator

import hypothesis
import jax
import pytest
from jaxtyping import install_import_hook

install_import_hook("ctmle", "beartype.beartype").__enter__()
jax.config.update("jax_numpy_dtype_promotion", "strict")

# The first example of a shape pays for compilation, and a red build should be red again.
hypothesis.settings.register_profile("ctmle", deadline=None, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("ctmle")


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, where a test compares derivatives or small differences."""
    with jax.enable_x64(True):
        yield
