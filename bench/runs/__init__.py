"""Rows of whole runs: the runner, training, sweeps, monitors."""
