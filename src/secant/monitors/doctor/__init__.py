"""What a record says about its run: spikes and what came before, regimes, and advice."""
