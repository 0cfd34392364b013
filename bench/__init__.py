"""Speed, measured: each row is one piece of work, ours against a named peer or a stated limit, in one run."""
