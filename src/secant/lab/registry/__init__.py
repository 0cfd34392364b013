"""Studies and their options: how they are declared, and which there are."""
