"""Networks that catapult: after a large step, on batches, after raised steps, and under controllers."""
