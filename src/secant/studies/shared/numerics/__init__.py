"""Small numerical helpers of several studies: fits, orbits, differences, derivatives, tables."""
