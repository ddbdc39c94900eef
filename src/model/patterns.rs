//! A set of patterns, and how far a stream has come in them: the search behind the masking of secrets.
//!
//! It finds what the leftmost-longest search over the whole text would find, but byte by byte, and tells after
//! each byte what is decided. Which patterns there are is no affair of this file.
//!
//! # How it works
//!
//! The patterns are a tree of their prefixes. What of a stream is undecided is at any time the beginning of a
//! pattern, so it is a node of the tree and needs no buffer. When the next byte leads to no child of that node,
//! no pattern that begins where the undecided part begins can still come: the longest one that was met is a
//! match, or if there was none the first byte is plain. The search then begins anew behind that. What it finds in
//! the rest of the undecided part depends on the node alone; so all of it is worked out beforehand: what is
//! decided when a node is left (`matches`), and the node that is undecided then (`fallback`). This is the
//! construction of Aho and Corasick with other failure links, those of a leftmost-longest search. The crate of
//! that name has such links too but keeps them, and the depth of a state, to itself, and begins anew by reading
//! again.
//!
//! # Cost
//!
//! A byte makes the undecided part one byte longer, and each step to a fallback makes it shorter, for a fallback
//! is less deep than its node. So there are no more such steps than bytes, however the patterns overlap, and each
//! writes what it decides once. Building is linear in the patterns by the same argument.

use std::collections::BTreeMap;

/// What takes the place of a match.
pub(crate) const MASKED: &[u8] = b"***";

/// A set of patterns, ready to be searched for.
pub(crate) struct Patterns {
    /// Sorted, each once, none empty.
    patterns: Vec<Vec<u8>>,
    /// The nodes that a pattern shares with none before it stand in a row.
    nodes: Vec<Node>,
    /// The first of each such row, by the node and the byte that lead to it.
    branches: BTreeMap<(u32, u8), u32>,
    matches: Vec<Match>,
}

/// A prefix of a pattern.
struct Node {
    /// Its length.
    depth: u32,
    /// The first pattern that it is a prefix of.
    pattern: u32,
    /// What is undecided when this node is left: a suffix of this prefix, as a node. All before that is decided.
    fallback: u32,
    /// The last match in the part that is decided then, or [`NONE`].
    matches: u32,
}

/// A match within a prefix.
#[derive(Clone, Copy)]
struct Match {
    /// The match before it, or [`NONE`].
    previous: u32,
    start: u32,
    length: u32,
}

/// No pattern, no match.
const NONE: u32 = u32::MAX;

/// What of a stream is undecided: the beginning of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undecided(u32);

impl Undecided {
    /// Nothing is undecided.
    pub(crate) const NOTHING: Self = Self(0);
}

/// More than can be numbered: patterns of 4 GiB together.
#[derive(Debug)]
pub(crate) struct TooMuch;

/// Nodes that only one pattern made, in a row.
struct Row {
    first: u32,
    parent: u32,
    /// Of its first node.
    depth: usize,
    /// The pattern's length.
    end: usize,
}

impl Patterns {
    /// Makes a set of patterns, of which there may be duplicates; empty ones are left out.
    pub(crate) fn new(mut patterns: Vec<Vec<u8>>) -> Result<Self, TooMuch> {
        // In this order a pattern comes before those that it is the beginning of. So each has a row of its own,
        // whose last node is where the pattern ends.
        patterns.sort_unstable();
        patterns.dedup();
        patterns.retain(|pattern| !pattern.is_empty());
        let total =
            patterns.iter().try_fold(1_usize, |sum, pattern| sum.checked_add(pattern.len()));
        if total.is_none_or(|total| total >= NONE as usize) {
            return Err(TooMuch);
        }
        let root = Node { depth: 0, pattern: NONE, fallback: 0, matches: NONE };
        let mut set =
            Self { patterns, nodes: vec![root], branches: BTreeMap::new(), matches: Vec::new() };
        let rows = set.grow();
        set.link(rows);
        Ok(set)
    }

