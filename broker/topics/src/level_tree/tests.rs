use super::*;

fn path_of<P: Default>(tree: &LevelTree<P>, node: NodeId) -> String {
    let mut text = String::new();
    tree.append_path(node, &mut text);
    text
}

/// The labels of the children of `node` in order, checked against the backward links.
fn children(tree: &LevelTree<u32>, node: NodeId) -> Vec<String> {
    let mut labels = Vec::new();
    let mut last = None;
    let mut next = tree.first_child(node);
    while let Some(child) = next {
        assert_eq!(tree.parent(child), node);
        if let Some(last) = last {
            assert_eq!(tree.nodes[child.0].prev, NodeId::get(last));
        }
        labels.push(String::from_utf8(tree.label(child).to_vec()).expect("labels are cut from text"));
        last = Some(child);
        next = tree.next_sibling(child);
    }
    if let (Some(first), Some(last)) = (tree.first_child(node), last) {
        assert_eq!(tree.nodes[first.0].prev, last.get());
    }
    labels
}

fn put(tree: &mut LevelTree<u32>, path: &str, value: u32) -> NodeId {
    let node = tree.entry(path);
    *tree.payload_or_default(node).expect("the node was just made") = value;
    node
}

#[test]
fn a_path_that_shares_only_its_prefix_costs_one_node() {
    let mut tree = LevelTree::new();
    put(&mut tree, "w/1/+/x", 1);
    assert_eq!(tree.node_count(), 2);
    put(&mut tree, "w/2/+/x", 2);
    assert_eq!(tree.node_count(), 4, "root, w, and a tail each");
    assert_eq!(children(&tree, NodeId::ROOT), ["w"]);
    let shared = tree.find("w").expect("the common part became a node");
    assert_eq!(children(&tree, shared), ["1/+/x", "2/+/x"]);
}

#[test]
fn a_split_tail_keeps_its_node_payload_and_position() {
    let mut tree = LevelTree::new();
    let first = put(&mut tree, "a/b/c/d/e", 1);
    put(&mut tree, "z", 2);
    let second = put(&mut tree, "a/b/c/x", 3);
    assert_eq!(children(&tree, NodeId::ROOT), ["a", "z"]);
    assert_eq!(tree.payload(first), Some(&1));
    assert_eq!(tree.find("a/b/c/d/e"), Some(first));
    assert_eq!(tree.find("a/b/c/x"), Some(second));
    assert_eq!(path_of(&tree, first), "a/b/c/d/e");
    assert_eq!(tree.find("a/b/c/d"), None);
    let inner = put(&mut tree, "a/b", 4);
    assert_eq!(path_of(&tree, inner), "a/b");
    assert_eq!(tree.payload(inner), Some(&4));
}

#[test]
fn paths_inside_and_after_a_tail_are_distinguished() {
    let mut tree = LevelTree::new();
    let tail = put(&mut tree, "a/b", 1);
    assert_eq!(tree.find("a"), None);
    assert_eq!(tree.find("a/b/"), None);
    let above = put(&mut tree, "a", 2);
    let below = put(&mut tree, "a/b/", 3);
    assert_eq!([tree.payload(tail), tree.payload(above), tree.payload(below)], [Some(&1), Some(&2), Some(&3)]);
    assert_eq!(path_of(&tree, below), "a/b/");
}

#[test]
fn wildcards_are_first_among_children_in_any_insertion_order() {
    for order in [["x", "+", "#", "y"], ["#", "x", "y", "+"], ["+", "x", "y", "#"], ["x", "#", "y", "+"]] {
        let mut tree = LevelTree::new();
        for (value, path) in (0..).zip(order) {
            put(&mut tree, path, value);
        }
        assert_eq!(children(&tree, NodeId::ROOT), ["#", "+", "x", "y"]);
        assert_eq!(tree.hash_child(NodeId::ROOT), tree.find("#"));
        assert_eq!(tree.plus_child(NodeId::ROOT), tree.find("+"));
        for path in order {
            let node = tree.find(path).expect("it was put there");
            tree.take_payload(node);
            tree.prune(node, |_| false);
            assert_eq!(tree.find(path), None);
        }
        assert_eq!(tree.node_count(), 1);
        assert_eq!(tree.edges.len(), 0);
    }
}

#[test]
fn removing_first_middle_last_and_only_children_keeps_the_links() {
    for removal in [["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let mut tree = LevelTree::new();
        for path in ["a", "b", "c"] {
            put(&mut tree, path, 0);
        }
        let mut left = vec!["a", "b", "c"];
        for path in removal {
            let node = tree.find(path).expect("it was put there");
            tree.take_payload(node);
            tree.prune(node, |_| false);
            left.retain(|&other| other != path);
            assert_eq!(children(&tree, NodeId::ROOT), left);
        }
    }
}

#[test]
fn pruning_stops_at_nodes_in_use() {
    let mut tree = LevelTree::new();
    put(&mut tree, "a/b", 1);
    let below = put(&mut tree, "a/b/c/d", 2);
    tree.prune(below, |_| false);
    assert_eq!(tree.find("a/b/c/d"), Some(below), "a payload keeps its node");
    tree.take_payload(below);
    tree.prune(below, |node| node == below);
    assert!(tree.is_live(below), "an empty node stays while it is pinned");
    tree.prune(below, |_| false);
    assert_eq!(tree.find("a/b/c/d"), None);
    assert_eq!(tree.payload(tree.find("a/b").expect("it has a payload")), Some(&1));
    tree.prune(NodeId::ROOT, |_| false);
    tree.prune(NodeId(4_000_000), |_| false);
}

#[test]
fn an_emptied_large_tree_frees_its_memory() {
    let mut tree = LevelTree::new();
    let empty_bytes = tree.memory_bytes();
    let nodes: Vec<NodeId> =
        (0..5000).map(|i| put(&mut tree, &format!("some/quite/long/level/{i}-{:0>30}", i), i)).collect();
    assert!(tree.memory_bytes() > 5000 * size_of::<Node>());
    for node in nodes {
        tree.take_payload(node);
        tree.prune(node, |_| false);
    }
    assert_eq!(tree.node_count(), 1);
    assert_eq!(tree.memory_bytes(), empty_bytes);
}

#[test]
fn a_node_is_36_bytes() {
    assert_eq!(size_of::<Node>(), 36);
}
