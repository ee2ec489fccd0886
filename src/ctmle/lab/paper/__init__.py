"""The paper's experiments: the runs that each needs, and what their results say about the paper's claims."""
