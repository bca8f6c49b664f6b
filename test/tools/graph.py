"""Owns: cycles of a directed graph."""


def cycles(edges):
    """edges: {node: nodes}. The sets of two or more nodes of which each reaches each other (Tarjan, without recursion)."""
    index, low, stack, found = {}, {}, [], []
    for root in sorted(edges):
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        work = [(root, iter(sorted(edges[root])))]
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        found.append(set(stack[at:]))
                    for done in stack[at:]:
                        low[done] = float("inf")
                    del stack[at:]
            elif target not in edges:
                continue
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                work.append((target, iter(sorted(edges[target]))))
            elif low[target] != float("inf"):
                low[node] = min(low[node], index[target])
    return found
