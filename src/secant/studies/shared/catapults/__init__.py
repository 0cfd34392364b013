"""Networks that catapult: by a large step, by batches, by raised steps and under control."""
