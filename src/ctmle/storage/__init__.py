"""What is kept: run folders and tensors."""

from ctmle.storage.run_folder import Checkpoint, RunFolder
from ctmle.storage.tensors import load_tree, save_tree

__all__ = ["Checkpoint", "RunFolder", "load_tree", "save_tree"]
