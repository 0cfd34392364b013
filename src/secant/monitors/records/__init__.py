"""Records of watched runs: their columns, their files, and the services that take their numbers."""
