"""Files on the disk: run folders and tensors. Only `trees` loads JAX."""

from ctmle.lab.storage.run_folder import Checkpoint, RunFolder

__all__ = ["Checkpoint", "RunFolder"]
