"""What several studies of descent start from: losses to descend on, and random points near a saddle."""
