"""Best test loss and accuracy against the step size."""
