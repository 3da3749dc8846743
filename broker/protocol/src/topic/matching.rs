/// Whether topic `name` matches `filter` (section 4.7).
///
/// `filter` excludes `$share/NAME/` (see [`crate::TopicFilter::matched`]). Levels are compared byte by byte, without any normalisation
/// `[MQTT-4.7.3-4]`. `a/#` matches `a` too. A filter that begins with a wildcard does not match a name that begins with `$`
/// `[MQTT-4.7.2-1]`. Ill-formed arguments give an unspecified result, never a panic.
pub fn topic_matches(filter: &str, name: &str) -> bool {
    let (filter, name) = (filter.as_bytes(), name.as_bytes());
    if name.first() == Some(&b'$') && matches!(filter.first(), Some(b'+' | b'#')) {
        return false;
    }
    let mut filter_levels = filter.split(|&byte| byte == b'/');
    let mut name_levels = name.split(|&byte| byte == b'/');
    loop {
        match (filter_levels.next(), name_levels.next()) {
            (Some(b"#"), _) => return true,
            (Some(b"+"), Some(_)) => {}
            (Some(wanted), Some(level)) if wanted == level => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::topic_matches;

    #[test]
    fn examples_of_the_standard_match() {
        for (filter, name) in [
            ("sport/tennis/player1/#", "sport/tennis/player1"),
            ("sport/tennis/player1/#", "sport/tennis/player1/ranking"),
            ("sport/#", "sport"),
            ("#", "a/b"),
            ("sport/+", "sport/"),
            ("+/+", "/finance"),
            ("/+", "/finance"),
            ("+/tennis/#", "sport/tennis/x"),
            ("$SYS/#", "$SYS/monitor/Clients"),
            ("$SYS/monitor/+", "$SYS/monitor/Clients"),
            ("a//b", "a//b"),
            ("a/+/b", "a//b"),
        ] {
            assert!(topic_matches(filter, name), "{filter} {name}");
        }
    }

    #[test]
    fn topics_that_must_not_match_do_not() {
        for (filter, name) in [
            ("sport/+", "sport"),
            ("+", "/finance"),
            ("#", "$SYS/x"),
            ("+/monitor/Clients", "$SYS/monitor/Clients"),
            ("a", "A"),
            ("a/b", "a"),
            ("a", "a/b"),
            ("/a", "a"),
            ("a/", "a"),
            ("a/#", "ab"),
            ("sport/tennis/+", "sport/tennis/player1/ranking"),
        ] {
            assert!(!topic_matches(filter, name), "{filter} {name}");
        }
    }
}
