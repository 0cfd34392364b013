"""From a list of edges to layers; errors name what is wrong with the list."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

Sources = dict[Hashable, list[Hashable]]
"""For every neuron those it reads."""


def order(
    edges: Iterable[tuple[Hashable, Hashable]],
    inputs: Sequence[Hashable] | None,
    outputs: Sequence[Hashable] | None,
    outputs_anywhere: bool,
) -> tuple[list[Sources], list[Hashable]]:
    """The layers by longest path, the inputs first, with what each neuron reads; and the outputs."""
    sources = _sources(edges)
    read = {source for own in sources.values() for source in own}
    if inputs is None:
        inputs = [neuron for neuron, own in sources.items() if not own]
    else:
        for neuron in inputs:
            if sources.setdefault(neuron, []):
                raise ValueError(f"edges: input {neuron!r} has an incoming edge from {sources[neuron][0]!r}.")
    given = set(inputs)
    for neuron, own in sources.items():
        if not own and neuron not in given:
            raise ValueError(
                f"edges: neuron {neuron!r} has no incoming edge and is not among `inputs`, so it has no value. "
                "Give it an edge, or add it to `inputs`."
            )
    level = _levels(sources, inputs)
    if outputs is None:
        outputs = [neuron for neuron in sources if neuron not in read and neuron not in given]
    for neuron in outputs:
        if neuron not in sources:
            raise ValueError(f"edges: output {neuron!r} has no edge. Add one that ends in it.")
    depth = max(level.values())
    early = [neuron for neuron in outputs if level[neuron] < depth]
    if early and not outputs_anywhere:
        raise ValueError(
            f"edges: output {early[0]!r} lies in layer {level[early[0]]}, but the last layer is {depth}. "
            "Pass outputs_anywhere=True if that is meant, or name the `outputs`."
        )
    layers: list[Sources] = [{} for _ in range(depth + 1)]
    layers[0] = {neuron: [] for neuron in inputs}
    for neuron, own in sources.items():
        if own:
            layers[level[neuron]][neuron] = own
    return layers, list(outputs)


def _sources(edges: Iterable[tuple[Hashable, Hashable]]) -> Sources:
    sources: Sources = {}
    seen: set[tuple[Hashable, Hashable]] = set()
    for edge in edges:
        start, end = edge
        if start == end:
            raise ValueError(f"edges: neuron {start!r} has an edge to itself.")
        if (start, end) in seen:
            raise ValueError(f"edges: the edge from {start!r} to {end!r} is there twice. Pass every edge once.")
        seen.add((start, end))
        sources.setdefault(start, [])
        sources.setdefault(end, []).append(start)
    if not sources:
        raise ValueError("edges: there is none. Pass at least one pair (from, to).")
    return sources


def _levels(sources: Mapping[Hashable, list[Hashable]], inputs: Sequence[Hashable]) -> dict[Hashable, int]:
    """Length of the longest path to each neuron."""
    targets: Sources = {neuron: [] for neuron in sources}
    for neuron, own in sources.items():
        for source in own:
            targets[source].append(neuron)
    level = dict.fromkeys(inputs, 0)
    waiting = {neuron: len(own) for neuron, own in sources.items()}
    ready = list(inputs)
    while ready:
        source = ready.pop()
        for neuron in targets[source]:
            level[neuron] = max(level.get(neuron, 0), level[source] + 1)
            waiting[neuron] -= 1
            if not waiting[neuron]:
                ready.append(neuron)
    left = {neuron for neuron, count in waiting.items() if count}
    if left:
        cycle = " -> ".join(map(repr, _cycle(sources, left)))
        raise ValueError(f"edges: there is a cycle, {cycle}. Leave out one of its edges.")
    return level


def _cycle(sources: Mapping[Hashable, list[Hashable]], left: set[Hashable]) -> list[Hashable]:
    """A cycle among neurons that each read another of them."""
    path: list[Hashable] = [next(neuron for neuron in sources if neuron in left)]
    while path[-1] not in path[:-1]:
        path.append(next(source for source in sources[path[-1]] if source in left))
    return path[path.index(path[-1]) :][::-1]
