"""Critical step sizes: of all samples, of a batch, and of second moments."""
