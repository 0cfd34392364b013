"""Figures of studies: sheets to draw on, panels, and the files they become."""
