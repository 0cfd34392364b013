"""Closed forms and exact reductions of the theory of training, one file a topic."""
