"""Section 13.4: weight decay on scale-invariant losses."""
