"""Update rules as Maps: descent in any norm, by mirrors, by curvature, with noise."""
