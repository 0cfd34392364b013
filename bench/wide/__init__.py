"""Rows of networks of infinite width."""
