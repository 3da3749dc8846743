//! A set of patterns that finds the first one matching a subject.

use std::collections::BTreeMap;

/// A tree with a token on each edge.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    children: BTreeMap<String, Node>,
    /// The pattern that ends here.
    pattern: Option<String>,
}

impl Patterns {
    pub(super) fn insert(&mut self, pattern: &str) {
        let node =
            pattern.split('.').fold(&mut self.root, |node, token| node.children.entry(token.to_owned()).or_default());
        node.pattern = Some(pattern.to_owned());
    }

    pub(super) fn remove(&mut self, pattern: &str) {
        let tokens: Vec<_> = pattern.split('.').collect();
        self.root.remove(&tokens);
    }

    pub(super) fn contains(&self, pattern: &str) -> bool {
        let node = pattern.split('.').try_fold(&self.root, |node, token| node.children.get(token));
        node.is_some_and(|node| node.pattern.is_some())
    }

    /// Returns the first matching pattern in byte order.
    pub(super) fn first_match(&self, subject: &str) -> Option<&str> {
        let tokens: Vec<_> = subject.split('.').collect();
        self.root.first_match(&tokens)
    }
}

impl Node {
    fn remove(&mut self, tokens: &[&str]) {
        let Some((token, rest)) = tokens.split_first() else {
            self.pattern = None;
            return;
        };
        let Some(child) = self.children.get_mut(*token) else { return };
        child.remove(rest);
        if child.children.is_empty() && child.pattern.is_none() {
            self.children.remove(*token);
        }
    }

    /// No token of a subject begins with `*` or `>`, so at each level the order of tokens is the order of the patterns below them.
    fn first_match(&self, tokens: &[&str]) -> Option<&str> {
        let Some((token, rest)) = tokens.split_first() else { return self.pattern.as_deref() };
        let mut edges = [*token, "*", ">"];
        edges.sort_unstable();
        edges.into_iter().find_map(|edge| {
            let child = self.children.get(edge)?;
            if edge == ">" { child.pattern.as_deref() } else { child.first_match(rest) }
        })
    }
}
