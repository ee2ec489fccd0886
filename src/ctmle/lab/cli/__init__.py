"""The command line: one module per command, with its settings and what it does."""
