"""Runs and their files: training, evaluation, storage, sweeps, the paper's experiments, reports, the command line."""
