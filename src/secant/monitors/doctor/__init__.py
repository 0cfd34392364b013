"""What a record says about its run: its spikes and what came before them, its regime, and advice."""
