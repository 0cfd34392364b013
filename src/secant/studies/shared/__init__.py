"""Experiments that several studies share: tasks, panels of figures, runs, and architectures by width."""
