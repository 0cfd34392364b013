"""The seventh lecture, of 9/26: learning rates in the kernel regime."""
