"""Lecture of 10/12: wide networks reach zero loss, by their tangent kernel."""
