//! The rule that decides one topic.

use super::{AccessQuery, FirstMatch, Root, Tree, is_dollar, split_level};

impl Tree {
    /// The first rule that matches `topic` in any of the trees.
    #[inline]
    pub(crate) fn first_for_topic(
        &self,
        roots: impl Iterator<Item = Root>,
        query: AccessQuery<'_>,
        topic: &[u8],
    ) -> FirstMatch {
        let mut search = TreeSearch { tree: self, query, is_dollar: is_dollar(topic), first: FirstMatch::NONE };
        for Root(root) in roots {
            search.visit(root, Some(topic), true);
        }
        search.first
    }
}

struct TreeSearch<'t> {
    tree: &'t Tree,
    query: AccessQuery<'t>,
    is_dollar: bool,
    first: FirstMatch,
}

impl TreeSearch<'_> {
    /// `rest`: the levels after this node; `None` if the topic ends here. The recursion is no deeper than the rules,
    /// [`crate::limits::LEVELS_MAX`] levels.
    fn visit(&mut self, index: u32, rest: Option<&[u8]>, is_root: bool) {
        let Self { tree, query, .. } = *self;
        let node = tree.node(index);
        if node.first_rule() >= self.first.rule {
            return;
        }
        let is_dollar = is_root && self.is_dollar;
        if !is_dollar {
            // `a/#` matches `a` too.
            self.first.update(tree.below_ends(node), query.action);
        }
        let Some(rest) = rest else {
            self.first.update(tree.exact_ends(node), query.action);
            return;
        };
        let (level, behind) = split_level(rest);
        if let Some(child) = tree.text_child(index, node, level) {
            self.visit(child, behind, false);
        }
        for child in Tree::placeholder_children(node) {
            if tree.placeholder_matches(child, query.bindings, level, is_dollar) {
                self.visit(child, behind, false);
            }
        }
        if let Some(child) = Tree::any_child(node)
            && !is_dollar
        {
            self.visit(child, behind, false);
        }
    }
}
