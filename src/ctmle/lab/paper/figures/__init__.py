"""The pictures of the experiments, beside the records that they draw."""
