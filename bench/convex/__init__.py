"""Rows of convex problems: margins, interpolants, worst cases, and whether their answers agree with other solvers."""
