"""Tasks with known features, and training on batches of many sizes."""
