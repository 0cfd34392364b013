"""Tasks with known features, and training with batches of many sizes."""
