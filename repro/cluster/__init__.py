"""Seeds as jobs of a cluster's queue (SLURM, through submitit): what was submitted lies beside the runs."""
