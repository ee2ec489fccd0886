"""What is kept: run folders and tensors."""

from ctmle.storage.run_folder import RunFolder
from ctmle.storage.tensors import load_tree, read_metadata, save_tree

__all__ = ["RunFolder", "load_tree", "read_metadata", "save_tree"]
