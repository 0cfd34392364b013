"""Formulas on the pages: LaTeX as MathML that every browser sets well."""
