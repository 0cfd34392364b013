"""Runs on disk: what is stored of a run, under which key, and when it is computed anew."""
