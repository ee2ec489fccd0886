"""Results of runs, and how they are shown: progress, tables, statistics and pictures."""