    /// The patterns, sorted, each once.
    pub(crate) fn all(&self) -> &[Vec<u8>] {
        &self.patterns
    }

    /// How many bytes of the stream are undecided.
    pub(crate) fn length(&self, undecided: Undecided) -> usize {
        self.node(undecided.0).depth as usize
    }

    /// Takes the next byte of the stream, appends what is decided by it to `out`, matches masked, and returns
    /// what is then undecided.
    pub(crate) fn step(&self, undecided: Undecided, byte: u8, out: &mut Vec<u8>) -> Undecided {
        let mut node = undecided.0;
        loop {
            if let Some(child) = self.child(node, byte) {
                if self.is_pattern(child) && !self.has_branches(child) {
                    // Nothing longer can come, and it need not wait for the byte that would tell.
                    self.decide(child, out);
                    return Undecided::NOTHING;
                }
                return Undecided(child);
            }
            if node == 0 {
                out.push(byte);
                return Undecided::NOTHING;
            }
            node = self.decide(node, out);
        }
    }

    /// Appends what was undecided to `out`, matches masked; the stream has ended.
    pub(crate) fn finish(&self, undecided: Undecided, out: &mut Vec<u8>) {
        let mut node = undecided.0;
        while node != 0 {
            node = self.decide(node, out);
        }
    }

    /// Appends what is decided when a node is left, and returns its fallback.
    fn decide(&self, node: u32, out: &mut Vec<u8>) -> u32 {
        let left = self.node(node);
        let length = left.depth - self.node(left.fallback).depth;
        let text = &self.patterns[left.pattern as usize][..length as usize];
        let mut plain = 0;
        for found in self.matches_of(node) {
            out.extend_from_slice(&text[plain..found.start as usize]);
            out.extend_from_slice(MASKED);
            plain = (found.start + found.length) as usize;
        }
        out.extend_from_slice(&text[plain..]);
        left.fallback
    }

    /// The matches in what is decided when a node is left, in order.
    fn matches_of(&self, node: u32) -> impl Iterator<Item = Match> + use<> {
        let mut found = Vec::new();
        let mut next = self.node(node).matches;
        while let Some(one) = self.matches.get(next as usize) {
            found.push(*one);
            next = one.previous;
        }
        found.into_iter().rev()
    }

    fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    /// The prefix that is longer by this byte, if it is one of a pattern.
    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let Node { depth, pattern, .. } = *self.node(node);
        let in_row =
            self.patterns.get(pattern as usize).and_then(|bytes| bytes.get(depth as usize));
        if in_row == Some(&byte) {
            return Some(node + 1);
        }
        self.branches.get(&(node, byte)).copied()
    }

    /// Whether a node is a whole pattern.
    fn is_pattern(&self, node: u32) -> bool {
        let Node { depth, pattern, .. } = *self.node(node);
        self.patterns.get(pattern as usize).is_some_and(|bytes| bytes.len() == depth as usize)
    }

    fn has_branches(&self, node: u32) -> bool {
        self.branches.range((node, 0)..=(node, u8::MAX)).next().is_some()
    }

    /// Makes the tree, without fallbacks and matches, and returns its rows.
    fn grow(&mut self) -> Vec<Row> {
        let mut rows = Vec::with_capacity(self.patterns.len());
        for index in 0..self.patterns.len() {
            let end = self.patterns[index].len();
            let (mut parent, mut depth) = (0, 0);
            while let Some(child) = self.child(parent, self.patterns[index][depth]) {
                parent = child;
                depth += 1;
            }
            let first = number(self.nodes.len());
            self.branches.insert((parent, self.patterns[index][depth]), first);
            rows.push(Row { first, parent, depth: depth + 1, end });
            let pattern = number(index);
            self.nodes.extend((depth + 1..=end).map(|depth| Node {
                depth: number(depth),
                pattern,
                fallback: 0,
                matches: NONE,
            }));
        }
        rows
    }

    /// Works out the fallback and the matches of each node, those of shorter prefixes first.
    fn link(&mut self, mut rows: Vec<Row>) {
        rows.sort_by_key(|row| row.depth);
        let mut waiting = rows.into_iter().peekable();
        let mut under_way: Vec<Row> = Vec::new();
        let mut depth = 1;
        while !under_way.is_empty() || waiting.peek().is_some() {
            while let Some(row) = waiting.next_if(|row| row.depth == depth) {
                under_way.push(row);
            }
            for row in &under_way {
                let node = row.first + number(depth - row.depth);
                let parent = if depth == row.depth { row.parent } else { node - 1 };
                self.link_node(node, parent);
            }
            depth += 1;
            under_way.retain(|row| depth <= row.end);
        }
    }

    fn link_node(&mut self, node: u32, parent: u32) {
        let Node { depth, pattern, .. } = *self.node(node);
        if self.is_pattern(node) {
            // It is the longest that was met: all of it is one match.
            self.add_match(node, Match { previous: NONE, start: 0, length: depth });
            return;
        }
        if parent == 0 {
            return;
        }
        // The search that began anew in the parent goes on with one byte more.
        let byte = self.patterns[pattern as usize][depth as usize - 1];
        let Node { mut fallback, matches, .. } = *self.node(parent);
        self.nodes[node as usize].matches = matches;
        self.nodes[node as usize].fallback = loop {
            if let Some(child) = self.child(fallback, byte) {
                break child;
            }
            if fallback == 0 {
                break 0;
            }
            let begin = depth - 1 - self.node(fallback).depth;
            for found in self.matches_of(fallback) {
                let previous = self.node(node).matches;
                self.add_match(node, Match { previous, start: begin + found.start, ..found });
            }
            fallback = self.node(fallback).fallback;
        };
    }

    fn add_match(&mut self, node: u32, found: Match) {
        self.nodes[node as usize].matches = number(self.matches.len());
        self.matches.push(found);
    }
}

/// A length or an index of something that there are no more of than bytes in the patterns.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("the total was checked")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn a_set_may_be_empty() {
        let set = Patterns::new(vec![Vec::new()]).expect("it is little");
        let mut out = Vec::new();
        assert_eq!(set.step(Undecided::NOTHING, b'a', &mut out), Undecided::NOTHING);
        assert_eq!((set.all().len(), &out[..]), (0, &b"a"[..]));
    }

    proptest! {
        /// The argument for the cost: see the top of the file.
        #[test]
        fn each_fallback_is_shorter_and_each_match_is_decided_with_its_own_bytes(
            patterns in prop::collection::vec("[ab]{1,9}", 0..9),
        ) {
            let total: usize = patterns.iter().map(String::len).sum();
            let set = Patterns::new(patterns.into_iter().map(String::into_bytes).collect()).expect("it is little");
            prop_assert!(set.nodes.len() <= total + 1);
            prop_assert!(set.matches.len() <= total);
            for index in 1..number(set.nodes.len()) {
                let node = set.node(index);
                let fallback = set.node(node.fallback);
                prop_assert!(fallback.depth < node.depth);
                let prefix = |node: &Node| set.patterns[node.pattern as usize][..node.depth as usize].to_vec();
                if fallback.depth > 0 {
                    prop_assert!(prefix(node).ends_with(&prefix(fallback)));
                }
                let mut end = 0;
                for found in set.matches_of(index) {
                    prop_assert!(found.length > 0 && found.start >= end);
                    end = found.start + found.length;
                    let text = prefix(node)[found.start as usize..end as usize].to_vec();
                    prop_assert!(set.patterns.contains(&text));
                }
                prop_assert!(end <= node.depth - fallback.depth);
            }
            prop_assert_eq!(set.length(Undecided::NOTHING), 0);
        }
    }
}
