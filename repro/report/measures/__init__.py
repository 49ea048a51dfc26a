"""What tables, figures and claims compute from a group of runs, each measure in one place."""
