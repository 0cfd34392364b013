"""Section 12.3: orders, scaling, hybrids."""
