"""Tables, figures and verdicts from stored runs; nothing here trains anything."""
