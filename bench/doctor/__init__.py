"""Runs whose diagnosis is known, and tables of how often the doctor is right about them."""
