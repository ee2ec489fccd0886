"""What is kept: run folders and tensors. Only `trees` loads JAX."""

from ctmle.storage.run_folder import Checkpoint, RunFolder

__all__ = ["Checkpoint", "RunFolder"]
