"""All suffixes, substrings and LIKE patterns of a program, looked for in one pass over a string.

Law: the work for a string grows with its length and with the patterns that it holds, never with the number of patterns
(Aho and Corasick 1975). Substrings are a trie with failure links, suffixes a trie of reversed texts that is walked from
the end. A LIKE pattern is looked for by its longest plain piece, and verified where that is found; one without a
plain piece hangs at the root and is always verified.

Both tries are one set of arrays; an edge is an entry of a hash table: (node, byte) to node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from udfs.jit import compiled
from udfs.like import like


class Patterns(NamedTuple):
    """The automaton. Node 2k is the root of the substrings of text slot k, node 2k + 1 that of its suffixes."""

    edge_keys: NDArray[np.int64]
    edge_nodes: NDArray[np.int32]
    fail: NDArray[np.int32]
    report: NDArray[np.int32]
    """The first node with tokens among the node and its failures, or -1."""
    token_starts: NDArray[np.int32]
    """Node n reports `tokens[token_starts[n]:token_starts[n + 1]]`."""
    tokens: NDArray[np.int32]
    like_starts: NDArray[np.int32]
    """Token t has the pattern `likes[like_starts[t]:like_starts[t + 1]]`; it is empty if t is plain."""
    likes: NDArray[np.int16]


def build(slots: int, roots: NDArray[np.int32], texts: list[bytes], likes: list[list[int]]) -> Patterns:
    """The automaton of the tokens 0, 1, …: token t is looked for under `roots[t]` as `texts[t]`.

    >>> patterns = build(1, np.array([0, 1], np.int32), [b"a", b"ba"], [[], []])
    >>> find_tokens(patterns, np.frombuffer(b"aba", np.uint8), 0, 3, 0)
    array([0, 1], dtype=int32)
    """
    data = np.frombuffer(b"".join(texts), np.uint8)
    starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    nodes = 2 * slots + len(data)
    size = 1 << (2 * nodes + 2).bit_length()
    edge_keys, edge_nodes = np.full(size, -1, np.int64), np.zeros(size, np.int32)
    parents, labels = np.zeros(nodes, np.int32), np.zeros(nodes, np.int64)
    ends = np.zeros(len(texts), np.int32)
    nodes = _grow(data, starts, roots, edge_keys, edge_nodes, parents, labels, ends, 2 * slots)
    order = np.argsort(ends, kind="stable").astype(np.int32)
    token_starts = np.searchsorted(ends[order], np.arange(nodes + 1)).astype(np.int32)
    fail, report = _link(edge_keys, edge_nodes, parents[:nodes], labels[:nodes], token_starts, 2 * slots)
    like_starts = np.cumsum([0, *map(len, likes)], dtype=np.int32)
    codes = np.array([code for some in likes for code in some], np.int16)
    return Patterns(edge_keys, edge_nodes, fail, report, token_starts, order, like_starts, codes)


@compiled
def _child(edge_keys: Any, edge_nodes: Any, node: int, byte: int) -> Any:
    """The node that the edge leads to, or -1."""
    key = np.int64(node) << 8 | np.int64(byte)
    mask = len(edge_keys) - 1
    at = (key * np.int64(-7046029254386353131) >> 20) & mask
    while edge_keys[at] >= 0:
        if edge_keys[at] == key:
            return edge_nodes[at]
        at = (at + 1) & mask
    return -1


@compiled
def _grow(
    data: Any,
    starts: Any,
    roots: Any,
    edge_keys: Any,
    edge_nodes: Any,
    parents: Any,
    labels: Any,
    ends: Any,
    nodes: int,
) -> Any:
    """Put every text into the trie; under an odd root, backwards."""
    mask = len(edge_keys) - 1
    for text in range(len(ends)):
        node = roots[text]
        for place in range(starts[text], starts[text + 1]):
            at = starts[text] + starts[text + 1] - 1 - place if roots[text] & 1 else place
            found = _child(edge_keys, edge_nodes, node, data[at])
            if found < 0:
                found = nodes
                key = np.int64(node) << 8 | np.int64(data[at])
                slot = (key * np.int64(-7046029254386353131) >> 20) & mask
                while edge_keys[slot] >= 0:
                    slot = (slot + 1) & mask
                edge_keys[slot], edge_nodes[slot] = key, found
                parents[found], labels[found] = node, data[at]
                nodes += 1
            node = found
        ends[text] = node
    return nodes


@compiled
def _link(edge_keys: Any, edge_nodes: Any, parents: Any, labels: Any, token_starts: Any, roots: int) -> Any:
    """Failure links, nodes in order of their depth; a root fails to itself."""
    nodes = len(parents)
    depths = np.zeros(nodes, np.int32)
    for node in range(roots, nodes):
        depths[node] = depths[parents[node]] + 1
    fail, report = np.arange(nodes).astype(np.int32), np.full(nodes, -1, np.int32)
    for node in np.argsort(depths, kind="mergesort")[roots:]:
        parent = parents[node]
        if parent < roots:
            fail[node] = parent
        else:
            near = fail[parent]
            found = _child(edge_keys, edge_nodes, near, labels[node])
            while found < 0 and near >= roots:
                near = fail[near]
                found = _child(edge_keys, edge_nodes, near, labels[node])
            fail[node] = found if found >= 0 else near
        report[node] = node if token_starts[node] < token_starts[node + 1] else report[fail[node]]
    return fail, report


@compiled
def _verify(patterns: Patterns, node: int, data: Any, start: int, stop: int, found: Any, count: int) -> Any:
    """Append the tokens of a node that the string really holds."""
    for place in range(patterns.token_starts[node], patterns.token_starts[node + 1]):
        token = patterns.tokens[place]
        first, last = patterns.like_starts[token], patterns.like_starts[token + 1]
        if first == last or like(data, start, stop, patterns.likes, first, last):
            found[count] = token
            count += 1
    return count


@compiled
def collect(patterns: Patterns, data: Any, start: int, stop: int, slot: int, stamp: int, seen: Any, found: Any) -> Any:
    """Write the tokens of a string into `found`, which has room for all; `seen` keeps a stamp per node."""
    edge_keys, edge_nodes, fail, report = patterns.edge_keys, patterns.edge_nodes, patterns.fail, patterns.report
    root = 2 * slot
    count = _verify(patterns, root, data, start, stop, found, 0)
    node = root
    for at in range(start, stop):
        child = _child(edge_keys, edge_nodes, node, data[at])
        while child < 0 and node != root:
            node = fail[node]
            child = _child(edge_keys, edge_nodes, node, data[at])
        node = child if child >= 0 else root
        hit = report[node]
        while hit >= 0 and seen[hit] != stamp:
            seen[hit] = stamp
            count = _verify(patterns, hit, data, start, stop, found, count)
            hit = report[fail[hit]]
    node = root + 1
    for back in range(stop - start):
        node = _child(edge_keys, edge_nodes, node, data[stop - 1 - back])
        if node < 0:
            break
        count = _verify(patterns, node, data, start, stop, found, count)
    found[:count].sort()
    return count


def find_tokens(patterns: Patterns, data: NDArray[np.uint8], start: int, stop: int, slot: int) -> NDArray[np.int32]:
    """The tokens that one string holds, ascending."""
    seen = np.full(len(patterns.fail), -1, np.int64)
    found = np.empty(len(patterns.tokens), np.int32)
    return found[: collect(patterns, data, start, stop, slot, 0, seen, found)]
