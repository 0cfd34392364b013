"""Section 2.5: rates of convergence, and what they guarantee."""
