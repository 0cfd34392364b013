"""Kernels between all pairs of samples: in blocks, on the cores of a processor, or as series of the angle alone."""
